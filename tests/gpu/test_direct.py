"""Calls past the dispatcher give what the operators give, to the bit, and take what they take."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fa3_matrix
from fa3_matrix import interface
from fa3_matrix.bench.calls import interface_call
from fa3_matrix.bench.inputs import fresh_cache, make_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems
from fa3_matrix.ops import direct

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def in_use(build: Path) -> Iterator[Path]:
    with fa3_matrix.use_build(build):
        yield build


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that went past the dispatcher."""
    calls = direct.load()
    assert calls
    served = []

    def recorded(name):
        def call(*arguments):
            out = calls[name](*arguments)
            if out is not None:
                served.append(name)
            return out

        return call

    monkeypatch.setattr(interface, "_direct", {name: recorded(name) for name in calls})
    return served


def every_row_is_written(problem: Problem) -> bool:
    return not problem.is_packed or sum(problem.lengths_q) == problem.shape_q[0]


def without_lse(problem: Problem, inputs) -> torch.Tensor:
    """The output, in memory that held NaN."""
    torch.full(problem.shape_q, torch.nan, dtype=inputs.q.dtype, device="cuda")
    return interface_call(fa3_matrix, problem, inputs)()


def test_random_problems_give_the_operators_output(counted: list[str]):
    lse = {"cache": "return_softmax_lse", "": "return_attn_probs"}
    strided = 0
    for problem in random_problems(5, 150):
        if not every_row_is_written(problem):
            continue
        inputs = make_inputs(problem, "cuda")
        given = fresh_cache(inputs) if problem.new_rows else inputs
        name = lse["cache" if problem.is_cache else ""]
        expected, _ = interface_call(fa3_matrix, problem, given, **{name: True})()
        given = fresh_cache(inputs) if problem.new_rows else inputs
        out = without_lse(problem, given)
        assert out.is_contiguous()
        assert torch.equal(out, expected), problem.id
        strided += not inputs.q.is_contiguous()
    assert strided > 10
    for name in ("fwd", "varlen_fwd", "kvcache_fwd", "append_kv"):
        assert counted.count(name) > 10, counted


def qkv(**options) -> list[torch.Tensor]:
    return [
        torch.randn(2, 100, 4, 64, device="cuda", dtype=torch.float16, **options) for _ in range(3)
    ]


def test_who_gets_past(counted: list[str]):
    q, k, v = qkv()
    fa3_matrix.flash_attn_func(q, k, v)
    assert counted == ["fwd"]
    # With the lse, a last dimension that has to be copied, and where gradients would be due, the operator is called.
    fa3_matrix.flash_attn_func(q, k, v, return_attn_probs=True)
    fa3_matrix.flash_attn_func(q.transpose(-1, -2).contiguous().transpose(-1, -2), k, v)
    fa3_matrix.flash_attn_func(*qkv(requires_grad=True))
    assert counted == ["fwd"]
    with torch.no_grad():
        fa3_matrix.flash_attn_func(*qkv(requires_grad=True))
    assert counted == ["fwd", "fwd"]


def test_errors_are_the_operators(counted: list[str]):
    q, k, v = qkv()
    with pytest.raises(ValueError, match="differ in head_dim"):
        fa3_matrix.flash_attn_func(q, k[..., :32], v)
    with pytest.raises(TypeError, match="float32"):
        fa3_matrix.flash_attn_func(q.float(), k.float(), v.float())
    with pytest.raises(ValueError, match="cpu"):
        fa3_matrix.flash_attn_func(q.cpu(), k.cpu(), v.cpu())
    assert not counted


def test_it_is_captured_and_uses_the_current_stream(counted: list[str]):
    q, k, v = qkv()
    expected = fa3_matrix.flash_attn_func(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fa3_matrix.flash_attn_func(q, k, v)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, expected)
    assert counted == ["fwd", "fwd"]


def test_memory_goes_back_to_the_allocator(counted: list[str]):
    problem = Problem(
        dtype="bf16", heads_q=8, heads_k=1, head_dim=128, batch=1, seqlen_q=1, seqlen_k=8192
    )
    inputs = make_inputs(problem, "cuda")

    def call():
        return fa3_matrix.flash_attn_func(inputs.q, inputs.k, inputs.v, num_splits=8)

    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        call()
    assert torch.cuda.memory_allocated() == before
    assert counted == ["fwd"] * 51
