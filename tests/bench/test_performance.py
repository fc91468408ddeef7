"""From builds and suites to rows, with the CPU kernel in the place of a GPU's."""

from dataclasses import replace
from functools import partial

import pytest

from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.measure import Contender
from fa3_matrix.bench.occupancy import launch_occupancy
from fa3_matrix.bench.peers import PEERS
from fa3_matrix.bench.performance import Performance, variant_problems
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.timing import HostClock
from fa3_matrix.build.manifest import OccupancyRecord
from fa3_matrix.errors import BenchError
from fa3_matrix.matrix.selection import log2_seqlen, query_rows

PROBLEM = Problem(
    dtype="bf16", heads_q=2, heads_k=1, head_dim=64, batch=1, seqlen_q=70, seqlen_k=70, causal=True
)


@pytest.fixture
def arms(tmp_path, write_build) -> dict[str, BuildArm]:
    cells = ("sm90-cu133", "sm80-cu124-on-sm90")
    return {cell: BuildArm.open(write_build(tmp_path / cell / "fa3", cell)) for cell in cells}


class OnCpu(Performance):
    """Calls the CPU kernel where a build's would be launched."""

    kernel = None

    def contender(self, arm: BuildArm) -> Contender:
        return Contender(arm.name, lambda *given: partial(type(self).kernel, *given))


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def performance(arms):
    """performance(kernel, suites, **more): not run yet."""

    def make(kernel, suites: dict[str, list[Problem]], **more) -> Performance:
        OnCpu.kernel = staticmethod(kernel)
        return OnCpu(
            arms, suites, rounds=3, seed=0, sms=132, device="cpu", clock=HostClock(), **more
        )

    return make


def test_rows_state_what_was_measured(performance, flash_attention):
    measured = performance(flash_attention, {"tiny": [PROBLEM], "again": [PROBLEM]})
    with pytest.raises(BenchError, match="nothing has been measured yet"):
        _ = measured.ceilings
    reports = []
    measured.run(reports.append)
    assert [(done.problem, done.count, done.total) for done in reports] == [(PROBLEM, 1, 1)]
    row, again = measured.rows("sm90-cu133")
    assert again == row | {"suite": "again"}
    assert row["problem"] == PROBLEM.id
    assert row["variant"].startswith("fa3_fwd_sm90_bf16_d64_")
    (other, _) = measured.rows("sm80-cu124-on-sm90")
    assert other["variant"].startswith("fa3_fwd_sm80_")
    assert row["rounds"] == 3
    assert row["flops"] == PROBLEM.flops()
    assert row["tflops"] == pytest.approx(PROBLEM.flops() / row["median_us"] * 1e-6)
    assert row["bytes"] == PROBLEM.min_bytes()
    assert row["gb_per_s"] == pytest.approx(PROBLEM.min_bytes() / row["median_us"] * 1e-3)
    assert row["of_gemm"] == pytest.approx(row["tflops"] / measured.ceilings.gemm_tflops)
    assert row["of_copy"] == pytest.approx(row["gb_per_s"] / measured.ceilings.copy_gb_per_s)
    assert row["launch_us"] > 0
    assert row["idle_us"] > 0
    assert (row["memory"], row["graph"]) == (None, None)
    assert measured.failures("sm90-cu133") == []


def test_only_the_suite_of_changing_lengths_is_replayed(performance, flash_attention, monkeypatch):
    monkeypatch.setattr("fa3_matrix.bench.performance.REPLAYS", 7)
    other = replace(PROBLEM, seqlen_q=3)
    measured = performance(flash_attention, {"tiny": [PROBLEM], "dynamic": [other]})
    measured.run()
    fixed, dynamic = measured.rows("sm90-cu133")
    assert fixed["graph"] is None
    assert dynamic["graph"]["replays"] == 7
    assert dynamic["graph"]["error"] == ""


def test_a_wrong_output_is_not_timed(arms, performance, flash_attention):
    def wrong(problem, inputs):
        out, lse = flash_attention(problem, inputs)
        return out * 1.5, lse

    measured = performance(wrong, {"tiny": [PROBLEM]})
    measured.run()
    assert list(measured.entries()) == []
    for cell in arms:
        assert measured.rows(cell) == []
        (failure,) = measured.failures(cell)
        assert failure.startswith(f"{PROBLEM.id}: its output is wrong")


