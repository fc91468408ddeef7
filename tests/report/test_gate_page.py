"""The gate's section: it says what the gate's document says, and nothing where no run was judged."""

import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix import _json, report
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.report import gate_page, render
from fa3_matrix.report.__main__ import summary
from fa3_matrix.report.inputs import Json

from ..page import Page
from .conftest import BuildFolder, load_matrix
from .gate_runs import CELLS, NO_KERNEL, SLOW, TWINS, assembled, cell_of, compared, run, write
from .test_render import _columns_agree

HINTS = ["associated with 24 more bytes spilled", "associated with another schedule"]
HOSTILE = '<script>alert(1)</script> | $x^{ `"><img src=x onerror=y> [a](b)\n::error::z %'


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def _failed() -> tuple[Json, list[Json]]:
    gate, trials = run("fail")
    cell_of(gate["cells"], SLOW)["hints"] = list(HINTS)
    return gate, trials


def test_no_gate_is_not_run_with_the_reason():
    data = assembled(None)
    assert data["gate"] is None
    lines = {entry["stage"]: entry["reason"] for entry in data["not_run"]}
    assert "no two builds were timed side by side" in lines["gate"]
    assert "no build was held to a base's" in lines["static gate"]
    page = render.html(data)
    text = Page(page).text
    assert lines["gate"] in text
    assert "Performance gate" not in text
    assert "<script" not in page
    assert gate_page.annotations(data) == ""


def test_the_files_of_a_judged_run(build: BuildFolder):
    gate, trials = _failed()
    write(build, gate, trials)
    data = report.write(build.path)
    assert data["gate"]["outcome"] == "fail"
    assert {"gate"}.isdisjoint(entry["stage"] for entry in data["not_run"])
    folder = build.path / "report"
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    assert page.loads == []
    assert "Performance gate" in page.text
    assert "## Performance gate: fail" in (folder / "report.md").read_text(encoding="utf-8")
    assert (folder / "annotations.txt").read_text(encoding="utf-8").startswith("::error file=")
    assert any(
        line.startswith("gate: fail, a cell is slower") for line in summary(data).split("\n")
    )


@pytest.mark.usefixtures("without_matplotlib")
@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_told_first_with_its_meaning_and_counts(outcome: Outcome):
    gate, trials = run(outcome.value)
    data = assembled(gate, trials)
    text, markdown = Page(render.html(data)).text, render.markdown(data)
    meaning, counts = data["gate"]["meaning"], gate["counts"]
    verdict = f"{outcome.value} (exit code {outcome.exit_code}): {meaning}."
    assert text.index(verdict) < text.index("The matrix")
    tested = 0 if outcome is Outcome.INCOMPLETE else len(CELLS)
    sentence = (
        f"{tested} of {len(CELLS) + 1} cells tested: {counts['fail']} failed, "
        f"{counts['inconclusive']} inconclusive, {counts['pass']} passed; 1 without a pair."
    )
    assert sentence in text
    assert sentence in markdown
    assert "NVIDIA H200, driver 580.159.04" in text
    if outcome is not Outcome.FAIL:
        assert all(reason in text for reason in gate["reasons"])


def test_a_failed_cell_is_told_with_its_numbers_and_hints():
    gate, trials = _failed()
    data = assembled(gate, trials)
    text, markdown = Page(render.html(data)).text, render.markdown(data)
    cell = cell_of(gate["cells"], SLOW)
    low, high = cell["interval"]
    row = f"{cell['label']} gate, cold {cell['ratio']:.4f} {low:.4f} to {high:.4f} "
    row += f"{cell['p_adjusted']:.2g} {HINTS[0]} {HINTS[1]}"
    assert row in text
    assert text.index(row) < text.index("How much slower head is")
    assert f"{cell['ratio']:.4f} | {low:.4f} to {high:.4f}" in markdown
    assert HINTS[0] in markdown
    _columns_agree(markdown)


@pytest.mark.usefixtures("without_matplotlib")
def test_the_table_has_every_cell_and_why():
    gate, trials = run("fail")
    page = render.html(assembled(gate, trials))
    table = page[page.index('class="sortable"') :]
    rows = table[: table.index("</table>")].split("<tr data-verdict=")[1:]
    counted = Counter(row.split('"')[1] for row in rows)
    assert dict(counted) == {verdict: n for verdict, n in gate["counts"].items() if n}
    text = Page(page).text
    assert all(cell["reason"] in text for cell in gate["cells"])
    assert NO_KERNEL in text
    assert "40 pairs dropped: throttled" in text


@pytest.mark.usefixtures("without_matplotlib")
def test_a_head_that_is_not_the_build_at_hand_is_stale():
    gate, trials = run("pass")
    data = assembled(gate, trials, manifest_sha256={gate["head"]["cell"]: "f" * 64})
    page = render.html(data)
    assert '<section class="verdict stale">' in page
    assert "Stale: head was another build of sm90-cu124" in Page(page).text
    assert "**Stale: head was another build" in render.markdown(data)
    assert summary(data).count("stale") == 1


