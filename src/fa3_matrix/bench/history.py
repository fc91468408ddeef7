"""What became of each benchmark from run to run: pytest-benchmark's JSON files of a folder, queried in place by DuckDB.

Runs of different days are no pair: clocks, heat, drivers and other work differ. So a history is for seeing a drift and
where to look; whether something got slower, arms that are interleaved in one process say.

Read of each file are `datetime`, `commit_info.id` and `.dirty`, `machine_info.gpu.gpu` and `.uuid`, and of each of its
`benchmarks` `fullname`, `extra_info.cell`, `stats.median` and `stats.iqr`. Benchmark, build and GPU make a series.
"""

import csv
import glob
import io
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from fa3_matrix import _json
from fa3_matrix.errors import BenchError

# DuckDB's own, which files with many samples exceed.
_LEAST_OBJECT_BYTES = 16 * 1024 * 1024

_METRIC = "median_us"

# What must not be null is what a file of another schema lacks.
_TABLE = """
CREATE TABLE points (
    benchmark VARCHAR NOT NULL, cell VARCHAR, gpu VARCHAR, uuid VARCHAR,
    started TIMESTAMP NOT NULL, "commit" VARCHAR, dirty BOOLEAN,
    median_us DOUBLE NOT NULL, iqr_us DOUBLE NOT NULL
)
"""

_READ = """
INSERT INTO points
SELECT
    b.fullname, b.extra_info.cell, machine_info.gpu.gpu, machine_info.gpu.uuid,
    datetime::TIMESTAMPTZ::TIMESTAMP, commit_info.id, commit_info.dirty, b.stats.median * 1e6, b.stats.iqr * 1e6
FROM (
    SELECT *, unnest(benchmarks) AS b
    FROM read_json($path, format = 'unstructured', maximum_object_size = $bytes, columns = {
        'datetime': 'VARCHAR',
        'commit_info': 'STRUCT(id VARCHAR, dirty BOOLEAN)',
        'machine_info': 'STRUCT(gpu STRUCT(gpu VARCHAR, uuid VARCHAR))',
        'benchmarks': 'STRUCT(fullname VARCHAR, extra_info STRUCT(cell VARCHAR),
                              stats STRUCT(median DOUBLE, iqr DOUBLE))[]'
    })
)
"""

# DISTINCT: a run is one, however many copies of its file there are.
_SERIES = """
WITH aged AS (
    SELECT *, row_number() OVER (PARTITION BY benchmark, cell, gpu, uuid ORDER BY started DESC) AS age
    FROM (SELECT DISTINCT * FROM points)
)
SELECT
    benchmark, cell, gpu, uuid,
    list({'started': started, 'commit': "commit", 'dirty': dirty, 'median_us': median_us, 'iqr_us': iqr_us}
         ORDER BY started),
    count(*) FILTER (age BETWEEN 2 AND $previous + 1),
    median(median_us) FILTER (age BETWEEN 2 AND $previous + 1)
FROM aged
GROUP BY benchmark, cell, gpu, uuid
ORDER BY benchmark, cell, gpu, uuid
"""


@dataclass(frozen=True)
class Point:
    """A benchmark in one run: when (UTC, ISO 8601), of which commit, and its times in microseconds."""

    started: str
    commit: str | None
    dirty: bool | None
    median_us: float
    iqr_us: float


@dataclass(frozen=True)
class Series:
    """One benchmark of one build on one GPU, oldest run first.

    ``previous_us`` is the median over the ``previous`` runs before the latest, None where there is none. ``cell``,
    ``gpu`` and ``uuid`` are None where the file does not say.
    """

    benchmark: str
    cell: str | None
    gpu: str | None
    uuid: str | None
    points: list[Point]
    previous: int
    previous_us: float | None

    @property
    def latest(self) -> Point:
        return self.points[-1]

    @property
    def change(self) -> float | None:
        """The latest median over that of the previous runs, minus 1: above 0 it was slower."""
        return self.latest.median_us / self.previous_us - 1 if self.previous_us else None


@dataclass(frozen=True)
class History:
    """All series of a folder; ``skipped``: files that are not pytest-benchmark's, and why."""

    series: list[Series]
    skipped: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """The history as JSON data."""
        return {
            "schema": _json.SCHEMA,
            "kind": "history",
            "series": [{**asdict(series), "change": series.change} for series in self.series],
            "skipped": self.skipped,
        }


def write_otava(history: History, folder: Path) -> Path:
    """Write `history` for Apache Otava, which finds change points in it: a CSV file a series, and ``otava.yaml``.

    Returns the configuration's path (JSON, which is YAML): ``OTAVA_CONFIG=<path> otava analyze <test> --since ...``.
    """
    tests = {}
    for number, series in enumerate(history.series):
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("time", "commit", _METRIC))
        rows.writerows((p.started, p.commit or "", p.median_us) for p in series.points)
        file = folder / f"series-{number}.csv"
        _json.write_text_atomic(file, text.getvalue())
        name = " / ".join(filter(None, (series.benchmark, series.cell, series.gpu, series.uuid)))
        tests[name] = {
            "type": "csv",
            "file": str(file.resolve()),
            "time_column": "time",
            "attributes": ["commit"],
            "metrics": {_METRIC: {"column": _METRIC, "direction": -1}},
        }
    configuration = folder / "otava.yaml"
    _json.write_text_atomic(configuration, json.dumps({"tests": tests}, indent=2) + "\n")
    return configuration


def read(folder: Path, *, previous: int = 10) -> History:
    """The history of the ``*.json`` files in ``folder`` and the folders in it.

    Args:
        previous: how many runs before the latest it is compared with, at least 1.

    Raises:
        BenchError: no file there is pytest-benchmark's.
    """
    if previous < 1:
        raise ValueError(f"previous is {previous}; compare with at least 1 run")
    skipped = {}
    with duckdb.connect() as connection:
        # A plain TIMESTAMP is then in UTC, whatever the offset of the one with a zone that it is made from.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(_TABLE)
        for path in sorted(folder.rglob("*.json")):
            if reason := _read(connection, path):
                skipped[str(path)] = reason
        rows = connection.execute(_SERIES, {"previous": previous}).fetchall()
    if not rows:
        others = "".join(f"\n  {path}: {reason}" for path, reason in skipped.items())
        raise BenchError(
            f"{folder} holds no results of pytest-benchmark; `python -m fa3_matrix.bench run` writes "
            f"build/results/raw/pytest-benchmark.json: keep a copy of each run's in that folder{others}"
        )
    return History([_series(*row) for row in rows], skipped)


def _read(connection: duckdb.DuckDBPyConnection, path: Path) -> str:
    """Add a file's benchmarks; returns why it was skipped, else an empty string."""
    size = max(path.stat().st_size, _LEAST_OBJECT_BYTES)
    try:
        # Escaped, because DuckDB takes a path for a pattern.
        added = connection.execute(_READ, {"path": glob.escape(str(path)), "bytes": size})
    except duckdb.Error as error:
        return f"not of pytest-benchmark's schema ({str(error).splitlines()[0]})"
    return "" if added.fetchone() != (0,) else "holds no benchmarks"


def _series(
    benchmark: str,
    cell: str | None,
    gpu: str | None,
    uuid: str | None,
    points: list[dict[str, Any]],
    previous: int,
    previous_us: float | None,
) -> Series:
    dated = [Point(**{**point, "started": _utc(point["started"])}) for point in points]
    return Series(benchmark, cell, gpu, uuid, dated, previous, previous_us)


def _utc(moment: datetime) -> str:
    return moment.replace(tzinfo=UTC).isoformat(timespec="seconds")
