"""The host library's table against its statement in Python, for any table of variants."""

import ctypes
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix import matrix
from fa3_matrix.errors import BuildError, NoKernelError
from fa3_matrix.matrix import Serves, selection
from fa3_matrix.matrix.model import LAYOUTS, MASKS
from fa3_matrix.matrix.selection import log2_seqlen, query_rows
from fa3_matrix.ops import builds, library
from fa3_matrix.ops.explain import Problem, choose

LENGTHS = st.one_of(st.integers(0, 200), st.integers(0, 200_000), st.sampled_from([2**31, 2**40]))


@st.composite
def disjoint_variants(draw, make_variant):
    """Variants that serve no class twice: a random partition of each (dtype, head_dim), with gaps, dealt to kernels."""
    variants = []
    for dtype in draw(st.sets(st.sampled_from(["bf16", "fp16"]), min_size=1)):
        for head_dim in draw(st.sets(st.integers(1, 32).map(lambda n: 8 * n), max_size=4)):
            cut_q, cut_k = draw(st.integers(0, 15)), draw(st.integers(0, 15))
            masks = draw(st.permutations(MASKS))
            split = draw(st.integers(0, 3))
            order, cut = draw(st.permutations(LAYOUTS)), draw(st.integers(1, 4))
            layouts = [part for part in (order[:cut], order[cut:]) if part]
            sets: dict[int, list[Serves]] = {}  # by block_m
            for part, layout, q, k in itertools.product(
                (masks[:split], masks[split:]),
                layouts,
                ((0, cut_q), (cut_q + 1, 16)),
                ((0, cut_k), (cut_k + 1, 16)),
            ):
                if part and draw(st.integers(0, 4)):
                    block_m = draw(st.sampled_from([64, 128, 192]))
                    sets.setdefault(block_m, []).append(Serves(q, k, tuple(part), tuple(layout)))
            variants += [
                make_variant(dtype, head_dim, serves=tuple(serves), block_m=block_m)
                for block_m, serves in sets.items()
            ]
    return draw(st.permutations(variants))


problems = st.builds(
    Problem,
    st.sampled_from(["bf16", "fp16"]),
    st.integers(1, 32).map(lambda n: 8 * n),
    st.sampled_from(MASKS),
    LENGTHS,
    LENGTHS,
    st.sampled_from(LAYOUTS),
    st.integers(1, 16),
)


def selected(handle: int, problem: Problem) -> int:
    return library.read_int(
        "fa3_select",
        handle,
        library.DTYPE_NUMBERS[problem.dtype],
        problem.head_dim,
        library.MASK_NUMBERS[problem.mask],
        library.LAYOUT_NUMBERS[problem.layout],
        query_rows(problem.seqlen_q, problem.group),
        problem.seqlen_k,
    )


@given(data=st.data())
def test_table_equals_statement(data, make_variant, make_build):
    variants = data.draw(disjoint_variants(make_variant))
    build = make_build("sm_90a", *variants)
    handle = builds.create(build)
    for problem in data.draw(st.lists(problems, min_size=20, max_size=20)):
        chosen, rejected = choose(build, problem)
        index = selected(handle, problem)
        assert (build.variants[index] if index >= 0 else None) == chosen
        others = [variant.name for variant in build.variants if variant is not chosen]
        assert [r.variant for r in rejected] == others


@pytest.mark.parametrize("arch", ["sm80", "sm90", "sm100"])
def test_table_equals_matrix(arch, make_variant, make_build):
    """Every class of ci/matrix.toml, through the host library."""
    stated = matrix.load()
    rows = [v for v in stated.variants(arch) if not v.candidate]
    build = make_build(
        "sm_90a",
        *(
            make_variant(
                *(v.dtype, v.head_dim),
                serves=v.serves,
                block_m=v.block_m,
                tma_columns=v.tma_columns,
                splits_keys=v.splits_keys,
            )
            for v in rows
        ),
    )
    handle = builds.create(build)
    for index, variant in selection.table(stated, arch).items():
        seqlens = 2**index.log2_seqlen_q, 2**index.log2_seqlen_k
        problem = Problem(index.dtype, index.head_dim, index.mask, *seqlens, index.layout)
        assert rows[selected(handle, problem)] == variant, index


@given(LENGTHS)
def test_log2_seqlen(seqlen):
    bucket = log2_seqlen(seqlen)
    assert bucket == 16 or seqlen <= 2**bucket
    assert bucket == 0 or seqlen > 2 ** (bucket - 1)


def test_two_variants_for_one_class(make_variant, make_build):
    twice = make_variant(log2_seqlen_q=(0, 7)), make_variant(log2_seqlen_q=(7, 16), block_m=64)
    with pytest.raises(BuildError, match=r"sm90-cu133: variants .*m128n64 and .*m64n64 both serve"):
        builds.create(make_build("sm_90a", *twice))


def test_two_sets_of_one_variant_for_one_class(make_variant, make_build):
    twice = make_variant(serves=(Serves(), Serves(masks=("causal",))))
    with pytest.raises(BuildError, match=r"sm90-cu133: variants (.*m128n64) and \1 both serve"):
        builds.create(make_build("sm_90a", twice))


