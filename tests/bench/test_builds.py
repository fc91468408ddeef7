"""call_interface: each problem's tensors and options reach the operators; CPU kernels stand in for the GPU's."""

import os
from dataclasses import replace

import pytest
import torch

from fa3_matrix.bench.builds import call_interface
from fa3_matrix.bench.correctness import run
from fa3_matrix.bench.inputs import Inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems
from fa3_matrix.ops import operators


@pytest.fixture(scope="module")
def ops():
    if "FA3_HOST_LIBRARY" not in os.environ:
        from fa3_matrix import build

        os.environ["FA3_HOST_LIBRARY"] = str(build.build_host())
    return operators.load()


class CpuOperators:
    """The operators as `flash_attention` computes them, of the problem that is being called."""

    def __init__(self, flash_attention) -> None:
        self.flash_attention = flash_attention
        self.problem: Problem | None = None

    def _attend(self, inputs: Inputs, scale, causal, left, right, softcap, num_splits):
        assert num_splits == self.problem.num_splits
        options = {"causal": causal, "window": (left, right), "softcap": softcap, "scale": scale}
        return self.flash_attention(replace(self.problem, new_rows=0, **options), inputs)

    def fwd(self, q, k, v, *tail):
        return self._attend(Inputs(q, k, v), *tail)

    def varlen_fwd(self, q, k, v, begins_q, begins_k, used_q, used_k, longest_q, longest_k, *tail):
        assert (longest_q, longest_k) == (self.problem.max_seqlen_q, self.problem.max_seqlen_k)
        return self._attend(Inputs(q, k, v, begins_q, begins_k, used_q, used_k), *tail)

    def kvcache_fwd(self, q, k, v, lengths, page_table, begins_q, longest_q, new_rows, *tail):
        assert (longest_q, new_rows) == (self.problem.max_seqlen_q, self.problem.new_rows)
        used = None if lengths is None else lengths + new_rows
        inputs = Inputs(q, k, v, begins_q, cache_seqlens=used, page_table=page_table)
        return self._attend(inputs, *tail)

    def append_kv(self, k_cache, v_cache, k, v, lengths, page_table):
        for entry in range(len(k)):
            for i in range(k.shape[1]):
                key = int(lengths[entry]) + i
                if 0 <= key < self.problem.seqlen_k:
                    at = (entry, key)
                    if page_table is not None:
                        page_size = k_cache.shape[1]
                        at = (int(page_table[entry, key // page_size]), key % page_size)
                    k_cache[at], v_cache[at] = k[entry, i], v[entry, i]


def test_problems_reach_the_operators(ops, flash_attention):
    problems = [p for p in random_problems(11, 120, reduced=True) if p.scores < 2**13]
    kinds = {(p.is_varlen, p.is_cache, p.page_size > 0, p.new_rows > 0) for p in problems}
    assert len(kinds) == 6
    on_cpu = CpuOperators(flash_attention)

    def kernel(problem, inputs):
        on_cpu.problem = problem
        return call_interface(problem, inputs)

    with torch.library._scoped_library("fa3", "IMPL") as implementations:
        for name in operators.NAMES:
            implementations.impl(name, getattr(on_cpu, name), "CPU")
        tally = run(problems, {"cpu": kernel}, "cpu")["cpu"]
    assert not tally.failures
    assert tally.passed == len(problems)
    assert ops is operators.load()
