"""Times of both toolkits: only what one process measured is put side by side, and no ceiling is made up."""

import math
import sys
from typing import Any

import pytest

from fa3_matrix import _json, report
from fa3_matrix.report import render, time_plots
from fa3_matrix.report.inputs import Json

from ..page import Page
from .conftest import BuildFolder
from .gate_runs import compared
from .test_render import _columns_agree

CEILINGS = {"gemm_tflops": 700.0, "copy_gb_per_s": 4000.0, "gemm": "bf16", "copy": "1 GB"}
STARTED = "2026-11-29T12:00:00+00:00"


def row(problem: str, us: float, suite: str = "headline", **more: Any) -> Json:
    """A row of `bench run`: 2 GFLOP on 10 MB, so an intensity of 200 and 2000/us TFLOP/s."""
    return {
        "problem": problem,
        "name": f"label of {problem}",
        "suite": suite,
        "variant": "fa3_fwd_sm90_bf16_d128_m128n64",
        "median_us": us,
        "tflops": 2e3 / us,
        "gb_per_s": 10e3 / us,
        "launch_us": 9.5,
        "occupancy": {"theoretical": 0.125, "launch": 0.11, "ctas": 128, "waves": 1.0},
        "flops": 2e9,
        "bytes": 10_000_000,
    } | more


def timed(build: BuildFolder, cell: str, *rows: Json, **more: Any) -> None:
    """What `bench run` leaves of one build."""
    build.manifest(cell)
    values: Json = {
        "suites": ["headline"],
        "results": list(rows),
        "machine": {"gpu": "NVIDIA H200", "uuid": "u"},
        "started": STARTED,
        "ceilings": CEILINGS,
        "manifest_sha256": build.manifest_sha256(cell),
    }
    build.result("performance", cell, "measured", **(values | more))


def test_a_run_of_both_toolkits_is_put_side_by_side(build: BuildFolder):
    timed(build, "sm90-cu124", row("p", 10.0), row("q", 10.0), row("r", 10.0, "decode"))
    timed(build, "sm90-cu133", row("p", 8.0), row("q", 11.0), row("s", 5.0))
    (entry,) = build.assembled()["timings"]
    assert entry["title"] == "sm90-cu124 → sm90-cu133"
    (suite,) = entry["suites"]  # of decode one arm alone was timed
    assert (suite["suite"], suite["problems"]) == ("headline", 2)
    assert suite["geomean"] == pytest.approx(math.sqrt(0.8 * 1.1))
    assert suite["fastest"] == {"name": "label of p", "ratio": 0.8}
    assert suite["slowest"] == {"name": "label of q", "ratio": 1.1}
    assert [row["ratio"] for row in entry["rows"]] == [0.8, 1.1, None, None]
    assert entry["rows"][0]["intensity"] == 200
    assert entry["rows"][0]["tflops"] == pytest.approx({"sm90-cu124": 200, "sm90-cu133": 250})
    report.write(build.path)
    text = Page((build.path / "report" / "index.html").read_text(encoding="utf-8")).text
    assert "headline 2 -6.2% -20.0% label of p +10.0% label of q" in text
    markdown = (build.path / "report" / "report.md").read_text(encoding="utf-8")
    assert "| headline | 2 | -6.2% | -20.0% (label of p) | +10.0% (label of q) |" in markdown
    _columns_agree(markdown)


@pytest.mark.parametrize(
    "other",
    [
        {"started": "2026-11-30T12:00:00+00:00"},
        {"machine": {"gpu": "NVIDIA H200", "uuid": "another"}},
    ],
)
def test_times_of_two_runs_are_not(build: BuildFolder, other: Json):
    timed(build, "sm90-cu124", row("p", 10.0))
    timed(build, "sm90-cu133", row("p", 8.0), **other)
    entries = build.assembled()["timings"]
    assert sorted(entry["title"] for entry in entries) == ["sm90-cu124", "sm90-cu133"]
    assert [entry["suites"] for entry in entries] == [[], []]
    text = Page(render.html(build.assembled())).text
    assert text.count("One toolkit's build alone was timed.") == 2


