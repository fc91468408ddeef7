"""The formats: complete, within their hosts' limits, and not led astray by what sources contain."""

import gzip
import io
import json
import random
import string
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fa3_matrix.migrate.difference import Remedy
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.formats import (
    DIFFERENCE_FORMATS,
    FORMATS,
    Format,
    FormatError,
    markdown,
    of_file,
    sarif,
    text,
)
from fa3_matrix.migrate.result import Entry, FailOn, Result, entries
from fa3_matrix.migrate.rules import RULES, Proof, Severity, State

from ..small_difference import DIFFERENCE, finding

BREAK = finding(
    file="a b/ü.cu",
    line=3,
    since="13.0",
    remedy=Remedy("Call another."),
    edits=(Edit(3, 1, 5, "new"),),
)
ALL = (
    BREAK,
    finding(file="a b/ü.cu", line=9, since="13.0"),
    replace(finding(line=4), state=State.LATENT),
    replace(finding(line=5), state=State.INACTIVE),
    replace(finding(line=6), suppressed="built by 12.4 alone"),
    finding("DEPRECATED", 7, since="12.9"),
    finding("FN-REMAP", 8),
)


def result(found: tuple[Finding, ...] = ALL, **more: object) -> Result:
    values: dict[str, object] = {"skipped": (("x.bin", "binary"),), "notes": ("a note",)}
    return Result(DIFFERENCE, "tree", entries(found), 2, 30, **(values | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fail_on, failing", [(FailOn.BREAK, 2), (FailOn.LATENT, 3), (FailOn.DEPRECATED, 5)]
)
def test_what_fails_a_run(fail_on: FailOn, failing: int) -> None:
    assert result(fail_on=fail_on).failing == failing
    known = tuple(replace(entry, known=True) for entry in entries(ALL))
    assert Result(DIFFERENCE, "tree", known, 1, 1, fail_on=fail_on).failing == 0


def test_information_never_fails() -> None:
    assert result((finding("ARCH-DEFAULT"),), fail_on=FailOn.DEPRECATED).failing == 0


def test_the_same_place_counts_once_and_the_order_is_that_of_the_files() -> None:
    found = [e.finding for e in entries((ALL[3], ALL[0], ALL[0], ALL[2]))]
    assert [(f.file, f.line) for f in found] == [("a b/ü.cu", 3), ("a.cu", 4), ("a.cu", 5)]


def test_json_has_everything() -> None:
    data = json.loads(FORMATS[Format.JSON](result()))
    assert data["schema"] == 1
    assert (data["old"], data["new"]) == (
        {"cuda": "12.4", "cccl": "2.3.2"},
        {"cuda": "13.3", "cccl": "3.5.0"},
    )
    assert len(data["findings"]) == len(ALL)
    assert sum(row["fails"] for row in data["findings"]) == data["failing"] == 2
    assert data["counts"]["break"] == {
        "active": 2,
        "latent": 1,
        "inactive": 1,
        "suppressed": 1,
        "known": 0,
    }
    assert data["by_release"] == {"12.9": 1, "13.0": 2, "unknown": 2}
    assert data["findings"][0]["edits"] == [
        {"line": 3, "column": 1, "end_column": 5, "text": "new"}
    ]
    assert data["skipped"] == [{"file": "x.bin", "reason": "binary"}]


def run_of(found: Result) -> dict[str, object]:
    log = json.loads(FORMATS[Format.SARIF](found))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run  # type: ignore[no-any-return]


def test_sarif_states_rules_places_and_fingerprints() -> None:
    run = run_of(result())
    rules = run["tool"]["driver"]["rules"]  # type: ignore[index]
    assert [rule["id"] for rule in rules] == list(RULES)
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    results = run["results"]
    assert len(results) == len(ALL) - 1  # what the toolkit's version guards is none
    for row in results:
        assert rules[row["ruleIndex"]]["id"] == row["ruleId"]
    first = results[0]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/%C3%BC.cu", "uriBaseId": "SRCROOT"}
    assert (place["region"]["startLine"], place["region"]["startColumn"]) == (3, 1)
    assert first["level"] == "error"
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0] == {
        "deletedRegion": {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 5},
        "insertedContent": {"text": "new"},
    }
    (quiet,) = [row for row in results if "suppressions" in row]
    assert quiet["suppressions"] == [{"kind": "inSource", "justification": "built by 12.4 alone"}]
    prints = [row["partialFingerprints"]["primaryLocationLineHash"] for row in results]
    assert len(set(prints)) == len(prints)
    notes = run["invocations"][0]["toolExecutionNotifications"]  # type: ignore[index]
    assert [n["message"]["text"] for n in notes] == ["a note", "not scanned: binary"]


def test_fingerprints_stay_when_lines_shift() -> None:
    def prints(found: tuple[Finding, ...]) -> list[str]:
        rows = run_of(result(found))["results"]
        return sorted(row["partialFingerprints"]["primaryLocationLineHash"] for row in rows)  # type: ignore[attr-defined]

    assert prints(ALL) == prints(tuple(replace(f, line=f.line + 40) for f in ALL))


def test_sarif_tells_new_from_known() -> None:
    marked = tuple(replace(e, known=e.finding.line == 3) for e in entries(ALL))
    rows = run_of(Result(DIFFERENCE, "tree", marked, 1, 1))["results"]
    assert [row["baselineState"] for row in rows].count("unchanged") == 1  # type: ignore[attr-defined]


