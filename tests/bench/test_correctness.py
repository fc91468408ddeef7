"""The driver passes a right kernel and catches wrong ones; the CPU kernel of conftest.py stands in for a GPU's."""

import dataclasses
import math

import pytest
import torch

from fa3_matrix.bench.correctness import run
from fa3_matrix.bench.criterion import Checked, Verdict, judge
from fa3_matrix.bench.fixed_problems import fixed_problems
from fa3_matrix.bench.inputs import appended
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems

# What a CPU can do in the time of a test.
SMALL_FIXED = [
    "max-seqlen-q-one",
    "no-tokens-at-all",
    "varlen-without-keys",
    "varlen-used-nothing",
    "loose-max-seqlen",
    "no-queries-d256",
    "empty-batch",
    "rows-without-keys",
    "window-beyond-keys",
    "scale-zero",
    "scale-negative",
    "no-keys-full",
    "no-keys-causal",
    "head-dim-72-bf16",
    "head-dim-248-fp16",
    "cache-empty",
    "cache-empty-pages",
    "cache-queries-beyond-keys",
    "cache-last-page-partly",
    "cache-page-size-1",
    "cache-page-size-3",
    "cache-group-7",
    "cache-negative-length",
    "cache-length-beyond-capacity",
    "cache-append-one",
    "cache-append-to-contiguous",
    "cache-append-more-than-queries",
    "cache-append-beyond-capacity",
    "cache-append-below-zero",
    "cache-append-packed-queries",
    "cache-whole",
]
PLAIN = Problem(
    dtype="bf16", heads_q=4, heads_k=2, head_dim=64, batch=2, seqlen_q=70, seqlen_k=130, causal=True
)


def verdict_of(problem: Problem, kernel) -> str:
    """ "" for a pass, else the reason of the failure."""
    tally = run([problem], {"kernel": kernel}, "cpu")["kernel"]
    assert tally.run == 1
    return tally.failures[0].reason if tally.failures else ""


def test_a_right_kernel_passes_random_problems(flash_attention):
    problems = [p for p in random_problems(5, 90, reduced=True) if p.scores < 2**14]
    assert {(p.is_cache, p.page_size > 0, p.new_rows > 0) for p in problems} >= {
        *((True, paged, new) for paged in (False, True) for new in (False, True))
    }
    tally = run(problems, {"cpu": flash_attention}, "cpu")["cpu"]
    assert not tally.failures
    assert tally.passed == tally.requested == len(problems)
    assert 0 < tally.worst["ratio"][0] < 0.9


@pytest.mark.parametrize("name", SMALL_FIXED)
def test_a_right_kernel_passes_the_fixed_cases(name: str, flash_attention):
    assert verdict_of(fixed_problems()[name], flash_attention) == ""


def changed(flash_attention, change):
    """The right kernel with its result spoilt by `change(problem, out, lse)`."""

    def kernel(problem, inputs):
        out, lse = (t.clone() for t in flash_attention(problem, inputs))
        change(problem, out, lse)
        return out, lse

    return kernel


def one_row_scaled(_problem, out, _lse):
    out[1, 69, 3] *= 1.5


def one_nan(_problem, out, _lse):
    out[0, 5, 1, 7] = math.nan


def one_infinity(_problem, out, _lse):
    out[0, 5, 1, 7] = math.inf


def lse_in_log2(_problem, _out, lse):
    lse *= 1.4427


def lse_nan(_problem, _out, lse):
    lse[0, 0, 0] = math.nan


def heads_swapped(_problem, out, _lse):
    out[:, :, [0, 3]] = out[:, :, [3, 0]]


@pytest.mark.parametrize(
    "change", [one_row_scaled, one_nan, one_infinity, lse_in_log2, lse_nan, heads_swapped]
)
def test_wrong_results_fail(change, flash_attention):
    assert verdict_of(PLAIN, changed(flash_attention, change))


