"""The trend: what became of the suites' times from run to run, of the results kept in the folder `history`.

Runs of different days are no pair (see `fa3_matrix.bench.history`): a drift says where to look, and fails nothing.
"""

import math
import re
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from fa3_matrix.bench.problems import Problem
from fa3_matrix.errors import BenchError
from fa3_matrix.report.inputs import Json

if TYPE_CHECKING:
    from fa3_matrix.bench.history import Series

_MOST_MOVERS = 8
# What `fa3_matrix.bench.cases` names a test after: cell, suite and problem, the first known from elsewhere.
_TEST = re.compile(r"\[(?P<suite>.*?)-?(?P<problem>(?:dense|varlen|cache)_.*)\]$")


def assemble(folder: Path) -> Json | None:
    """The trend of the results in `folder`, or `None` where there is no such folder.

    `why_not`: why nothing is shown (else empty). `suites`: for each suite, build and GPU with two runs or more its
    `points`: `started`, `commit` and `change`, by how much its benchmarks were slower than usual, each against its own
    median over all runs, in geometric mean. `movers`: the benchmarks whose latest run is furthest from the median of
    those before it, slower ones first, with their `points` in microseconds. `skipped`: files that hold no results, and
    why.
    """
    if not folder.is_dir():
        return None
    trend: Json = {"why_not": "", "suites": [], "movers": [], "skipped": {}}
    if find_spec("duckdb") is None:
        return trend | {"why_not": "it needs duckdb, which the extra `history` installs"}
    from fa3_matrix.bench import history

    try:
        found = history.read(folder)
    except BenchError as error:
        return trend | {"why_not": str(error)}
    moved = [series for series in found.series if series.change is not None]
    moved.sort(key=lambda series: -abs(math.log1p(series.change or 0)))
    return trend | {
        "suites": _suites(found.series),
        "movers": sorted(map(_mover, moved[:_MOST_MOVERS]), key=lambda mover: -mover["change"]),
        "skipped": found.skipped,
    }


def _suites(all_series: "list[Series]") -> list[Json]:
    groups: dict[tuple[str, str, str], list[Series]] = {}
    for series in all_series:
        key = _named(series)["suite"], series.cell or "", series.gpu or ""
        groups.setdefault(key, []).append(series)
    shown = []
    for (suite, cell, gpu), members in sorted(groups.items()):
        points = _points(members)
        if len(points) > 1:
            shown.append({"suite": suite, "cell": cell, "gpu": gpu, "points": points})
    return shown


def _points(members: "list[Series]") -> list[Json]:
    runs: dict[tuple[str, str], list[float]] = {}
    for series in members:
        usual = median(point.median_us for point in series.points)
        for point in series.points:
            key = point.started, point.commit or ""
            runs.setdefault(key, []).append(math.log(point.median_us / usual))
    return [
        {"started": started, "commit": commit, "change": math.expm1(math.fsum(logs) / len(logs))}
        for (started, commit), logs in sorted(runs.items())
    ]


def _mover(series: "Series") -> Json:
    return {
        **_named(series),
        "cell": series.cell or "",
        "gpu": series.gpu or "",
        "change": series.change,
        "latest_us": series.latest.median_us,
        "previous_us": series.previous_us,
        "points": [{"started": p.started, "us": p.median_us} for p in series.points],
    }


def _named(series: "Series") -> Json:
    """The suite and the problem's label, as far as the benchmark's name tells."""
    test = series.benchmark.replace(f"[{series.cell}-", "[")
    match = _TEST.search(test)
    if match is None:
        return {"suite": "", "name": series.benchmark.rpartition("::")[2]}
    return {"suite": match["suite"], "name": _label(match["problem"])}


def _label(problem: str) -> str:
    try:
        return Problem.parse(problem).label
    except ValueError:
        return problem  # of another version
