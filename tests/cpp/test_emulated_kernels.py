"""The kernels' own source, run on the CPU thread by thread and held against fp32 references: see emulator/emulator.h.

What it shows is that every thread comes to an end, that no tile is missed, and that masks, packing, paging and merging
are right, whatever the order in which threads and copies get their turn. That the instructions do what their stand-ins
do is for the GPU's tests.
"""

import re
import shutil
from collections.abc import Callable

import pytest
import torch

from fa3_matrix.bench.correctness import Tally, run
from fa3_matrix.bench.inputs import make_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems

from .emulation import EmulatedBuild

_MOST_SCORES = 40_000  # a second's work

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="no g++ to compile the kernels with"
)


@pytest.fixture(scope="module")
def hopper(tmp_path_factory) -> EmulatedBuild:
    return EmulatedBuild("sm90", tmp_path_factory.mktemp("hopper"))


def tally(build: EmulatedBuild, problem: Problem) -> Tally:
    return run([problem], {"emulated": build}, "cpu", poison=False)["emulated"]


def check(build: EmulatedBuild, problem: Problem) -> None:
    failures = tally(build, problem).failures
    assert not failures, f"{build.variant(problem).name}: {failures[0].reason}"


def small(wanted: Callable[[Problem], bool], seed: int, count: int) -> list[Problem]:
    """Random problems that the emulator ends within seconds."""
    found = [
        problem
        for problem in random_problems(seed, 3000, reduced=True)
        if problem.scores <= _MOST_SCORES and wanted(problem)
    ]
    assert len(found) >= count
    return found[:count]


@pytest.mark.parametrize(
    "kernel,dtype,head_dim",
    [
        ("sm90", "bf16", 64),
        ("sm90", "fp16", 96),
        ("sm90", "bf16", 256),
        ("sm80", "bf16", 64),
        ("splitkv", "bf16", 64),
        ("splitkv", "fp16", 256),
    ],
)
def test_random_problems(hopper, kernel, dtype, head_dim):
    def wanted(problem):
        variant = hopper.variant(problem)
        return (variant.kernel, variant.dtype, variant.head_dim) == (kernel, dtype, head_dim)

    for problem in small(wanted, seed=head_dim, count=6):
        check(hopper, problem)


@pytest.mark.parametrize(
    "problem",
    [
        # Three consumer warpgroups, which long queries have.
        "dense_bf16_d64_h1-1_b1_q1100_k300_causal_s1",
        "dense_bf16_d128_h1-1_b1_q2100_k90_s2",
        "varlen_bf16_d128_h1-1_q210_k180_slack5000_causal_s0",
        "varlen_fp16_d128_h1-1_q210_k180_slack5000_w70,20_s0",
        # Rows of one warp that meet their first key in different blocks of keys.
        "dense_bf16_d64_h2-1_b1_q70_k130_causal_s0",
        # Tiles without keys between others, more of them than stages.
        "varlen_bf16_d64_h2-1_q70.80.90.5.129_k0x3.130.0_causal_s3",
        # Paged caches, split: fewer keys than splits, pages of one key, packed queries.
        "cache_bf16_d64_h6-2_b3_q1_k192_uk192.0.77_p16_splits5_s4",
        "cache_bf16_d64_h4-1_q1.0.3.70_k130_uk130.5.0.130_p1_splits2_causal_s5",
        # New rows over a page's edge, past the capacity, and before the first key.
        "cache_bf16_d64_h2-2_b3_q2_k64_uk20.70.2_p16_new8_splits2_causal_s6",
        # Entries of different length, cut among fewer CTAs than there are tiles, and among more.
        "cache_fp16_d64_h14-2_b6_q1_k192_uk160.83.126.133.192.17_splits64_s1",
        "cache_bf16_d64_h2-1_b4_q1_k600_uk600.0.40.129_splits9_s5",
        # Pages that TMA loads: several a block, of which the last ones are not there; blocks of a page.
        "cache_bf16_d64_h1-1_b2_q130_k256_uk200.33_p16_causal_s1",
        "cache_bf16_d128_h1-1_b1_q70_k384_uk300_p128_s2",
        "cache_fp16_d256_h1-1_b1_q70_k256_uk250_p128_causal_s3",
    ],
)
def test_edges(hopper, problem):
    check(hopper, Problem.parse(problem))


@pytest.mark.parametrize(
    "problem",
    [
        "dense_bf16_d64_h1-1_b1_q70_k90_causal_s1",
        "varlen_bf16_d64_h1-1_q70.70_k90.0_causal_s1",  # a tile without keys
        "cache_bf16_d64_h2-1_b2_q1_k192_uk192.77_splits3_s1",
        "cache_bf16_d64_h2-1_b2_q1_k192_uk192.77_splits1_s1",
    ],
)
def test_the_lse_may_be_left_out(hopper, problem):
    parsed = Problem.parse(problem)
    inputs = make_inputs(parsed, "cpu")
    expected, _ = hopper(parsed, inputs)
    out, lse = hopper(parsed, inputs, wants_lse=False)
    assert torch.equal(out, expected)
    assert lse.isnan().all()


@pytest.mark.parametrize(
    "file,right,wrong,problem,reason",
    [
        (  # An exchange between lanes that only some take part in.
            "sm90/row_softmax.cuh",
            "? best : reference_[r]",
            "? maximum<1>(s, r) : reference_[r]",
            "dense_bf16_d64_h2-1_b1_q70_k130_causal_s0",
            "threads wait for what never comes|warp_uniform of a value that is not",
        ),
        (  # One key too many.
            "attention/mask.h",
            "scores_before(keys.end - first_key)",
            "scores_before(keys.end - first_key + 1)",
            "dense_bf16_d64_h2-1_b1_q70_k130_causal_s0",
            "x what is allowed",
        ),
        (  # A stage of K or V is filled anew before it has been read.
            "sm90/key_producer.cuh",
            "&empty[stage]), ring.parity());",
            "&empty[stage]), ring.parity() ^ 1);",
            "dense_bf16_d64_h1-1_b1_q1100_k1500_s1",
            "",
        ),
        (  # The next Q but one is loaded over output that TMA has not stored yet.
            "sm90/consumer.cuh",
            "    ptx::tma_store_wait_read();\n    release(",
            "    release(",
            "dense_bf16_d64_h8-1_b2_q200_k90_s1",
            "x what is allowed",
        ),
        (  # A step of keys is read before its copies have landed.
            "splitkv/forward.cuh",
            "cp_async_wait<Traits::kStages - 2>",
            "cp_async_wait<Traits::kStages - 1>",
            "dense_bf16_d64_h2-1_b1_q3_k300_s1",
            "",
        ),
        (  # A share so small that there are more pieces than CTAs.
            "splitkv/ragged_grid.cuh",
            "full_round * 3 / 5 + 1",
            "full_round / 5 * 3 + 1",
            "cache_fp16_d64_h14-2_b6_q1_k192_uk160.83.126.133.192.17_splits64_s1",
            "",
        ),
    ],
)
def test_a_broken_kernel_fails(tmp_path, file, right, wrong, problem, reason):
    build = EmulatedBuild("sm90", tmp_path / "build")
    source = tmp_path / "build" / "cpp" / file
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    result = tally(build, Problem.parse(problem))
    assert result.failures
    assert re.search(reason, result.failures[0].reason)