def test_a_wrong_mask_fails(flash_attention):
    """Top-left instead of bottom-right alignment, and a window one too wide."""
    top_left = Problem.parse(PLAIN.id.replace("causal", "w-1,60"))
    too_wide = Problem.parse(PLAIN.id.replace("causal", "w40,1"))
    right = Problem.parse(PLAIN.id.replace("causal", "w40,0"))
    assert verdict_of(PLAIN, lambda _, inputs: flash_attention(top_left, inputs))
    assert verdict_of(right, lambda _, inputs: flash_attention(too_wide, inputs))


def test_reading_past_the_end_fails(flash_attention):
    def careless(problem, inputs):
        # One key too many: beyond the tensor lies NaN.
        longer = inputs.k.as_strided(
            (*inputs.k.shape[:1], inputs.k.shape[1] + 1, *inputs.k.shape[2:]), inputs.k.stride()
        )
        out, lse = flash_attention(problem, inputs)
        return out + 0 * longer[:, -1].sum().to(out.dtype), lse

    single = Problem.parse(PLAIN.id.replace("_b2_", "_b1_"))
    assert "not a number" in verdict_of(single, careless)


CACHE = Problem.kvcache(
    dtype="bf16",
    heads_q=2,
    heads_k=1,
    head_dim=32,
    seqlen_q=2,
    seqlen_k=64,
    page_size=8,
    used_k=[20, 3, 64],
    new_rows=2,
    causal=True,
)


def test_a_right_kernel_appends(flash_attention):
    assert verdict_of(CACHE, flash_attention) == ""


