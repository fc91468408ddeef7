"""explain(): the decision in words, without a GPU."""

import pytest

import fa3_matrix
from fa3_matrix.errors import DriverError
from fa3_matrix.matrix import Serves
from fa3_matrix.ops import builds, explain, library


@pytest.fixture
def used(monkeypatch, make_build, make_variant):
    cells = (
        make_build("sm_80", make_variant(), cell="sm80-cu133"),
        make_build("sm_90a", cell="sm90-cu133"),
        make_build("compute_90", cell="sm100-cu124"),
    )
    monkeypatch.setattr(builds._active, "builds", cells)
    return cells


def test_decision_and_rejections(used):
    decision = fa3_matrix.explain(
        seqlen_q=64, seqlen_k=4096, head_dim=72, causal=True, compute_capability="9.0"
    )
    assert decision.cell == "sm90-cu133"
    assert decision.variant.name == "fa3_fwd_sm90_bf16_d128_m64n64"
    reasons = {str(rejection) for rejection in decision.rejected}
    assert "sm80-cu133: sm_80 runs on 8.0 to 8.9, this GPU is 9.0" in reasons
    assert "sm100-cu124: sm90-cu133 serves the call and comes first" in reasons
    assert "fa3_fwd_sm90_bf16_d64_m64n64: it is compiled for head_dim 64, too small" in reasons
    assert (
        "fa3_fwd_sm90_bf16_d256_m64n64: it is compiled for head_dim 256, and 128 suffices"
        in reasons
    )
    assert "fa3_fwd_sm90_bf16_d128_m128n64: it serves query rows from 65" in reasons
    assert "fa3_fwd_sm90_fp16_d128_m64n64: it is for fp16" in reasons
    # Every build and, in those that run here, every variant is accounted for.
    assert len(reasons) == 2 + len(used[1].variants) - 1
    assert str(decision).startswith(
        "bf16, head_dim 72, causal mask, aligned, seqlen_q 64, seqlen_k 4096, group 1 on"
    )


def test_a_candidate_serves_nothing(monkeypatch, make_build, make_variant):
    proven, candidate = make_variant(), make_variant(block_m=192, candidate="not yet proven")
    build = make_build("sm_90a", candidate, proven)
    builds.create(build)  # nor does it collide with the variant that serves the same classes
    monkeypatch.setattr(builds._active, "builds", (build,))
    decision = fa3_matrix.explain(seqlen_q=99, seqlen_k=99, head_dim=64, compute_capability="9.0")
    assert decision.variant == proven
    assert [str(rejection) for rejection in decision.rejected] == [
        f"{candidate.name}: it is a candidate: not yet proven"
    ]


@pytest.mark.parametrize(
    ("seqlen_q", "causal", "rows", "reason"),
    [
        (2000, True, 192, "it serves query rows from 65 to 1024"),
        (999, False, 192, "it serves only the masks causal, local"),
        (999, True, 128, "it serves query rows from 1025 or only the masks full"),
        (50, True, None, "it serves query rows from 1025 or only the masks full"),
        (50, False, None, "it serves query rows from 1025 or query rows from 65 to 1024"),
    ],
)
def test_a_kernel_of_several_sets_is_chosen_or_rejected_once(
    make_build, make_variant, seqlen_q, causal, rows, reason
):
    long, full = Serves(log2_seqlen_q=(11, 16)), Serves(log2_seqlen_q=(7, 10), masks=("full",))
    build = make_build(
        "sm_90a",
        make_variant(serves=(long, full), block_m=192),
        make_variant(log2_seqlen_q=(7, 10), masks=("causal", "local"), block_m=128),
    )
    problem = explain.problem_of(
        dtype="bf16", head_dim=64, seqlen_q=seqlen_q, seqlen_k=4096, causal=causal
    )
    chosen, rejected = explain.choose(build, problem)
    assert (chosen.block_m if chosen else None) == rows
    assert [r.variant for r in rejected] == [
        variant.name for variant in build.variants if variant.block_m != rows
    ]
    assert rejected[0].reason == reason