def test_a_problem_that_breaks_the_timing_leaves_the_others(arms, performance, flash_attention):
    calls = []

    def runs_out(problem, inputs):
        calls.append(problem)
        # Each build's output is checked once first.
        if problem is PROBLEM and len(calls) > len(arms):
            raise RuntimeError("CUDA out of memory\nand a long trace")
        return flash_attention(problem, inputs)

    other = replace(PROBLEM, seqlen_q=3)
    measured = performance(runs_out, {"tiny": [PROBLEM, other]})
    measured.run()
    assert [row["problem"] for row in measured.rows("sm90-cu133")] == [other.id]
    for cell in arms:
        assert measured.failures(cell) == [f"{PROBLEM.id}: could not be timed: CUDA out of memory"]


def test_peers_take_turns_with_builds(performance, flash_attention):
    windowed = replace(PROBLEM, window=(4, 0))
    peers = [PEERS["sdpa_flash"]]
    measured = performance(flash_attention, {"tiny": [PROBLEM, windowed]}, peers=peers)
    measured.run()
    first, second = measured.peer_rows()
    assert first["best_peer"] == "sdpa_flash"
    assert list(first["arms"]) == ["sm90-cu133", "sm80-cu124-on-sm90", "sdpa_flash"]
    assert second["not_run"] == {"sdpa_flash": "has no window"}
    names = [name for name, *_ in measured.entries()]
    assert names == [*first["arms"], "sm90-cu133", "sm80-cu124-on-sm90"]
    peers_row = measured.row(*next(e for e in measured.entries() if e[0] == "sdpa_flash"))
    assert "variant" not in peers_row
    assert measured.failures("sm90-cu133") == []


def test_every_variant_has_a_problem(arms):
    problems = variant_problems(arms.values())
    for arm in arms.values():
        used = {arm.variant(problem).name for problem in problems}
        assert used == {v.name for v in arm.manifest.variants if not v.candidate}


def test_every_set_has_a_problem(arms):
    problems = variant_problems(arms.values())
    assert {p.page_size for p in problems if p.layout == "paged_aligned"} == {64}

    def is_of(problem, arm, variant, serves):
        low, high = serves.log2_seqlen_q
        rows = log2_seqlen(query_rows(problem.max_seqlen_q, problem.group))
        return (
            arm.variant(problem).name == variant.name
            and problem.layout in serves.layouts
            and low <= rows <= high
        )

    for arm in arms.values():
        for variant in arm.manifest.variants:
            for serves in variant.serves:
                assert any(is_of(problem, arm, variant, serves) for problem in problems)


def test_launch_occupancy_counts_waves(arms):
    warps = 8
    variant = replace(
        arms["sm90-cu133"].variant(PROBLEM),
        block_m=128,
        occupancy=OccupancyRecord(ctas_per_sm=2, warps_per_sm=warps, limit="registers"),
    )
    problem = Problem(
        dtype="bf16", heads_q=3, heads_k=3, head_dim=64, batch=4, seqlen_q=257, seqlen_k=64
    )
    occupancy = launch_occupancy(variant, problem, (9, 0), sms=4)
    assert occupancy.ctas == 3 * 3 * 4
    assert occupancy.waves == 36 / 8
    assert occupancy.theoretical == warps / 64
    assert occupancy.launch == pytest.approx(warps / 64 * 4.5 / 5)
    # A split-KV kernel: rows are (query, head of the group) pairs, and CTAs share keys.
    splitting = replace(variant, splits_keys=1, block_n=64)
    grouped = replace(problem, heads_k=1, seqlen_q=50, seqlen_k=300, num_splits=3)
    assert launch_occupancy(splitting, grouped, (9, 0), sms=4).ctas == 2 * 1 * 4 * 3
    grouped = replace(grouped, num_splits=9)
    assert launch_occupancy(splitting, grouped, (9, 0), sms=4).ctas == 2 * 1 * 4 * 5
    few = launch_occupancy(variant, PROBLEM, (9, 0), sms=132)
    assert few.launch == pytest.approx(warps / 64 * 2 / 264)