def test_wrong_appends_fail(flash_attention):
    def without(problem, inputs):
        return flash_attention(problem, appended(problem, inputs))

    def one_row_too_many(problem, inputs):
        outputs = flash_attention(problem, inputs)
        page = inputs.page_table[0, 20 // 8]
        inputs.k[page, 20 % 8] = 1
        return outputs

    def into_the_guard(problem, inputs):
        outputs = flash_attention(problem, inputs)
        inputs.v.as_strided((1,), (1,), inputs.v.storage_offset() - 1).zero_()
        return outputs

    def into_a_spare_page(problem, inputs):
        outputs = flash_attention(problem, inputs)
        used = {int(page) for b, n in enumerate((3, 1, 8)) for page in inputs.page_table[b, :n]}
        spare = min(set(range(len(inputs.k))) - used)
        inputs.k[spare] = inputs.k[0]
        return outputs

    for kernel in (without, one_row_too_many, into_the_guard, into_a_spare_page):
        assert "the caches don't hold" in verdict_of(CACHE, kernel), kernel.__name__


def test_each_kernel_appends_to_a_cache_of_its_own(flash_attention):
    there_before = []

    def second(problem, inputs):
        row = inputs.k[inputs.page_table[0, 2], 19 % 8]
        there_before.append(bool(row.isfinite().all()))
        return flash_attention(problem, inputs)

    tallies = run([CACHE], {"first": flash_attention, "second": second}, "cpu")
    assert not tallies["first"].failures + tallies["second"].failures
    # Each call is made twice, the second time with poisoned outputs.
    assert there_before == [False, True]


@pytest.mark.parametrize("lost", ["page_table", "cache_seqlens"])
def test_a_kernel_that_ignores_indices_fails(lost: str, flash_attention):
    problem = Problem.parse(CACHE.id.replace("_new2", ""))

    def kernel(problem, inputs):
        given = getattr(inputs, lost)
        wrong = torch.arange(given.numel(), dtype=given.dtype).view_as(given)
        if lost == "page_table":
            wrong %= len(inputs.k)
        return flash_attention(problem, dataclasses.replace(inputs, **{lost: wrong}))

    assert verdict_of(problem, flash_attention) == ""
    assert verdict_of(problem, kernel)


def test_unwritten_output_fails(flash_attention):
    memory: dict[str, torch.Tensor] = {}

    def lazy(problem, inputs):
        out, lse = flash_attention(problem, inputs)
        kept = memory.setdefault("out", out.clone())
        kept[:, :-1] = out[:, :-1]
        return kept, lse

    # The last row is right the first time, and poison by the second.
    assert "not a number" in verdict_of(PLAIN, lazy)


def test_wrong_forms_and_exceptions_are_failures(flash_attention):
    def transposed(problem, inputs):
        out, lse = flash_attention(problem, inputs)
        return out, lse.transpose(1, 2)

    def raising(_problem, _inputs):
        raise ValueError("head_dim is not served")

    assert "lse is" in verdict_of(PLAIN, transposed)
    assert "head_dim is not served" in verdict_of(PLAIN, raising)


def test_kernels_share_problems_and_are_judged_apart(flash_attention):
    problems = [PLAIN, Problem.parse(PLAIN.id.replace("bf16", "fp16"))]
    seen = []
    tallies = run(
        problems,
        {"good": flash_attention, "bad": changed(flash_attention, one_nan)},
        "cpu",
        variant_of=lambda name, problem: f"{name}-{problem.dtype}",
        progress=seen.append,
    )
    assert tallies["good"].passed == 2
    assert len(tallies["bad"].failures) == 2
    assert tallies["bad"].failures[0].problem == PLAIN
    assert tallies["good"].variants == {"good-bf16": 1, "good-fp16": 1}
    assert seen == [1, 2]


def test_a_verdict_never_passes_nan():
    assert Verdict(1.0, 1.0, 1.0).passed
    assert not Verdict(1.01, 0, 0).passed
    for ratios in ((math.nan, 0, 0), (0, math.nan, 0), (0, 0, math.nan)):
        assert not Verdict(*ratios).passed
        assert "not a number" in Verdict(*ratios).reason()


def test_the_bound_is_twice_the_math_paths_error_plus_one_rounding():
    out = torch.full((1, 1, 1, 8), 0.5)
    lse = torch.zeros(1, 1, 1)
    math_path = Checked(out + 0.01, lse)
    problem = Problem.parse("dense_bf16_d8_h1-1_b1_q1_k1_s0")
    rows = torch.ones(1, 1, dtype=torch.bool)
    allowed = 2 * 0.01 + 2**-8 * 0.5
    for factor in (0.99, 1.01):
        got = Checked(out + factor * allowed, lse)
        verdict = judge(problem, rows, got, Checked(out, lse), math_path)
        assert verdict.passed == (factor < 1)
        assert verdict.ratio == pytest.approx(factor, rel=1e-4)


def test_rows_that_do_not_count_are_not_compared():
    out = torch.ones(1, 2, 1, 8)
    got = out.clone()
    got[0, 1] = math.nan
    lse = torch.zeros(1, 2, 1)
    problem = Problem.parse("dense_bf16_d8_h1-1_b1_q2_k1_s0")
    exact = Checked(out, lse)
    counted = judge(problem, torch.tensor([[True, True]]), Checked(got, lse), exact, exact)
    ignored = judge(problem, torch.tensor([[True, False]]), Checked(got, lse), exact, exact)
    assert not counted.passed
    assert ignored.passed


@pytest.mark.parametrize("got, passes", [(-math.inf, True), (-1e30, False), (0.0, False)])
def test_lse_is_minus_infinity_exactly_where_it_belongs(got: float, passes: bool):
    out = torch.zeros(1, 1, 1, 8)
    exact = Checked(out, torch.full((1, 1, 1), -math.inf))
    problem = Problem.parse("dense_bf16_d8_h1-1_b1_q1_k0_s0")
    rows = torch.ones(1, 1, dtype=torch.bool)
    assert (
        judge(problem, rows, Checked(out, torch.full((1, 1, 1), got)), exact, exact).passed
        == passes
    )
