"""What the operators promise beyond right numbers: streams, graphs, two builds at once, lying indices, tracing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fa3_matrix
from fa3_matrix.bench import machine
from fa3_matrix.bench.builds import BuildArm, call_interface
from fa3_matrix.bench.correctness import run
from fa3_matrix.bench.inputs import make_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.session import why_not_on
from fa3_matrix.build import Manifest
from fa3_matrix.errors import NoKernelError

pytestmark = pytest.mark.gpu

PLAIN = Problem(
    dtype="bf16",
    heads_q=8,
    heads_k=2,
    head_dim=128,
    batch=2,
    seqlen_q=300,
    seqlen_k=500,
    causal=True,
)
PACKED = Problem.varlen(
    dtype="fp16",
    heads_q=4,
    heads_k=4,
    head_dim=64,
    lengths_q=[100, 0, 33],
    lengths_k=[200, 7, 50],
    causal=True,
)


CACHE = Problem.kvcache(
    dtype="bf16",
    heads_q=8,
    heads_k=2,
    head_dim=128,
    seqlen_q=2,
    seqlen_k=1024,
    page_size=64,
    used_k=[1000, 0, 77],
    new_rows=2,
    num_splits=5,
    causal=True,
)


@pytest.fixture
def in_use(build: Path) -> Iterator[Path]:
    """Calls go to `build` while the test runs."""
    with fa3_matrix.use_build(build):
        yield build


@pytest.mark.usefixtures("in_use")
@pytest.mark.parametrize("problem", [PLAIN, PACKED, CACHE], ids=["dense", "varlen", "cache"])
def test_repeated_calls_agree_to_the_bit(problem: Problem):
    inputs = make_inputs(problem, "cuda")
    first = call_interface(problem, inputs)
    for _ in range(5):
        for a, b in zip(call_interface(problem, inputs), first, strict=True):
            assert torch.equal(a, b)


@pytest.mark.usefixtures("in_use")
def test_the_current_stream_is_used():
    inputs = make_inputs(PLAIN, "cuda")
    expected, _ = call_interface(PLAIN, inputs)
    q = torch.zeros_like(inputs.q)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # A call on another stream would read the zeros while this waits.
        torch.cuda._sleep(50_000_000)
        q.copy_(inputs.q)
        out = fa3_matrix.flash_attn_func(q, inputs.k, inputs.v, causal=True)
    stream.synchronize()
    assert torch.equal(out, expected)


@pytest.mark.usefixtures("in_use")
def test_a_graph_replays_with_new_values_and_lengths():
    inputs = make_inputs(PACKED, "cuda")
    call_interface(PACKED, inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = call_interface(PACKED, inputs)
    other = Problem.varlen(
        dtype="fp16",
        heads_q=4,
        heads_k=4,
        head_dim=64,
        lengths_q=[80, 30, 23],
        lengths_k=[180, 37, 40],
        causal=True,
        seed=9,
    )
    # Of the same variant, whose results are then the same to the bit.
    replacement = make_inputs(other, "cuda")
    for name, tensor in vars(replacement).items():
        if tensor is not None:
            getattr(inputs, name).copy_(tensor)
    out.fill_(torch.nan)
    lse.fill_(torch.nan)
    graph.replay()
    expected_out, expected_lse = call_interface(other, replacement)
    assert torch.equal(out, expected_out)
    assert torch.equal(lse, expected_lse)


def test_builds_take_turns_in_one_process(build_folders: list[Path]):
    arms = [BuildArm.open(folder) for folder in build_folders]
    if len(arms) < 2:
        pytest.skip("needs two builds that this GPU can load")
    kernels = {arm.name: arm.kernel() for arm in arms}
    for name, tally in run([PLAIN, PACKED, CACHE] * 3, kernels, "cuda").items():
        assert not tally.failures, name


LIES = {
    "beyond-the-end": [0, 10_000, 20_000, 2**31 - 1],
    "backwards": [133, 50, 10, 0],
    "negative": [-(2**31), -5, 100, 133],
}


@pytest.mark.usefixtures("in_use")
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("about", ["q", "k"])
def test_lying_indices_stay_inside_the_tensors(about: str, lie: str):
    inputs = make_inputs(PACKED, "cuda")
    getattr(inputs, f"cu_seqlens_{about}").copy_(torch.tensor(LIES[lie], dtype=torch.int32))
    call_interface(PACKED, inputs)
    # A fault would surface here; nothing is said of the values.
    torch.cuda.synchronize()


@pytest.mark.usefixtures("in_use")
def test_lying_used_lengths_stay_inside_the_tensors():
    inputs = make_inputs(PACKED, "cuda")
    for value in (-1, 2**31 - 1):
        used = torch.full((3,), value, dtype=torch.int32, device="cuda")
        fa3_matrix.flash_attn_varlen_func(
            inputs.q,
            inputs.k,
            inputs.v,
            inputs.cu_seqlens_q,
            inputs.cu_seqlens_k,
            100,
            200,
            seqused_q=used,
            seqused_k=used,
        )
        torch.cuda.synchronize()


@pytest.mark.usefixtures("in_use")
@pytest.mark.parametrize("problem", [PLAIN, PACKED, CACHE], ids=["dense", "varlen", "cache"])
def test_opcheck(problem: Problem):
    inputs = make_inputs(problem, "cuda")
    # Registers the operators.
    call_interface(problem, inputs)
    tail = (0.125, True, -1, 0, 0.0, 1)
    checks = ("test_schema", "test_faketensor")
    if problem.is_cache:
        indices = (inputs.cache_seqlens, inputs.page_table)
        new = (inputs.k_new, inputs.v_new)
        append = (inputs.k, inputs.v, *new, *indices)
        torch.library.opcheck(torch.ops.fa3.append_kv.default, append, test_utils=checks)
        operator = torch.ops.fa3.kvcache_fwd
        arguments = (inputs.q, inputs.k, inputs.v, *indices, None, 2, 2, *tail)
    elif problem.is_varlen:
        operator = torch.ops.fa3.varlen_fwd
        cu_seqlens = (inputs.cu_seqlens_q, inputs.cu_seqlens_k)
        arguments = (inputs.q, inputs.k, inputs.v, *cu_seqlens, None, None, 100, 200, *tail)
    else:
        operator = torch.ops.fa3.fwd
        arguments = (inputs.q, inputs.k, inputs.v, *tail)
    torch.library.opcheck(operator.default, arguments, test_utils=checks)


def test_a_build_for_another_gpu_is_refused_by_name(build: Path):
    here = machine.capability()
    beside = [path.parent for path in sorted(build.parents[1].glob("*/fa3/manifest.json"))]
    foreign = [folder for folder in beside if why_not_on(Manifest.read(folder), here)]
    if not foreign:
        pytest.skip("no build of another GPU lies beside this one")
    inputs = make_inputs(PLAIN, "cuda")
    with fa3_matrix.use_build(foreign[0]), pytest.raises(NoKernelError, match=str(here)):
        call_interface(PLAIN, inputs)