def test_twins_are_beside_their_like_and_archs_apart(build: BuildFolder):
    for cell in ("sm90-cu133", "sm80-cu124-on-sm90", "sm80-cu133-on-sm90"):
        timed(build, cell, row("p", 10.0))
    titles = [entry["title"] for entry in build.assembled()["timings"]]
    assert titles == ["sm90-cu133", "sm80-cu124-on-sm90 → sm80-cu133-on-sm90"]


def peers(build: BuildFolder, **more: Any) -> None:
    times = {"sm90-cu124": 10.0, "sm90-cu133": 9.0, "fast": 8.0}
    entry = row("p", 9.0, best_peer="fast", not_run={}, ratio={"sm90-cu133": 8 / 9}) | {
        "arms": {name: {"median_us": us} for name, us in times.items()}
    }
    build.peers(
        **(
            {
                "cell": ["sm90-cu124", "sm90-cu133"],
                "machine": {"gpu": "NVIDIA H200"},
                "floor": 0.95,
                "peers": [{"name": "fast", "title": "F", "version": "3", "not_run": ""}],
                "summary": [],
                "results": [entry],
                "started": STARTED,
            }
            | more
        )
    )


def test_a_comparison_with_peers_compares_the_toolkits_too(build: BuildFolder):
    peers(build, ceilings=CEILINGS)
    (entry,) = build.assembled()["timings"]
    assert (entry["run"], entry["no_roofline"]) == ("bench run --peers", "")
    assert entry["suites"][0]["geomean"] == pytest.approx(0.9)
    assert set(entry["rows"][0]["us"]) == {"sm90-cu124", "sm90-cu133"}


@pytest.mark.parametrize("ceilings", [{}, {"ceilings": None}])
def test_no_ceilings_no_roofline_and_a_sentence(build: BuildFolder, ceilings: Json):
    peers(build, **ceilings)
    data = build.assembled()
    assert time_plots.rooflines(data["timings"]) == [""]
    text = Page(render.html(data)).text
    assert "No roofline: no GEMM and no copy were timed in that run." in text


def test_rows_that_do_not_say_what_they_compute_have_no_roofline(build: BuildFolder):
    timed(build, "sm90-cu133", row("p", 8.0, flops=None, bytes=None))
    data = build.assembled()
    assert data["timings"][0]["rows"][0]["intensity"] is None
    assert "No roofline: its rows do not say how much is computed" in Page(render.html(data)).text


def test_the_roofline_has_a_point_an_arm_and_the_measured_ceilings(build: BuildFolder):
    timed(build, "sm90-cu124", row("p", 10.0), row("r", 20.0, "decode", flops=2e7))
    timed(build, "sm90-cu133", row("p", 8.0))
    (plot,) = time_plots.rooflines(build.assembled()["timings"])
    for words in ("GEMM 700 TFLOP/s", "copy 4000 GB/s", "CUDA 12.4", "CUDA 13.3", "decode"):
        assert f">{words}<" in plot
    assert 'aria-label="TFLOP/s against arithmetic intensity: sm90-cu124 → sm90-cu133"' in plot
    timed(build, "sm90-cu133", row("p", 8.0), row("t", 8.0))
    (more,) = time_plots.rooflines(build.assembled()["timings"])
    assert more.count("<use ") == plot.count("<use ") + 1


def test_problems_too_small_for_the_roofline_are_counted(build: BuildFolder):
    tiny = row("t", 10.0, flops=1e6)  # a thousandth of the GEMM's 700 is 7e6
    timed(build, "sm90-cu133", row("p", 8.0), tiny)
    (plot,) = time_plots.rooflines(build.assembled()["timings"])
    assert ">below 0.7 TFLOP/s, not drawn: 1<" in plot
    timed(build, "sm90-cu133", tiny)
    (plot,) = time_plots.rooflines(build.assembled()["timings"])
    assert "not drawn: 1<" in plot