def test_a_head_that_is_the_build_at_hand_or_of_none_at_hand_is_not_stale():
    gate, _ = run("pass")
    at_hand = {gate["head"]["cell"]: gate["head"]["manifest_sha256"], "sm80-cu124": "f" * 64}
    assert assembled(gate, manifest_sha256=at_hand)["gate"]["stale"] == ""
    assert assembled(gate)["gate"]["stale"] == ""


@pytest.mark.usefixtures("without_matplotlib")
def test_without_matplotlib_the_section_says_which_extra_draws():
    page = render.html(assembled(*run("fail")))
    assert "<svg" not in page
    assert "they need matplotlib, which the extra <code>report</code> installs" in page
    assert "All 32 cells" in Page(page).text


def test_others_text_is_escaped_everywhere():
    gate, trials = _failed()
    for document in (gate, *trials):
        document.get("arms", document)["head"]["name"] = HOSTILE
        for cell in [*document["cells"], *document.get("controls", [])]:
            cell["label"] = f"{HOSTILE} {cell['label']}"
            cell["suite"] = HOSTILE
            if "reason" in cell:
                cell["reason"] = HOSTILE
    gate["reasons"] = [HOSTILE]
    gate["machine"]["name"] = HOSTILE
    cell_of(gate["cells"], SLOW._replace(suite=HOSTILE))["hints"][0] = HOSTILE
    data = assembled(gate, trials)
    page, markdown = render.html(data), render.markdown(data)
    assert page.count("<script") == 1
    assert "<img" not in page
    assert Page(page).loads == []
    assert "<script" not in markdown and "[a](b)" not in markdown
    _columns_agree(markdown.replace(r"\|", ""))
    assert len(gate_page.annotations(data).splitlines()) == 1


# --- what the plots are drawn from ------------------------------------------------------------------------------------


def test_pairs_are_those_kept_in_the_stage_that_decided():
    gate, trials = run("fail")
    confirm = [trial for trial in trials if trial["stage"] == "confirm"]
    entry = cell_of(confirm[0]["cells"], SLOW)
    entry["pairs"]["dropped"][3] = "throttled"
    pairs = assembled(gate, trials[::-1])["gate"]["pairs"]
    assert len(pairs) == sum(cell["p_adjusted"] is not None for cell in gate["cells"])
    assert (pairs[0]["label"], pairs[0]["verdict"]) == (entry["label"], "fail")
    assert [len(trial) for trial in pairs[0]["trials"]] == [19] + [20] * (len(confirm) - 1)
    last = cell_of(confirm[-1]["cells"], SLOW)["pairs"]
    expected = [head / base for head, base in zip(last["head_ns"], last["base_ns"], strict=True)]
    assert pairs[0]["trials"][-1] == pytest.approx(expected, abs=1e-6)


def test_the_trace_is_in_the_order_timed_and_leaves_gaps():
    gate, trials = run("fail")
    first, second = (cell["pairs"] for cell in trials[0]["cells"][:2])
    first["base_mhz"] = [1500, 1700, 1600] + [None] * 17
    first["dropped"][0] = "throttled"
    second["watts"] = [None] * 20
    trace = assembled(gate, trials[::-1])["gate"]["trace"]
    assert [trial["stage"] for trial in trace["trials"]] == ["screen"] * 5 + ["confirm"] * 10
    lengths = {len(values) for key, values in trace.items() if key != "trials"}
    assert lengths == {sum(len(trial["cells"]) for trial in trials)}
    assert (trace["base_mhz"][0], trace["low_mhz"][0], trace["high_mhz"][0]) == (1600, 1500, 1700)
    assert trace["head_mhz"][0] is None
    assert (trace["watts"][:2], trace["dropped"][0]) == ([512.5, None], 1)


def test_trials_that_are_not_at_hand_are_said_not_to_be():
    data = assembled(run("fail")[0])["gate"]
    assert (data["pairs"], data["trace"]["trials"]) == ([], [])
    assert data["no_trials"] == "the trials' documents are not at hand"


@pytest.mark.usefixtures("without_matplotlib")
@pytest.mark.parametrize("outcome", ["fail", "incomplete"])
def test_trials_of_other_builds_are_not_drawn(outcome: str):
    gate, trials = run(outcome)
    for trial in trials:
        trial["arms"]["head"]["manifest_sha256"] = "c" * 64
    data = assembled(gate, trials)["gate"]
    assert (data["pairs"], data["trace"]["trials"]) == ([], [])
    assert data["no_trials"] == "the trials at hand are of another run"


def test_trials_of_another_run_of_the_same_builds_are_not_drawn():
    gate, trials = run("fail")
    trials[0]["seed"] += 1
    stages = [trial["stage"] for trial in assembled(gate, trials)["gate"]["trace"]["trials"]]
    assert stages == ["screen"] * 4 + ["confirm"] * 10


def test_controls_are_counted_once_however_many_stages_test_them():
    gate, trials = run("fail")
    gate["controls"] += [gate["controls"][0] | {"control": "same-sass"}]
    data = assembled(gate, trials)["gate"]
    assert data["control_counts"] == {"twin": len(TWINS), "same-sass": 1}


