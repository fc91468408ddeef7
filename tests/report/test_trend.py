"""The trend: what DuckDB reads of pytest-benchmark's files, by suite, with what has moved most."""

import json
import re
import sys
from collections.abc import Mapping

import pytest

from fa3_matrix.report import render, time_plots
from fa3_matrix.report.inputs import Json

from ..page import Page
from .conftest import BuildFolder
from .test_render import _columns_agree

P, Q = "dense_bf16_d64_h2-2_b1_q32_k32_s0", "varlen_bf16_d64_h2-2_q32-8_k32-8_s0"


def keep(build: BuildFolder, day: int, medians: Mapping[str, float], cell: str = "sm90-cu133"):
    """Keeps a run as pytest-benchmark writes it: microseconds by what a test is named after."""
    document = {
        "datetime": f"2026-11-{day:02d}T03:00:00+00:00",
        "commit_info": {"id": f"{day:040x}", "dirty": False},
        "machine_info": {"gpu": {"gpu": "NVIDIA H200", "uuid": "u"}},
        "benchmarks": [
            {
                "fullname": f"src/fa3_matrix/bench/cases.py::test_forward[{cell}-{name}]",
                "extra_info": {"cell": cell},
                "stats": {"median": us * 1e-6, "iqr": 1e-8},
            }
            for name, us in medians.items()
        ],
    }
    path = build.path / "history" / f"{cell}-{day}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def trend(build: BuildFolder) -> Json:
    found: Json = build.assembled()["trend"]
    return found


def test_without_the_folder_there_is_no_trend(build: BuildFolder):
    data = build.assembled()
    assert data["trend"] is None
    assert "Trend" not in Page(render.html(data)).text


def test_a_suites_change_is_the_mean_over_its_benchmarks(build: BuildFolder):
    for day, (p, q) in enumerate([(100, 10), (100, 10), (121, 10)], 1):
        keep(build, day, {f"headline-{P}": p, f"headline-{Q}": q, f"varlen-{Q}": q})
    headline, varlen = trend(build)["suites"]
    assert (headline["suite"], headline["cell"]) == ("headline", "sm90-cu133")
    assert [point["change"] for point in headline["points"]] == pytest.approx([0, 0, 0.1])
    assert headline["points"][2]["commit"] == f"{3:040x}"
    assert varlen["suite"] == "varlen"
    assert [point["change"] for point in varlen["points"]] == [0, 0, 0]


def test_builds_have_panels_of_their_own_and_one_run_has_none(build: BuildFolder):
    for cell in ("sm90-cu124", "sm90-cu133"):
        keep(build, 1, {f"headline-{P}": 10}, cell)
    assert trend(build)["suites"] == []
    assert "One run alone is kept" in Page(render.html(build.assembled())).text
    for cell in ("sm90-cu124", "sm90-cu133"):
        keep(build, 2, {f"headline-{P}": 10}, cell)
    assert [suite["cell"] for suite in trend(build)["suites"]] == ["sm90-cu124", "sm90-cu133"]


def test_what_moved_most_is_named_slower_ones_first(build: BuildFolder):
    others = {f"grid-{P}_x{number}": 10.0 for number in range(12)}
    for day, factor in ((1, 1), (2, 1), (3, 1.5)):
        keep(build, day, others | {f"headline-{P}": 100 * factor, f"decode-{Q}": 10 / factor})
    movers = trend(build)["movers"]
    assert len(movers) == 8
    first, last = movers[0], movers[-1]
    assert (first["suite"], first["name"]) == ("headline", "bf16 d64 b1 h2 q32 k32")
    assert (first["previous_us"], first["latest_us"]) == pytest.approx((100, 150))
    assert (last["suite"], last["change"]) == ("decode", pytest.approx(-1 / 3))
    data = build.assembled()
    text, markdown = Page(render.html(data)).text, render.markdown(data)
    assert "sm90-cu133 NVIDIA H200 100.0 150.0 +50.0%" in text
    assert "| sm90-cu133 | 100.0 | 150.0 | +50.0% |" in markdown
    _columns_agree(markdown)


def test_a_test_named_otherwise_keeps_its_name(build: BuildFolder):
    for day in (1, 2):
        keep(build, day, {"something <else>": 10.0})
    (mover,) = trend(build)["movers"]
    assert (mover["suite"], mover["name"]) == ("", "test_forward[sm90-cu133-something <else>]")
    assert "something &lt;else&gt;" in render.html(build.assembled())


def test_panels_are_drawn_on_one_scale(build: BuildFolder):
    for day, p in ((1, 100), (2, 100), (3, 150)):
        keep(build, day, {f"headline-{P}": p, f"varlen-{Q}": 10})
    suites, movers = time_plots.trends(trend(build))
    assert (len(suites), len(movers)) == (2, 2)
    for plot in suites:
        assert ">2026-11-01<" in plot and ">2026-11-03<" in plot
    moved, calm = ([int(n) for n in re.findall(r">(\d+)</text>", plot)] for plot in suites)
    assert moved == calm
    assert max(calm) > 20  # percent


def test_files_of_another_kind_are_named(build: BuildFolder):
    for day in (1, 2):
        keep(build, day, {f"headline-{P}": 10})
    (build.path / "history" / "other.json").write_text('{"a": 1}')
    assert [name.endswith("other.json") for name in trend(build)["skipped"]] == [True]
    assert "1 files of that folder not read" in Page(render.html(build.assembled())).text


def test_a_folder_without_results_says_so(build: BuildFolder):
    (build.path / "history").mkdir(parents=True)
    assert "holds no results of pytest-benchmark" in trend(build)["why_not"]
    assert "Not shown:" in Page(render.html(build.assembled())).text


def test_without_duckdb_the_extra_is_named(build: BuildFolder, monkeypatch: pytest.MonkeyPatch):
    keep(build, 1, {f"headline-{P}": 10})
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert trend(build)["why_not"] == "it needs duckdb, which the extra `history` installs"
