"""What a cache promises beyond right numbers: graphs whose lengths change, streams, batch invariance, bounds."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fa3_matrix
from fa3_matrix.bench.builds import call_interface
from fa3_matrix.bench.correctness import run
from fa3_matrix.bench.criterion import Checked, judge
from fa3_matrix.bench.inputs import (
    TORCH_DTYPES,
    Inputs,
    appended,
    fresh_cache,
    make_inputs,
    same_cache,
)
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.reference import Window, attention, full_precision_products

pytestmark = pytest.mark.gpu

REPLAYS = 200


@pytest.fixture(autouse=True)
def in_use(build: Path) -> Iterator[Path]:
    """Calls go to `build` while a test runs."""
    with fa3_matrix.use_build(build), torch.no_grad(), full_precision_products():
        yield build


def cache(used_k: list[int], **more: object) -> Problem:
    keys = {"dtype": "bf16", "heads_q": 8, "heads_k": 2, "head_dim": 64, "causal": True}
    keys |= {"seqlen_k": 512, "num_splits": 0}
    if "lengths_q" not in more:
        keys["seqlen_q"] = 1
    return Problem.kvcache(used_k=used_k, **keys | more)


def wrong(problem: Problem, inputs: Inputs, out: torch.Tensor, lse: torch.Tensor) -> str:
    """What is wrong with the result of `problem`, whose new rows `inputs` has in its cache; empty if nothing."""
    window = Window(problem, inputs)
    padded = window.padded()
    exact = Checked(*attention(problem, padded, torch.float32))
    math_path = Checked(*attention(problem, padded, TORCH_DTYPES[problem.dtype]))
    got = Checked(window.queries(out), window.lse(lse))
    return judge(problem, padded.rows, got, exact, math_path).reason()


# --- graphs -----------------------------------------------------------------------------------------------------------


def decode(**more: object) -> Callable[[int], Problem]:
    """The problem of each replay: entries of other lengths, in other pages; the first one is the largest."""

    def at(replay: int) -> Problem:
        draw = random.Random(replay)
        batch = 5
        used = [draw.choice((0, 1, 512, draw.randint(0, 512))) for _ in range(batch)]
        used = [max(length, int(more.get("new_rows", 0))) for length in used]
        return cache([512] * batch if replay == 0 else used, seed=replay, **more)

    return at


def packed_decode(replay: int) -> Problem:
    """Queries are packed, and how many each entry has changes as well."""
    draw = random.Random(replay)
    lengths_q = [draw.choice((0, 1, draw.randint(0, 9))) for _ in range(4)]
    used = [draw.randint(0, 512) for _ in range(4)]
    if replay == 0:
        lengths_q, used = [9] * 4, [512] * 4
    return cache(used, lengths_q=lengths_q, page_size=16, seed=replay)


def varlen(replay: int) -> Problem:
    """Long queries, for the long kernels."""
    draw = random.Random(replay)
    lengths_q = [draw.choice((0, 1, draw.randint(0, 300))) for _ in range(4)]
    lengths_k = [draw.choice((0, 1, draw.randint(0, 400))) for _ in range(4)]
    if replay == 0:
        lengths_q, lengths_k = [300] * 4, [400] * 4
    return Problem.varlen(
        dtype="bf16",
        heads_q=2,
        heads_k=1,
        head_dim=128,
        lengths_q=lengths_q,
        lengths_k=lengths_k,
        causal=True,
        seed=replay,
    )


GRAPHS = {
    "paged": decode(page_size=16, new_rows=1),
    "paged-one-split": decode(page_size=64, num_splits=1),
    "paged-many-splits": decode(page_size=3, seqlen_k=513, num_splits=7, seqlen_q=3),
    "contiguous": decode(new_rows=2, seqlen_q=2),
    "paged-long": decode(page_size=64, seqlen_q=130, heads_q=2),
    "packed": packed_decode,
    "varlen-long": varlen,
}


def load(buffers: Inputs, inputs: Inputs) -> None:
    """Puts `inputs` at the begin of tensors that are at least as long, in place; behind them lies NaN."""
    for name, tensor in vars(inputs).items():
        if tensor is None:
            continue
        buffer = getattr(buffers, name)
        if buffer.is_floating_point():
            buffer.fill_(torch.nan)
        buffer[: len(tensor)].copy_(tensor)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_captured_once_replays_with_any_lengths_and_pages(name: str):
    problem_at = GRAPHS[name]
    largest = problem_at(0)
    buffers = make_inputs(largest, "cuda")
    call_interface(largest, buffers)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = call_interface(largest, buffers)
    faults = {}
    for replay in range(REPLAYS):
        problem = problem_at(replay)
        inputs = make_inputs(problem, "cuda", guard=64)
        after = appended(problem, inputs)
        load(buffers, inputs)
        out.fill_(torch.nan)
        lse.fill_(torch.nan)
        graph.replay()
        fault = wrong(problem, after, out, lse)
        if problem.new_rows:
            ours = buffers.k[: len(after.k)], buffers.v[: len(after.v)]
            for mine, right in zip(ours, (after.k, after.v), strict=True):
                if not torch.equal(mine.view(torch.int16), right.view(torch.int16)):
                    fault = fault or "the cache differs"
        if fault:
            faults[problem.id] = fault
    assert not faults, f"{len(faults)} of {REPLAYS}: {dict(list(faults.items())[:3])}"


# --- streams and devices ----------------------------------------------------------------------------------------------


def test_two_streams_at_once():
    """Partial results of split keys on one stream are not another's."""
    problems = [cache([512, 300, 7, 0], page_size=16, num_splits=6, seed=i) for i in (1, 2)]
    problems[1] = replace(problems[1], seqlen_q=3, heads_q=4)
    inputs = [make_inputs(problem, "cuda") for problem in problems]
    expected = [call_interface(*call) for call in zip(problems, inputs, strict=True)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in problems]
    results: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[], []]
    for _ in range(50):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                results[i].append(call_interface(problems[i], inputs[i]))
    torch.cuda.synchronize()
    for i, outputs in enumerate(results):
        for out, lse in outputs:
            assert torch.equal(out, expected[i][0])
            assert torch.equal(lse, expected[i][1])


