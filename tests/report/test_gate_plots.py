"""The gate's plots: the same text for the same data, and every cell readable without colour."""

import re
import warnings
from xml.etree import ElementTree

import pytest

from fa3_matrix.report import render
from fa3_matrix.report.inputs import Json

from .gate_runs import assembled, run

pytest.importorskip("matplotlib", reason="plots need the extra `report`")

from fa3_matrix.report import gate_plots


def _data(gate: Json, trials: list[Json] | None) -> Json:
    data: Json = assembled(gate, trials)["gate"]
    return data


@pytest.fixture(scope="module")
def data() -> Json:
    return _data(*run("fail"))


@pytest.fixture(scope="module")
def plots(data: Json) -> gate_plots.Plots:
    return gate_plots.draw(data)


def _every(plots: gate_plots.Plots) -> list[str]:
    return [plots.key, *plots.heat_maps, *plots.pairs, plots.controls, plots.trace]


def _texts(svg: str) -> list[str]:
    return [
        "".join(text.itertext()).strip()
        for text in ElementTree.fromstring(_bound(svg)).iter("text")
    ]


def _bound(svg: str) -> str:
    """As HTML reads it: there prefixes need no declaration."""
    return str(svg).replace("<svg", '<svg xmlns:xlink="x"', 1)


def test_the_same_data_are_the_same_text_on_any_day(data: Json, plots: gate_plots.Plots):
    assert gate_plots.draw(data) == plots
    assert not any(re.search(r"20\d\d-\d\d|<metadata|<!DOCTYPE|http", svg) for svg in _every(plots))


def test_the_users_settings_draw_nothing_else(data: Json, plots: gate_plots.Plots):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "text.parse_math": True}):
        assert gate_plots.draw(data) == plots


def test_ids_are_each_plots_own_and_met(plots: gate_plots.Plots):
    every = "".join(_every(plots))
    ids = re.findall(r'\bid="([^"]*)"', every)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(|href=")#([^)"]*)', every)
    assert used
    assert set(used) <= set(ids)


def test_every_cell_shows_its_number(data: Json, plots: gate_plots.Plots):
    (svg,) = plots.heat_maps
    shown = _texts(svg)
    for cell in data["cells"]:
        number = "none" if cell["ratio"] is None else f"{100 * (cell['ratio'] - 1):+z.1f}"
        assert number in shown
    assert shown.count("none") == 1


def test_what_may_be_nothing_is_hatched_and_a_failure_outlined(data: Json):
    def drawn(verdict: str, ratio: float | None, interval: list[float] | None) -> str:
        cell = {"verdict": verdict, "ratio": ratio, "interval": interval}
        heat_map = {"title": "t", "rows": ["r"], "columns": ["c"], "places": [[0, 0, 0]]}
        shown = {"cells": [cell], "heat_maps": [heat_map], "pairs": [], "controls": []}
        nothing = {"trace": {column: [] for column in data["trace"]}}
        (svg,) = gate_plots.draw(data | shown | nothing).heat_maps
        return str(svg)

    def hatched(svg: str) -> bool:
        return "<pattern" in svg

    assert hatched(drawn("pass", 1.01, [0.99, 1.03]))
    assert hatched(drawn("pass", 1.01, None))
    assert not hatched(drawn("pass", 1.01, [1.005, 1.015]))
    assert not hatched(drawn("pass", 0.97, [0.96, 0.98]))
    failed, passed = (drawn(verdict, 1.03, [1.02, 1.04]) for verdict in ("fail", "pass"))
    assert "stroke: var(--ink)" in failed
    assert "stroke: var(--ink)" not in passed
    assert drawn("no-pair", None, None) != drawn("inconclusive", None, None)


def test_beyond_the_clip_colours_are_the_same():
    colours, norm = gate_plots._colours()
    assert colours(norm(0.05)) == colours(norm(0.5)) != colours(norm(0.03))
    assert colours(norm(-0.06)) == colours(norm(-0.5))
    red, _, blue, _ = colours(norm(0.03))
    assert red > blue  # slower is red
    assert min(colours(norm(0.0))[:3]) > 0.95


def test_text_stays_text_and_a_dollar_a_dollar():
    gate, trials = run("fail")
    label = r"a$\frac{b}$<b>&c"
    for control in gate["controls"]:
        control["label"] = label
    gate["cells"][0] |= {"problem": label, "label": label}
    plots = gate_plots.draw(_data(gate, trials))
    assert any(label in text for text in _texts(plots.controls))
    assert any(label in text for text in _texts(plots.heat_maps[0]))
    assert "<b>" not in plots.controls


def test_signs_that_the_font_lacks_are_left_to_the_readers():
    gate, trials = run("fail")
    for control in gate["controls"]:
        control["label"] = "注意"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "注意" in gate_plots.draw(_data(gate, trials)).controls


def test_a_rejected_control_is_marked(plots: gate_plots.Plots):
    void = gate_plots.draw(_data(*run("void"))).controls
    assert "var(--bad)" in void
    assert "var(--bad)" not in plots.controls


def test_a_run_without_trials_or_estimates_draws_what_there_is():
    gate, _ = run("incomplete")
    assert _every(gate_plots.draw(_data(gate, None))) == ["", "", ""]
    gate, trials = run("pass")
    for trial in trials:
        for cell in trial["cells"]:
            for column in ("base_mhz", "head_mhz", "watts"):
                cell["pairs"][column] = [None] * len(cell["pairs"][column])
    plots = gate_plots.draw(_data(gate, trials))
    assert plots.trace == ""
    assert plots.heat_maps


def test_the_page_holds_every_plot(plots: gate_plots.Plots):
    page = render.html(assembled(*run("fail")))
    for svg in _every(plots):
        assert svg in page
