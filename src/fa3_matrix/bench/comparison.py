"""Times of builds beside those of peers, as rows and figures: what ``peers.json`` holds. Needs no torch."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fa3_matrix.bench.figures import arm_figures, problem_figures
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document

if TYPE_CHECKING:
    from fa3_matrix.bench.ceilings import Ceilings
    from fa3_matrix.bench.measure import Outcome

# No problem should be slower than this beside the best peer (issue 3, target 1).
FLOOR = 0.95


def row(
    suite: str,
    problem: Problem,
    builds: Sequence[str],
    outcome: "Outcome",
    ceilings: "Ceilings",
) -> Document:
    """One entry of ``results``; arms that are not `builds` are peers."""
    medians = {name: arm.samples.median for name, arm in outcome.timed.items()}
    peers = [name for name in medians if name not in builds]
    best = min(peers, key=medians.__getitem__, default=None)
    # Alike in all arms of a problem.
    common = next(iter(outcome.timed.values()), None)
    return {
        "suite": suite,
        **problem_figures(problem),
        "head_dim": problem.head_dim,
        "arms": {name: arm_figures(problem, arm, ceilings) for name, arm in outcome.timed.items()},
        "not_run": outcome.not_timed,
        "best_peer": best,
        "ratio": {
            build: medians[best] / medians[build]
            for build in builds
            if best is not None and build in medians
        },
        "mode": common and common.samples.mode,
        "calls": common and common.samples.calls,
        "sm_mhz": common and common.sm_mhz,
    }


def summarise(builds: Iterable[str], rows: Iterable[Document]) -> list[Document]:
    """One entry of ``summary`` for each build and suite, and where a suite has several, for each head_dim."""
    groups: dict[str, dict[int | None, list[Document]]] = {}
    for entry in rows:
        suite = groups.setdefault(entry["suite"], {None: []})
        suite[None].append(entry)
        suite.setdefault(entry["head_dim"], []).append(entry)
    return [
        {"build": build, "suite": suite, "head_dim": head_dim, **_figures(build, group)}
        for build in builds
        for suite, by_head_dim in groups.items()
        for head_dim, group in by_head_dim.items()
        if head_dim is None or len(by_head_dim) > 2
        if any(build in entry["ratio"] for entry in group)
    ]


def _figures(build: str, rows: Sequence[Document]) -> Document:
    ratios = [(entry["ratio"][build], entry["name"]) for entry in rows if build in entry["ratio"]]
    worst, worst_name = min(ratios)
    return {
        "compared": len(ratios),
        "not_compared": len(rows) - len(ratios),
        "geomean": math.exp(math.fsum(math.log(ratio) for ratio, _ in ratios) / len(ratios)),
        "worst": worst,
        "worst_name": worst_name,
        "below_floor": sum(ratio < FLOOR for ratio, _ in ratios),
    }


def refusals(rows: Iterable[Document]) -> dict[tuple[str, str], int]:
    """How many problems each (arm, reason) kept from being timed."""
    counts: dict[tuple[str, str], int] = {}
    for entry in rows:
        for refusal in entry["not_run"].items():
            counts[refusal] = counts.get(refusal, 0) + 1
    return counts