def test_without_matplotlib_the_figures_stay(build: BuildFolder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    timed(build, "sm90-cu124", row("p", 10.0))
    timed(build, "sm90-cu133", row("p", 8.0))
    page = render.html(build.assembled())
    assert "<svg" not in page
    text = Page(page).text
    assert "No roofline: it needs matplotlib" in text
    assert "headline 1 -20.0%" in text


def test_two_builds_side_by_side_have_intervals_and_no_verdict(build: BuildFolder):
    found = compared()
    _json.write_atomic(build.path / "results" / "comparison.json", found)
    data = build.assembled()
    shown = data["side_by_side"]["cells"]
    assert [cell["control"] for cell in shown] == [None] * len(shown)
    (suite,) = data["side_by_side"]["suites"]
    assert suite["problems"] == len(shown) > 20
    assert min(cell["ratio"] for cell in shown) == suite["fastest"]["ratio"]
    text, markdown = Page(render.html(data)).text, render.markdown(data)
    assert f"{found['base']} → {found['head']}, in 2 trials" in text
    assert "no verdict" in text
    assert "trials: 2; no verdict" in markdown
    _columns_agree(markdown)


def figures(us: float, **more: Any) -> Json:
    """Of an arm on a problem, as a run with ceilings has them."""
    return {
        "median_us": us,
        "launch_us": us + 1,
        "idle_us": us + 2,
        "memory": {"peak_bytes": 3000, "output_bytes": 1000, "workspace_bytes": 2000},
        "graph": None,
    } | more


def graph(p50: float, p99: float, p999: float) -> Json:
    return {"error": "", "replays": 1000, "p50_us": p50, "p99_us": p99, "p999_us": p999}


def test_a_run_with_peers_is_told_once(build: BuildFolder):
    for cell, us in (("sm90-cu124", 10.0), ("sm90-cu133", 9.0)):
        timed(build, cell, row("p", us, **figures(us)))
    arms = {name: figures(us) for name, us in (("sm90-cu133", 9.0), ("fast", 8.0))}
    machine = {"gpu": "NVIDIA H200", "uuid": "u"}
    results = [row("p", 9.0, best_peer="fast", not_run={}, ratio={}) | {"arms": arms}]
    peers(build, machine=machine, ceilings=CEILINGS, results=results)
    data = build.assembled()
    assert [entry["run"] for entry in data["timings"]] == ["bench run"]
    (run,) = data["costs"]
    assert {arm["name"] for arm in run["arms"]} == {"sm90-cu124", "sm90-cu133", "fast"}


def test_costs_are_summed_up_by_arm(build: BuildFolder):
    failed = graph(1, 1, 1) | {"error": "not permitted", "p50_us": None}
    rows = [
        row("p", 10.0, **figures(10.0, graph=graph(10, 11, 15))),
        row("q", 20.0, **figures(20.0, graph=graph(10, 12, 13), memory=None)),
        row("r", 60.0, **figures(60.0, graph=failed)),
    ]
    timed(build, "sm90-cu133", *rows)
    ((arm,),) = (run["arms"] for run in build.assembled()["costs"])
    assert (arm["problems"], arm["launch_us"], arm["idle_us"]) == (3, 21, 22)
    assert (arm["workspace_bytes"], arm["captured"], arm["asked"]) == (2000, 2, 3)
    assert (arm["p99"], arm["p999"]) == pytest.approx((1.2, 1.5))
    text = Page(render.html(build.assembled())).text
    assert "sm90-cu133 3 21.0 22.0 2 kB 2 of 3 +20.0% +50.0%" in text


def test_a_run_that_did_not_measure_costs_has_none(build: BuildFolder):
    timed(build, "sm90-cu133", row("p", 10.0))
    assert build.assembled()["costs"] == []


def test_shares_of_the_ceilings_stand_beside_the_rates(build: BuildFolder):
    timed(build, "sm90-cu133", row("p", 10.0, of_gemm=0.613, of_copy=0.07), row("q", 10.0))
    text = Page(render.html(build.assembled())).text
    assert "200.0 61% 1000 7%" in text
    assert "200.0 – 1000 –" in text
