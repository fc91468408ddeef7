"""The gate's JUnit XML: one case a cell, and never green for a run that says nothing."""

from collections import Counter
from xml.etree import ElementTree

import pytest

from fa3_matrix import report
from fa3_matrix.report import junit

from .conftest import BuildFolder
from .gate_runs import LONE, NO_KERNEL, SLOW, assembled, cell_of, run, write


def _suite(text: str) -> ElementTree.Element:
    (suite,) = ElementTree.fromstring(text.encode())
    return suite


def _case(suite: ElementTree.Element, name: str) -> ElementTree.Element:
    return next(case for case in suite if case.get("name") == name)


def test_one_case_a_cell_by_its_verdict(build: BuildFolder):
    gate, trials = run("fail")
    cell = cell_of(gate["cells"], SLOW)
    cell["hints"] = ["spills <24> bytes"]
    write(build, gate, trials)
    report.write(build.path)
    suite = _suite((build.path / "report" / "junit.xml").read_text(encoding="utf-8"))
    assert len(suite) == len(gate["cells"]) == int(suite.get("tests", ""))
    kinds = Counter(case[0].tag if len(case) else "passed" for case in suite)
    counts = gate["counts"]
    skipped = counts["inconclusive"] + counts["no-pair"]
    assert kinds == {"passed": counts["pass"], "failure": counts["fail"], "skipped": skipped}
    assert [int(suite.get(key, "")) for key in ("failures", "errors", "skipped")] == [
        *(counts["fail"], 0, skipped)
    ]
    failure = _case(suite, f"{SLOW.problem} (cold)")[0]
    assert failure.get("message") == cell["reason"]
    assert f"head over base: {cell['ratio']:.4f}" in (failure.text or "")
    assert "spills <24> bytes" in (failure.text or "")
    lone = _case(suite, f"{LONE.problem} (cold)")[0]
    assert lone.get("message") == f"no pair: {NO_KERNEL}"


@pytest.mark.parametrize("outcome", ["void", "incomplete"])
def test_a_run_that_says_nothing_is_an_error(outcome: str):
    gate, _ = run(outcome)
    suite = _suite(junit.document(assembled(gate)["gate"]))
    assert suite.get("errors") == "1"
    error = _case(suite, "the run as a whole")[0]
    assert error.text == "\n".join(gate["reasons"])
    assert {case[0].tag for case in suite} == {"skipped", "error"}


def test_no_gate_is_no_case():
    suite = _suite(junit.document(None))
    assert (suite.get("tests"), len(suite)) == ("0", 0)


def test_signs_that_xml_cannot_hold_are_replaced():
    gate, _ = run("inconclusive")
    for cell in gate["cells"]:
        cell["reason"] = "a\x00b\x1b & \ufffe <c>\n"
    suite = _suite(junit.document(assembled(gate)["gate"]))
    skipped = _case(suite, f"{LONE.problem} (cold)")[0]
    assert (skipped.get("message") or "").startswith("no pair: a\ufffdb\ufffd & \ufffd <c>")
