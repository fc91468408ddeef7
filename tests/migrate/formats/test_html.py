"""The page: it loads nothing, says what the result and the difference say, and is not led astray by sources."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fa3_matrix.migrate.difference import BrokenCall, Remedy
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.formats import DIFFERENCE_FORMATS, FORMATS, Format, html
from fa3_matrix.migrate.result import Result, entries
from fa3_matrix.migrate.rules import Proof, Severity, State
from fa3_matrix.migrate.store import load_difference

from ...page import Page
from ..small_difference import DIFFERENCE, change, finding

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=y>\"'&{{ 7*7 }}"


def result(*found: Finding, **more: Any) -> Result:
    return Result(DIFFERENCE, "tree", entries(found), 1044, 30, **more)


def page_of(found: Result) -> Page:
    return Page(FORMATS[Format.HTML](found))


def test_counts_and_verdict_come_first() -> None:
    page = page_of(
        result(
            *(finding(line=n, since="13.0") for n in (1, 2)),
            finding("DEPRECATED", 3, since="12.9"),
            finding(line=4, suppressed="built by 12.4 alone"),
            notes=("a `note`",),
            skipped=(("x.bin", "binary"),),
        )
    )
    assert page.loads == []
    assert "fail : 2 to be dealt with (--fail-on break)" in page.text
    assert "1,044 files, 30 lines of tree read." in page.text
    assert "break 2 0 0 1 0 silent 0 0 0 0 0 deprecated 1 0 0 0 0" in page.text
    assert "12.9 1 13.0 2" in page.text
    assert "Suppressed: built by 12.4 alone" in page.text
    assert "a note" in page.text
    assert "1 file not read x.bin : binary" in page.text
    assert "pass : nothing that fails the run" in page_of(result()).text


def test_findings_are_worst_first_and_say_what_filters_go_by() -> None:
    page = page_of(
        result(
            finding("DEPRECATED", 1, since="12.9"),
            replace(finding(line=2), state=State.LATENT, proof=Proof.COMPILED),
            finding(line=3, since="13.0"),
        )
    )
    rows = page.rows[:3]
    assert [row["data-rule"] for row in rows] == ["FN-REMOVED", "FN-REMOVED", "DEPRECATED"]
    assert [row["data-standing"] for row in rows] == ["active", "latent", "active"]
    assert [row["data-since"] for row in rows] == ["13.0", "unknown", "12.9"]
    assert [row["data-proof"] for row in rows] == ["headers", "compiled", "headers"]


def test_a_finding_is_shown_with_its_lines_and_both_ways_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("before\n  cudaThreadExit();\nafter\n")
    remedy = Remedy("Call another.", both="cudaDeviceReset();", guarded="#if CUDART_VERSION")
    found = finding(line=2, remedy=remedy, edits=(Edit(2, 3, 9, "x"),), proof=Proof.WITNESS)
    text = FORMATS[Format.HTML](Result(DIFFERENCE, str(tmp_path), entries([found]), 1, 3))
    assert "<mark><i>    2</i>    cudaThreadExit();</mark>\n<i>    3</i>  after" in text
    page = Page(text)
    for words in (
        *("Call another.", "both toolkits take cudaDeviceReset();", "#if CUDART_VERSION"),
        *("a.cu:2:1", "witness", "--fix writes it"),
    ):
        assert words in page.text


def test_the_file_may_be_gone() -> None:
    assert "1 cudaThreadExit()" in page_of(result(finding())).text


def test_the_page_is_not_led_astray() -> None:
    hostile = finding(
        file=HOSTILE,
        construct=HOSTILE,
        name=HOSTILE,
        message=HOSTILE,
        suppressed=HOSTILE,
        remedy=Remedy(HOSTILE, HOSTILE, HOSTILE),
        url=f"javascript:{HOSTILE}",
    )
    found = replace(
        result(hostile, notes=(HOSTILE,), skipped=((HOSTILE, HOSTILE),)),
        difference=replace(
            DIFFERENCE, changes=(replace(change("FN-REMOVED", HOSTILE, "function"), old=HOSTILE),)
        ),
        root=HOSTILE,
    )
    text = FORMATS[Format.HTML](found)
    assert text.count("<script") == 1
    assert "<img" not in text
    page = Page(text)
    assert page.loads == []
    assert not any("javascript" in link for link in page.links)
    assert page.text.count("{{ 7*7 }}") >= 10


def test_a_page_of_very_many_findings_has_the_worst_and_says_how_many_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(html, "LIMIT", 3)
    page = page_of(result(*(finding("DEPRECATED", n) for n in range(1, 6)), finding(line=9)))
    rows = [row["data-severity"] for row in page.rows if "data-standing" in row]
    assert rows == ["break", "deprecated", "deprecated"]
    assert "3 more, none worse than these, are left out here" in page.text


def test_the_difference_is_there_whole_and_counted() -> None:
    page = Page(DIFFERENCE_FORMATS[Format.HTML](DIFFERENCE, DIFFERENCE.changes))
    assert len(page.rows) == len(DIFFERENCE.changes)
    assert Counter(row["data-rule"] for row in page.rows) == Counter(
        change.rule for change in DIFFERENCE.changes
    )
    assert "The tree" not in page.text
    assert "ARCH-REMOVED break 8 8 8" in page.text  # all, since 13.0, proved by headers


def test_of_some_rules_alone() -> None:
    kept = tuple(c for c in DIFFERENCE.changes if c.rule == "SONAME")
    page = Page(DIFFERENCE_FORMATS[Format.HTML](DIFFERENCE, kept))
    assert {row["data-rule"] for row in page.rows} == {"SONAME"}
    assert "2 changes: 2 break." in page.text


def test_a_change_says_which_calls_break_and_what_brings_it_in_no_more() -> None:
    row = replace(
        change("FN-SIG", "f", "function"),
        broken_calls=(BrokenCall(3, 2, "int", "Place"), BrokenCall(4, 1, None, "int", False)),
        lost_from=("a.h", "b.h"),
    )
    assert html.advice(row) == [
        "calls of 3 break (argument 3: int, now Place)",
        "calls of 4 break, if its type is that of this overload (argument 2: none, now int)",
        "no longer brought in by a.h, b.h",
    ]
    template = replace(
        change("CCCL-SIG", "t", "cccl-template"), broken_calls=(BrokenCall(2, 2, None, None),)
    )
    assert html.advice(template) == ["refused with 2 template arguments"]


def test_the_shipped_difference_is_one_page_that_browsers_take() -> None:
    shipped = load_difference("12.4", "13.3")
    text = DIFFERENCE_FORMATS[Format.HTML](shipped, shipped.changes)
    assert len(text.encode()) < 3_000_000
    assert len(Page(text).rows) == len(shipped.changes)
    order = list(Severity)
    ranks = [order.index(row["rule"].severity) for row in html.glance(shipped.changes)]
    assert ranks == sorted(ranks)
    assert sum(row["total"] for row in html.glance(shipped.changes)) == len(shipped.changes)


def _run(toolkit: str, status: str = "observed", answer: str = "") -> dict[str, Any]:
    return {
        "toolkit": toolkit,
        "status": status,
        "observed": {"case `f`": answer} if answer else {},
        "measured": {"f, ms": 201.3} if answer else {},
        "reason": None if answer else "no device: <none>",
    }


BEHAVIOUR: dict[str, Any] = {
    "schema": 1,
    "kind": "fa3-matrix migrate behaviour",
    **{"gpu": "NVIDIA H200", "driver": "580.95.05", "driver_cuda": "13.0"},
    "toolkits": [
        {"version": version, "release": f"{version}.1", "library": f"libcudart.so.{version[:2]}"}
        for version in ("12.4", "13.3")
    ],
    "probes": [
        {
            **{"name": "free", "question": "Does `cudaFree` wait?", "documented": "It `may`."},
            "url": "https://example.com/free",
            "runs": [_run("12.4", answer="waits"), _run("13.3", answer="returns")],
        },
        {
            **{"name": "same", "question": "Same?", "documented": "", "url": "https://example.com"},
            "runs": [_run("12.4", answer="yes"), _run("13.3", answer="yes")],
        },
        {
            **{"name": "none", "question": "Other?", "documented": "", "url": "http://example.com"},
            "runs": [_run("12.4", answer="yes"), _run("13.3", "not-run")],
        },
    ],
}


def test_behaviour_is_a_column_a_toolkit_and_says_why_a_probe_did_not_run() -> None:
    text = html.page(None, DIFFERENCE, BEHAVIOUR)
    page = Page(text)
    assert "Observed on NVIDIA H200, driver 580.95.05 (CUDA 13.0)" in page.text
    row = "Does cudaFree wait? differs CUDA 12.4 case f waits f, ms 201.3 CUDA 13.3 case f returns"
    assert row in page.text
    assert page.text.count("differs") == 1
    assert text.count("<mark>") == 2
    assert "<mark>waits</mark>" in text and "<mark>returns</mark>" in text
    assert "not-run no device: <none>" in page.text
    assert "https://example.com/free" in page.links
    assert "http://example.com" not in page.links
    none = BEHAVIOUR | {"gpu": None}
    assert "Not observed: no GPU was at hand." in Page(html.page(None, DIFFERENCE, none)).text


def test_what_a_later_run_of_the_result_makes_is_the_same_page() -> None:
    found = result(finding(since="13.0"))
    again = json.loads(FORMATS[Format.JSON](found))
    assert html.page(again, DIFFERENCE) == FORMATS[Format.HTML](found)