def test_a_variant_without_a_set_serves_nothing(make_variant, make_build):
    wider = make_variant(head_dim=96)
    handle = builds.create(make_build("sm_90a", make_variant(serves=()), wider))
    assert selected(handle, Problem("bf16", 64, "full", 5, 5, "aligned")) == 1


def test_a_set_belongs_to_a_variant_of_an_unfinished_build(make_variant, make_build):
    build = make_build("sm_90a", make_variant())
    everything = library.ServesStruct((0, 16), (0, 16), 7, 1)
    made = library.call("fa3_build_create", b"new", build.forward_abi, 90, 90, False)
    with pytest.raises(ValueError, match="build new has no variant 0"):
        library.call("fa3_build_add_serves", made, 0, ctypes.byref(everything))
    with pytest.raises(BuildError, match="build sm90-cu133 is finished"):
        library.call("fa3_build_add_serves", builds.create(build), 0, ctypes.byref(everything))


def test_an_unfinished_build_serves_nothing_and_a_finished_one_stays(make_variant, make_build):
    abi = make_build("sm_90a").forward_abi
    made = library.call("fa3_build_create", b"new", abi, 90, 90, False)
    assert selected(made, Problem("bf16", 64, "full", 5, 5, "aligned")) == -1
    handle = builds.create(make_build("sm_90a", make_variant()))
    with pytest.raises(BuildError, match="is finished already"):
        library.call("fa3_build_finish", handle)


def test_impossible_variant(make_variant, make_build):
    with pytest.raises(BuildError, match="impossible values"):
        builds.create(make_build("sm_90a", make_variant(serves=(Serves(), Serves((3, 17))))))
    with pytest.raises(BuildError, match="impossible values"):
        builds.create(make_build("sm_90a", make_variant(tma_columns=48)))
    for layouts in (("aligned", "unaligned"), ("paged",)):
        with pytest.raises(BuildError, match="loads by TMA, so it can serve aligned tensors only"):
            builds.create(make_build("sm_90a", make_variant(layouts=layouts, tma_columns=64)))
    tall = make_variant(layouts=("paged_aligned",), tma_columns=64, block_m=192)
    with pytest.raises(BuildError, match="192 x 64 can't load pages"):
        builds.create(make_build("sm_90a", tall))
    for layout in ("paged", "paged_aligned"):
        with pytest.raises(BuildError, match="can't read a page table"):
            builds.create(make_build("sm_90a", make_variant(layouts=(layout,), splits_keys=0)))


def test_by_tma_from_pages_too(make_variant, make_build):
    aligned = ("aligned", "paged_aligned")
    handle = builds.create(make_build("sm_90a", make_variant(layouts=aligned, tma_columns=64)))
    for layout in LAYOUTS:
        served = selected(handle, Problem("bf16", 64, "full", 5, 5, layout)) == 0
        assert served == (layout in aligned)


def decide(capability: int, *, head_dim: int = 64, layout: str = "aligned") -> tuple[int, int]:
    build, variant = ctypes.c_int32(), ctypes.c_int32()
    library.call(
        "fa3_decide",
        capability,
        15,
        head_dim,
        *(0, library.LAYOUT_NUMBERS[layout]),
        1024,
        1024,
        ctypes.byref(build),
        ctypes.byref(variant),
    )
    return build.value, variant.value


def activate(*handles: int) -> None:
    library.call("fa3_activate", (ctypes.c_int32 * len(handles))(*handles), len(handles))


def test_first_active_build_that_serves_wins(make_variant, make_build):
    narrow = builds.create(make_build("sm_90a", make_variant(head_dim=64), cell="narrow"))
    wide = builds.create(make_build("sm_90a", make_variant(head_dim=256), cell="wide"))
    ampere = builds.create(make_build("sm_80", cell="ampere"))
    activate(ampere, narrow, wide)
    assert decide(90) == (narrow, 0)
    assert decide(90, head_dim=72) == (wide, 0)
    assert decide(86)[0] == ampere
    activate(wide, narrow)
    assert decide(90)[0] == wide


def test_no_build_for_this_gpu(make_build):
    activate(
        builds.create(make_build("sm_80", cell="sm80-cu124")),
        builds.create(make_build("sm_100f", cell="sm100-cu133")),
    )
    with pytest.raises(NoKernelError) as caught:
        decide(90)
    message = str(caught.value)
    assert "compute capability 9.0" in message
    assert "sm80-cu124 (compute capability 8.0 to 8.9)" in message
    assert "sm100-cu133" in message
    assert ".sm90" in message


def test_no_variant_for_this_problem(make_variant, make_build):
    activate(builds.create(make_build("sm_90a", make_variant(head_dim=64))))
    for layout in LAYOUTS:
        wording = f"no kernel for bf16, head_dim 128, mask full, {layout} layout"
        with pytest.raises(NoKernelError, match=wording):
            decide(90, head_dim=128, layout=layout)


def test_nothing_active():
    activate()
    with pytest.raises(NoKernelError, match="Active builds: none"):
        decide(90)
