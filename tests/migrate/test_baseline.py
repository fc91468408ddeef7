"""The baseline: what was known before does not fail."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.migrate import baseline
from fa3_matrix.migrate.result import FailOn, entries
from fa3_matrix.migrate.rules import State

from .small_difference import DIFFERENCE, SAME_MAJOR, finding


def test_written_and_read_back_nothing_is_new(tmp_path: Path) -> None:
    found = entries([finding(line=1), finding(line=2), finding("FN-SIG", 3)])
    path = tmp_path / "breaks.json"
    assert baseline.write(path, found, DIFFERENCE) == 3
    marked, gone = baseline.mark(found, baseline.read(path, DIFFERENCE))
    assert all(entry.known for entry in marked)
    assert not any(entry.fails(FailOn.DEPRECATED) for entry in marked)
    assert gone == 0


def test_lines_may_shift_and_one_more_of_the_same_is_new(tmp_path: Path) -> None:
    path = tmp_path / "breaks.json"
    baseline.write(path, entries([finding(line=1), finding(line=9)]), DIFFERENCE)
    now = entries([finding(line=n) for n in (11, 19, 30)])
    marked, _ = baseline.mark(now, baseline.read(path, DIFFERENCE))
    assert [(e.finding.line, e.known) for e in marked] == [(11, True), (19, True), (30, False)]


def test_what_is_suppressed_or_guarded_takes_no_place(tmp_path: Path) -> None:
    path = tmp_path / "breaks.json"
    quiet = [
        replace(finding(line=1), suppressed="why"),
        replace(finding(line=2), state=State.INACTIVE),
    ]
    assert baseline.write(path, entries([*quiet, finding(line=3)]), DIFFERENCE) == 1
    marked, _ = baseline.mark(entries([*quiet, finding(line=3)]), baseline.read(path, DIFFERENCE))
    assert [entry.known for entry in marked] == [False, False, True]


def test_findings_that_are_gone_are_counted() -> None:
    here = entries([finding()])
    known = Counter({here[0].finding.fingerprint: 3, "another": 2})
    assert baseline.mark(here, known)[1] == 4


HEAD = '{"schema": 1, "kind": "fa3-matrix migrate baseline", "old": "12.4", "new": "13.3"'


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_as_many_are_known_as_were_there(before: list[str], now: list[str]) -> None:
    found = entries([finding(line=n, name=name) for n, name in enumerate(now, 1)])
    prints = {name: finding(name=name).fingerprint for name in "abc"}
    marked, gone = baseline.mark(found, Counter(prints[name] for name in before))
    common = Counter(before) & Counter(now)
    assert Counter(e.finding.name for e in marked if e.known) == common
    assert gone == len(before) - common.total()


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "not JSON"),
        ("[]", "schema is None"),
        ('{"schema": 1, "kind": "other"}', "not a baseline"),
        (HEAD + ', "findings": {"a": 1}}', "damaged"),
        (HEAD + "}", "damaged"),
    ],
)
def test_a_file_that_is_no_baseline(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "breaks.json"
    path.write_text(text)
    with pytest.raises(baseline.BaselineError, match=message) as raised:
        baseline.read(path, DIFFERENCE)
    assert "--write-baseline" in str(raised.value)


def test_a_missing_file_and_other_toolkits(tmp_path: Path) -> None:
    path = tmp_path / "breaks.json"
    with pytest.raises(baseline.BaselineError, match="no such file"):
        baseline.read(path, DIFFERENCE)
    baseline.write(path, entries([]), SAME_MAJOR)
    with pytest.raises(
        baseline.BaselineError, match=r"12\.4 -> 12\.9, and this run is of 12\.4 -> 13\.3"
    ):
        baseline.read(path, DIFFERENCE)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(baseline.BaselineError, match="cannot be written"):
        baseline.write(tmp_path / "file" / "breaks.json", entries([]), DIFFERENCE)