def test_sarif_keeps_to_the_limits_and_drops_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    many = (*(finding("DEPRECATED", n) for n in range(1, 30)), finding(line=40))
    monkeypatch.setattr(sarif, "MAX_RESULTS", 10)
    run = run_of(result(many))
    assert len(run["results"]) == 10  # type: ignore[arg-type]
    assert run["results"][0]["level"] == "error"  # type: ignore[index]
    assert "20 results are left out" in json.dumps(run["invocations"])

    noise = random.Random(0)
    wordy = tuple(
        finding(line=n, message="".join(noise.choices(string.ascii_letters, k=400)))
        for n in range(1, 200)
    )
    monkeypatch.setattr(sarif, "MAX_RESULTS", 25_000)
    monkeypatch.setattr(sarif, "MAX_BYTES", 30_000)
    log = FORMATS[Format.SARIF](result(wordy))
    assert len(gzip.compress(log.encode())) <= 30_000
    kept = json.loads(log)["runs"][0]["results"]
    assert 10 < len(kept) < 199
    assert f"{199 - len(kept)} results are left out" in log


def test_markdown_has_counts_and_findings_worst_first() -> None:
    page = FORMATS[Format.MARKDOWN](result())
    assert page.startswith("# CUDA 12.4 to 13.3: 2 to be dealt with\n")
    assert "| break | 2 | 1 | 1 | 1 | 0 |" in page
    assert "| 13.0 | 2 |" in page
    assert (
        page.index("FN-REMOVED (break)")
        < page.index("FN-REMAP (silent)")
        < page.index("DEPRECATED (dep")
    )
    assert "- skipped `x.bin`: binary" in page


def test_markdown_is_not_led_astray() -> None:
    odd = replace(BREAK, file="a|b`c.cu", construct="x | y `z`", message="<b> | *a* @someone #1")
    page = FORMATS[Format.MARKDOWN](result((odd,)))
    (row,) = [line for line in page.split("\n") if "FN-REMOVED" in line]
    assert row.replace("\\|", "").count("|") == 5
    assert "\\<b\\> \\| \\*a\\* \\@someone \\#1" in row
    assert "`` x \\| y `z` ``" in row


@pytest.mark.parametrize("notes", [0, 3000])
def test_markdown_fits_a_comment(notes: int) -> None:
    many = tuple(finding(line=n, message="gone " * 20) for n in range(1, 2000))
    page = FORMATS[Format.MARKDOWN](
        result(many, notes=tuple(f"note {n}" * 5 for n in range(notes)))
    )
    assert 0.6 * markdown.LIMIT < len(page) <= markdown.LIMIT
    shown = page.count("FN-REMOVED (break)")
    assert f"{1999 - shown} more findings are left out here" in page


def test_text_is_a_line_each_that_grep_and_editors_take() -> None:
    lines = FORMATS[Format.TEXT](result()).split("\n")
    assert (
        lines[0]
        == "a b/ü.cu:3:1: break[FN-REMOVED]: It is gone. (since 13.0) Instead: Call another."
    )
    assert lines[2].startswith("a.cu:4:1: break[FN-REMOVED, latent]: ")
    assert (
        sum(line.startswith(("a.cu:", "a b/")) for line in lines) == 5
    )  # not the inactive and suppressed ones
    assert "2 fail the run (--fail-on break)" in lines


def test_a_person_sees_the_same_findings() -> None:
    screen = io.StringIO()
    text.show(result(), Console(file=screen, width=120))
    shown = screen.getvalue()
    for part in (
        "a b/ü.cu",
        "3:1",
        "break[FN-REMOVED]",
        "Call another.",
        "silent[FN-REMAP]",
        "2 fail the run",
    ):
        assert part in shown


def test_what_is_proved_by_compiling_says_so() -> None:
    proved = result((replace(BREAK, proof=Proof.COMPILED),))
    assert "break[FN-REMOVED, compiled]" in FORMATS[Format.TEXT](proved)
    assert "FN-REMOVED (break, compiled)" in FORMATS[Format.MARKDOWN](proved)


def test_no_findings_are_a_result_in_each_format() -> None:
    for name, write in FORMATS.items():
        assert write(result(())), name
    assert "no findings" in FORMATS[Format.TEXT](result(()))
    assert run_of(result(()))["results"] == []


def test_differences() -> None:
    changes = DIFFERENCE.changes[:3]
    data = json.loads(DIFFERENCE_FORMATS[Format.JSON](DIFFERENCE, changes))
    assert [row["name"] for row in data["changes"]] == ["sm_50", "sm_52", "sm_53"]
    assert "ARCH-REMOVED: sm_50 (since 13.0): absent -> absent" in DIFFERENCE_FORMATS[Format.TEXT](
        DIFFERENCE, changes
    )
    assert "| ARCH-REMOVED | `sm_50` | 13.0 |" in DIFFERENCE_FORMATS[Format.MARKDOWN](
        DIFFERENCE, changes
    )


def test_a_files_suffix_chooses_its_format() -> None:
    names = ("a.txt", "a.json", "a.md", "a.SARIF", "a.html")
    assert [of_file(Path(name)) for name in names] == [
        Format.TEXT,
        Format.JSON,
        Format.MARKDOWN,
        Format.SARIF,
        Format.HTML,
    ]
    with pytest.raises(FormatError, match=r"one of \.txt, \.json, \.md, \.sarif"):
        of_file(Path("a.xml"))


def test_every_severity_has_its_level_and_style() -> None:
    for severity in Severity:
        shown = result((replace(finding(), severity=severity),))
        assert run_of(shown)["results"][0]["level"] in ("error", "warning", "note")  # type: ignore[index]
        text.show(shown, Console(file=io.StringIO()))


def test_identities_of_equal_findings_are_counted() -> None:
    same: tuple[Entry, ...] = entries([finding(line=2), finding(line=1)])
    assert [(e.finding.line, e.occurrence) for e in same] == [(1, 1), (2, 2)]