def test_a_comparison_without_verdict_is_no_result_of_a_cell(build: BuildFolder):
    _json.write_atomic(build.path / "results" / "comparison.json", compared())
    assert report.write(build.path)["gate"] is None


SUITES = ("decode", "varlen", "grid")
KNOWN = sorted({p.id for name in SUITES for p in suite_problems(name, load_matrix())})


@given(st.lists(st.sampled_from([*KNOWN, "p0", "of <another> version"]), min_size=1))
def test_a_heat_map_has_a_place_of_its_own_for_every_cell(problems: list[str]):
    cells = [
        {"suite": "s", "mode": "cold", "problem": problem, "label": problem, "ratio": 1.0}
        for problem in problems
    ]
    (heat_map,) = gate_page._heat_maps(cells)
    places = {(row, column): index for row, column, index in heat_map["places"]}
    assert sorted(places.values()) == list(range(len(cells)))
    assert len(set(heat_map["rows"])) == len(heat_map["rows"])
    for (row, column), index in places.items():
        words = f"{heat_map['title']} {heat_map['rows'][row]}".replace(",", "").split()
        if problems[index] in KNOWN:
            problem = Problem.parse(problems[index])
            assert str(problem.seqlen_k) in heat_map["columns"][column]
            assert {f"d{problem.head_dim}", problem.dtype} <= set(words)


def test_suites_and_modes_have_maps_of_their_own_and_what_was_not_timed_none():
    gate, _ = run("pass")
    hot = [cell | {"mode": "hot"} for cell in gate["cells"]]
    other = [cell | {"suite": "other", "ratio": None} for cell in gate["cells"]]
    maps = gate_page._heat_maps([*gate["cells"], *hot, *other])
    assert [each["title"] for each in maps] == ["gate, cold, bf16", "gate, hot, bf16"]


# --- for GitHub -------------------------------------------------------------------------------------------------------


def test_markdown_fits_a_comment_however_much_has_failed():
    gate, _ = _failed()
    cell = cell_of(gate["cells"], SLOW)
    cell["hints"][0] = "associated with " + "a longer story, " * 200
    gate["cells"] = [cell] * 300 + gate["cells"]
    markdown = render.markdown(assembled(gate))
    assert 60_000 < len(markdown) <= 65_536
    assert markdown.endswith("\n\nCut here: the rest is in the report's page.\n")
    _columns_agree(markdown)
    assert markdown.index("Performance gate") < 1000


@pytest.mark.parametrize(
    "outcome, level", [("fail", "error"), ("void", "error"), ("inconclusive", "warning")]
)
def test_annotations_are_ten_lines_at_most(outcome: str, level: str):
    gate, _ = run(outcome)
    gate["reasons"] = [f"cell {number}: 100%\nslower" for number in range(40)]
    lines = gate_page.annotations(assembled(gate)).splitlines()
    assert len(lines) == 10
    title = f"title=performance gate%3A {outcome}"
    assert lines[0] == f"::{level} file=ci/matrix.toml,{title}::cell 0: 100%25%0Aslower"
    assert lines[-1].endswith("::31 more are in the report")


def _static(**more: Any) -> Json:
    finding = {
        **{"rule": "new-spill", "cell": "sm90-cu133", "variant": "fa3_fwd_sm90_bf16_d64_m128n64"},
        **{"base": 0, "head": 24, "limit": 0, "message": "spills 24 bytes a thread: <mend>"},
        "waiver": None,
    }
    cell = {"cell": "sm90-cu133", "verdict": "fail", "not_checked": {"wheel-size": "no wheel"}}
    return {
        **{"kind": "static-gate", "verdict": "fail", "exit_code": 9, "cells": [cell]},
        **{"findings": [finding | more], "waiver_remarks": [{"message": "remove the waiver"}]},
    }


def test_the_static_gate_is_told_with_what_broke_and_what_was_not_checked(build: BuildFolder):
    _json.write_atomic(build.path / "results" / "static-gate.json", _static())
    data = report.write(build.path)
    assert [entry["stage"] for entry in data["not_run"] if "gate" in entry["stage"]] == ["gate"]
    text = Page(render.html(data)).text
    for words in (
        *(
            "rules broken: 1, waived besides: 0",
            "spills 24 bytes a thread: <mend>",
            "wheel-size: no wheel",
        ),
        "remove the waiver",
    ):
        assert words in text
    assert "spills 24 bytes a thread: &lt;mend&gt;" in render.markdown(data)
    title = "title=static gate%3A new-spill"
    assert gate_page.annotations(data) == (
        f"::error file=ci/matrix.toml,{title}::spills 24 bytes a thread: <mend>\n"
    )


def test_a_waived_finding_is_shown_and_is_no_annotation():
    waiver = {"expires": "2030-01-31", "reason": "known"}
    data = assembled(None, static_gate=_static(waiver=waiver))
    assert "waived until 2030-01-31: known" in Page(render.html(data)).text
    assert gate_page.annotations(data) == ""