@pytest.mark.parametrize("layout", library.LAYOUT_NUMBERS)
def test_layout_is_a_reason(monkeypatch, make_build, make_variant, layout):
    each = {
        name: make_variant(layouts=(name,), block_m=block_m)
        for name, block_m in zip(library.LAYOUT_NUMBERS, (192, 128, 64, 32), strict=True)
    }
    monkeypatch.setattr(builds._active, "builds", (make_build("sm_90a", *each.values()),))
    decision = fa3_matrix.explain(
        seqlen_q=99, seqlen_k=99, head_dim=64, layout=layout, compute_capability="9.0"
    )
    assert decision.variant == each[layout]
    assert [str(rejection) for rejection in decision.rejected] == [
        f"{variant.name}: it serves {name} tensors only"
        for name, variant in each.items()
        if name != layout
    ]


def test_a_variant_may_serve_some_layouts(make_build, make_variant):
    problem = explain.problem_of(
        dtype="bf16", head_dim=64, seqlen_q=99, seqlen_k=99, layout="paged"
    )
    chosen, rejected = explain.choose(make_build("sm_90a", make_variant()), problem)
    assert chosen is None
    assert rejected[0].reason == "it serves aligned and unaligned tensors only"


@pytest.mark.usefixtures("used")
def test_ptx_serves_newer_gpus():
    decision = fa3_matrix.explain(
        seqlen_q=1, seqlen_k=1, head_dim=64, dtype="torch.float16", compute_capability=(12, 0)
    )
    assert decision.cell == "sm100-cu124"
    assert decision.problem.dtype == "fp16"


@pytest.mark.usefixtures("used")
def test_nothing_serves():
    decision = fa3_matrix.explain(seqlen_q=1, seqlen_k=1, head_dim=64, compute_capability=(7, 5))
    assert (decision.cell, decision.variant) == (None, None)
    assert "nothing serves it" in str(decision)


@pytest.mark.parametrize("group,rows", [(1, 16), (4, 64), (8, 64)])
def test_heads_of_a_group_are_rows(monkeypatch, make_build, make_variant, group, rows):
    few, many = (
        make_variant(log2_seqlen_q=(0, 2), block_m=16),
        make_variant(log2_seqlen_q=(3, 6), block_m=64),
    )
    build = make_build("sm_90a", few, many)
    monkeypatch.setattr(builds._active, "builds", (build,))
    decision = fa3_matrix.explain(
        seqlen_q=4, seqlen_k=99, head_dim=64, group=group, compute_capability="9.0"
    )
    assert decision.variant.block_m == rows


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize(
    "changed,wording",
    [
        ({"dtype": "float32"}, "dtype is float32; bf16 and fp16"),
        ({"head_dim": 264}, "head_dim is 264"),
        ({"head_dim": 12}, "head_dim is 12"),
        ({"seqlen_k": -1}, "seqlen_k is -1"),
        ({"group": 0}, "group is 0"),
        (
            {"layout": "diagonal"},
            "layout is 'diagonal'; aligned, unaligned, paged, paged_aligned exist",
        ),
        ({"compute_capability": "hopper"}, "not a compute capability"),
    ],
)
def test_wrong_arguments(changed, wording):
    arguments = {"seqlen_q": 1, "seqlen_k": 1, "head_dim": 64, "compute_capability": "9.0"}
    with pytest.raises(ValueError, match=wording):
        fa3_matrix.explain(**(arguments | changed))


@pytest.mark.usefixtures("used")
def test_without_capability_asks_the_driver():
    try:
        capability = library.device_capability()
    except DriverError:
        with pytest.raises(DriverError, match=r"no NVIDIA driver|refused cuInit|no CUDA device"):
            fa3_matrix.explain(seqlen_q=1, seqlen_k=1, head_dim=64)
    else:
        decision = fa3_matrix.explain(seqlen_q=1, seqlen_k=1, head_dim=64)
        assert decision.compute_capability == capability
