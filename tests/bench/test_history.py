"""A history out of what pytest-benchmark itself writes, beside files that are not its own."""

import csv
import json
import os
import statistics
import subprocess
import sys
from dataclasses import astuple
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa3_matrix.bench.history import Series, read, write_otava
from fa3_matrix.errors import BenchError

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
GPU = {"gpu": "NVIDIA H200", "driver": "580.159.03", "uuid": "GPU-1", "torch": "2.11.0"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A file of pytest-benchmark's, of one test that ran as `fa3_matrix.bench.cases` do."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "test_case.py").write_text(
        "def test_forward(device_benchmark):\n"
        "    device_benchmark.benchmark.extra_info['cell'] = 'sm90-cu133'\n"
        "    device_benchmark.replay([1e-4, 2e-4, 3e-4, 5e-4])\n"
    )
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", "."),
            *("-p", "no:cacheprovider", "-p", "fa3_matrix.bench.plugin"),
            "--benchmark-json=run.json",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        check=True,
    )
    document: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return document


def run(
    started: datetime,
    median: float = 1e-4,
    *,
    benchmark: str = "a",
    cell: str = "sm90-cu133",
    gpu: dict[str, Any] | None = GPU,
) -> dict[str, Any]:
    """The keys that are read, and some that are not."""
    stats = {"median": median, "iqr": median / 100, "data": [median] * 3}
    return {
        "datetime": started.isoformat(),
        "version": "5.3.1",
        "commit_info": {"id": "c0ffee", "dirty": False, "branch": "main"},
        "machine_info": {"node": "here", "gpu": gpu},
        "benchmarks": [
            {"fullname": benchmark, "params": None, "extra_info": {"cell": cell}, "stats": stats}
        ],
    }


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def key(series: Series) -> tuple[str | None, ...]:
    return astuple(series)[:4]


def test_a_file_of_pytest_benchmark_is_a_run(tmp_path: Path, written: dict[str, Any]):
    write(tmp_path / "run.json", written)
    history = read(tmp_path)
    assert history.skipped == {}
    (series,) = history.series
    assert key(series) == ("test_case.py::test_forward", "sm90-cu133", None, None)
    assert series.latest.started == (
        datetime.fromisoformat(written["datetime"]).replace(microsecond=0).isoformat()
    )
    stats = written["benchmarks"][0]["stats"]
    assert series.latest.median_us == pytest.approx(250)
    assert series.latest.iqr_us == pytest.approx(stats["iqr"] * 1e6)
    assert (series.previous, series.previous_us, series.change) == (0, None, None)


def test_the_latest_run_is_compared_with_those_before_it(tmp_path: Path):
    for day, median in enumerate((9e-4, 1e-4, 2e-4, 4e-4, 3e-4)):
        # Neither the names nor the folders of the files tell their order.
        write(tmp_path / str(day % 2) / f"{9 - day}.json", run(START + timedelta(days=day), median))
    (series,) = read(tmp_path, previous=3).series
    assert [point.median_us for point in series.points] == pytest.approx([900, 100, 200, 400, 300])
    assert (series.latest.commit, series.latest.dirty) == ("c0ffee", False)
    assert series.previous == 3
    assert series.previous_us == pytest.approx(200)
    assert series.change == pytest.approx(0.5)
    assert read(tmp_path, previous=99).series[0].previous == 4
    with pytest.raises(ValueError, match="previous is 0"):
        read(tmp_path, previous=0)


def test_benchmark_build_and_gpu_make_a_series(tmp_path: Path):
    other_gpu = GPU | {"uuid": "GPU-2"}
    runs = [
        run(START),
        run(START, benchmark="b"),
        run(START, cell="sm90-cu124"),
        run(START, gpu=other_gpu),
        run(START, gpu=None),
        run(START + timedelta(days=1)),
    ]
    for number, document in enumerate(runs):
        write(tmp_path / f"{number}.json", document)
    history = read(tmp_path)
    assert [(key(series), series.previous) for series in history.series] == [
        (("a", "sm90-cu124", "NVIDIA H200", "GPU-1"), 0),
        (("a", "sm90-cu133", "NVIDIA H200", "GPU-1"), 1),
        (("a", "sm90-cu133", "NVIDIA H200", "GPU-2"), 0),
        (("a", "sm90-cu133", None, None), 0),
        (("b", "sm90-cu133", "NVIDIA H200", "GPU-1"), 0),
    ]
    json.dumps(history.as_json(), allow_nan=False)


def test_a_copy_of_a_file_is_no_other_run(tmp_path: Path):
    for name in ("pytest-benchmark.json", "kept.json"):
        write(tmp_path / name, run(START))
    assert len(read(tmp_path).series[0].points) == 1