def test_the_second_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    problem = cache([512, 0, 31], page_size=16, new_rows=0)
    inputs = make_inputs(problem, "cuda:1")
    assert torch.cuda.current_device() == 0
    out, lse = call_interface(problem, inputs)
    assert out.device.index == lse.device.index == 1
    assert wrong(problem, inputs, out, lse) == ""
    appending = replace(problem, new_rows=3, used_k=(500, 3, 30))
    tally = run([appending], {"build": call_interface}, "cuda:1")["build"]
    assert not tally.failures


# --- batch invariance -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [0, 16])
@pytest.mark.parametrize("seqlen_q", [1, 5, 130])
def test_an_entry_of_a_cache_does_not_depend_on_the_others(seqlen_q: int, page_size: int):
    options = {"seqlen_q": seqlen_q, "page_size": page_size, "num_splits": 1}
    problem = cache([333, 7, 500, 0], seed=1, **options)
    inputs = make_inputs(problem, "cuda")
    out, lse = call_interface(problem, inputs)

    other = cache([333, 512, 1, 400], seed=2, **options)
    beside = make_inputs(other, "cuda")
    beside.q[0].copy_(inputs.q[0])
    for name in ("k", "v"):
        here, there = getattr(inputs, name), getattr(beside, name)
        if page_size:
            pages = -(-333 // page_size)
            there[beside.page_table[0, :pages].long()] = here[inputs.page_table[0, :pages].long()]
        else:
            there[0].copy_(here[0])
    out_beside, lse_beside = call_interface(other, beside)
    assert torch.equal(out[0], out_beside[0])
    assert torch.equal(lse[0], lse_beside[0])

    alone = Inputs(
        q=inputs.q[:1],
        k=inputs.k if page_size else inputs.k[:1],
        v=inputs.v if page_size else inputs.v[:1],
        cache_seqlens=inputs.cache_seqlens[:1],
        page_table=inputs.page_table[:1] if page_size else None,
    )
    out_alone, lse_alone = call_interface(problem, alone)
    assert torch.equal(out[:1], out_alone)
    assert torch.equal(lse[:1], lse_alone)


@pytest.mark.parametrize("seqlen_q", [1, 40, 300])
def test_a_sequence_does_not_depend_on_the_others(seqlen_q: int):
    outputs = []
    first: tuple[torch.Tensor, ...] = ()
    for seed, more in ((1, [(3, 900), (0, 4), (300, 77)]), (2, [(300, 1), (299, 1000)]), (3, [])):
        problem = Problem.varlen(
            dtype="bf16",
            heads_q=4,
            heads_k=2,
            head_dim=128,
            lengths_q=[seqlen_q, *(q for q, _ in more)],
            lengths_k=[640, *(k for _, k in more)],
            causal=True,
            seed=seed,
        )
        inputs = make_inputs(problem, "cuda")
        parts = inputs.q[:seqlen_q], inputs.k[:640], inputs.v[:640]
        first = first or tuple(part.clone() for part in parts)
        for part, same in zip(parts, first, strict=True):
            part.copy_(same)
        begins = inputs.cu_seqlens_q, inputs.cu_seqlens_k
        # The stated maxima choose the kernel: a server states the same ones for all its batches.
        out, lse = fa3_matrix.flash_attn_varlen_func(
            inputs.q, inputs.k, inputs.v, *begins, 300, 1000, causal=True, return_attn_probs=True
        )
        outputs.append((out[:seqlen_q].clone(), lse[:, :seqlen_q].clone()))
    for out, lse in outputs[1:]:
        assert torch.equal(out, outputs[0][0])
        assert torch.equal(lse, outputs[0][1])


@pytest.mark.parametrize("seqlen_q", [1, 40, 300])
def test_a_batch_entry_does_not_depend_on_the_others(seqlen_q: int):
    problem = Problem(
        dtype="bf16",
        heads_q=4,
        heads_k=2,
        head_dim=128,
        batch=7,
        seqlen_q=seqlen_q,
        seqlen_k=640,
        causal=True,
    )
    inputs = make_inputs(problem, "cuda")
    out, lse = call_interface(problem, inputs)
    for entry in (0, 3, 6):
        one = slice(entry, entry + 1)
        alone = Inputs(inputs.q[one], inputs.k[one], inputs.v[one])
        out_alone, lse_alone = call_interface(problem, alone)
        assert torch.equal(out[one], out_alone)
        assert torch.equal(lse[one], lse_alone)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("seqlen_q", [1, 20, 130])
def test_pages_and_rows_that_do_not_count_are_not_read(seqlen_q: int, page_size: int):
    """They hold NaN, and table entries past an entry's keys name such pages or none; nothing is written."""
    problem = cache([511, 64, 65, 0, 1, 17], seqlen_q=seqlen_q, page_size=page_size)
    inputs = make_inputs(problem, "cuda")
    before = fresh_cache(inputs)
    out, lse = call_interface(problem, inputs)
    assert wrong(problem, inputs, out, lse) == ""
    assert same_cache(inputs, before)


@pytest.mark.parametrize("lie", [-1000, -(2**31), 2**31 - 1, 10**6])
def test_lying_page_tables_and_lengths_stay_inside_the_cache(lie: int):
    problem = cache([511, 64, 300], page_size=16, new_rows=4, seqlen_q=4)
    for name in ("page_table", "cache_seqlens"):
        inputs = make_inputs(problem, "cuda")
        inputs.k.nan_to_num_()
        inputs.v.nan_to_num_()
        before = fresh_cache(inputs)
        getattr(inputs, name).fill_(lie)
        call_interface(problem, inputs)
        # A fault would surface here; nothing is said of the values, but what has no place is written nowhere.
        torch.cuda.synchronize()
        assert same_cache(inputs, before), name


def test_an_int_is_a_length_for_all():
    problem = cache([100, 100, 100], page_size=16, new_rows=0)
    inputs = make_inputs(problem, "cuda")
    out, _ = call_interface(problem, inputs)
    for cache_seqlens in (100, inputs.cache_seqlens):
        again = fa3_matrix.flash_attn_with_kvcache(
            *(inputs.q, inputs.k, inputs.v),
            cache_seqlens=cache_seqlens,
            page_table=inputs.page_table,
            causal=True,
        )
        assert torch.equal(again, out)