def test_runs_are_ordered_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "America/New_York")
    late = datetime(2026, 11, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
    write(tmp_path / "1.json", run(late, 2e-4))
    write(tmp_path / "2.json", run(datetime(2026, 11, 1, 11, 0), 3e-4))
    (series,) = read(tmp_path).series
    assert [point.started for point in series.points] == [
        "2026-11-01T10:30:00+00:00",
        "2026-11-01T11:00:00+00:00",
    ]


BROKEN = run(START)
BROKEN["benchmarks"] = [*BROKEN["benchmarks"], {"name": "no figures", "real_time": 3.0}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no benchmarks"),
        ("{", "not of pytest-benchmark's schema (Invalid Input Error: Malformed JSON"),
        ("[1, 2]", "not of pytest-benchmark's schema ("),
        ('{"schema": 1, "kind": "performance", "results": []}', "holds no benchmarks"),
        ('{"context": {}, "benchmarks": [{"name": "BM", "real_time": 3.0}]}', "points.benchmark"),
        ('{"benchmarks": 3}', "not of pytest-benchmark's schema ("),
        (json.dumps(run(START) | {"datetime": "never"}), "not of pytest-benchmark's schema ("),
        (json.dumps(run(START) | {"datetime": None}), "points.started"),
        # All or nothing: half a file would be half a run.
        (json.dumps(BROKEN), "points.benchmark"),
    ],
)
def test_other_files_are_skipped_and_named(tmp_path: Path, text: str, reason: str):
    other = tmp_path / "other.json"
    other.write_text(text)
    with pytest.raises(BenchError, match="holds no results of pytest-benchmark") as refused:
        read(tmp_path)
    assert f"\n  {other}: " in str(refused.value)
    write(tmp_path / "run.json", run(START))
    history = read(tmp_path)
    assert len(history.series) == 1
    assert list(history.skipped) == [str(other)]
    assert reason in history.skipped[str(other)]


def test_an_empty_folder_says_what_to_do(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("no JSON")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BenchError, match=r"bench run` writes .*: keep a copy of each run's"):
            read(folder)


def test_a_path_is_no_pattern(tmp_path: Path):
    write(tmp_path / "[ab]*?.json", run(START))
    write(tmp_path / "a1.json", run(START, benchmark="b"))
    assert [series.benchmark for series in read(tmp_path).series] == ["a", "b"]


def test_a_file_of_many_samples_is_read(tmp_path: Path):
    document = run(START)
    document["benchmarks"][0]["stats"]["data"] = [1.234567890123456e-4] * 900_000
    assert write(tmp_path / "run.json", document).stat().st_size > 16 * 1024 * 1024
    assert len(read(tmp_path).series) == 1


@settings(max_examples=20, deadline=None)
@given(medians=st.lists(st.integers(1, 10**6), min_size=1, max_size=8), previous=st.integers(1, 9))
def test_the_previous_median_is_that_of_the_statistics_module(
    tmp_path_factory: pytest.TempPathFactory, medians: list[int], previous: int
):
    folder = tmp_path_factory.mktemp("runs")
    for day, median in enumerate(medians):
        write(folder / f"{day}.json", run(START + timedelta(days=day), median * 1e-6))
    (series,) = read(folder, previous=previous).series
    before = medians[:-1][-previous:]
    assert series.previous == len(before)
    if before:
        assert series.previous_us == pytest.approx(statistics.median(before))
        assert series.change == pytest.approx(medians[-1] / statistics.median(before) - 1)
    else:
        assert series.previous_us is None


def test_otava_gets_a_file_a_series(tmp_path: Path):
    for day, median in enumerate((1e-4, 1.02e-4)):
        for cell in ("sm90-cu124", "sm90-cu133"):
            started = START + timedelta(days=day, hours=len(cell))
            write(tmp_path / "in" / f"{cell}-{day}.json", run(started, median, cell=cell))
    configuration = write_otava(read(tmp_path / "in"), tmp_path / "out")
    tests = json.loads(configuration.read_text())["tests"]
    assert set(tests) == {f"a / {c} / NVIDIA H200 / GPU-1" for c in ("sm90-cu124", "sm90-cu133")}
    for test in tests.values():
        with Path(test["file"]).open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row[test["metrics"]["median_us"]["column"]]) for row in rows] == [
            pytest.approx(100),
            pytest.approx(102),
        ]
        assert rows[0][test["time_column"]] < rows[1][test["time_column"]]
        assert rows[0][test["attributes"][0]] == "c0ffee"
