"""Excerpts: a finding's line with those around it, as they stand in the tree."""

import gzip
import json
import random
import string
from pathlib import Path

import pytest

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.formats import FORMATS, Format, excerpt, sarif
from fa3_matrix.migrate.result import Result, entries

from ..small_difference import DIFFERENCE, finding

LINES = [f"line {number}" for number in range(1, 10)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.cu").write_bytes("\r\n".join([*LINES, "x" * 1000]).encode())
    return tmp_path


def result(tree: Path, *found: Finding) -> Result:
    return Result(DIFFERENCE, str(tree), entries(found), 1, 10)


@pytest.mark.parametrize(
    "line, first, last", [(1, 1, 3), (2, 1, 4), (5, 3, 7), (9, 7, 10), (10, 8, 10)]
)
def test_two_lines_before_and_after_as_far_as_the_file_goes(
    tree: Path, line: int, first: int, last: int
) -> None:
    found = excerpt.read(result(tree, finding(line=line)))["a.cu", line]
    assert found.first == first
    assert found.lines == tuple([*LINES, "x" * 200][first - 1 : last])


def test_of_a_file_that_was_named_itself(tree: Path) -> None:
    assert ("a.cu", 5) in excerpt.read(result(tree / "a.cu", finding(line=5)))


def test_what_is_gone_since_has_none(tree: Path) -> None:
    gone = finding(line=1, file="gone.cu"), finding(line=99)
    assert excerpt.read(result(tree, *gone)) == {}
    rows = json.loads(FORMATS[Format.JSON](result(tree, *gone)))["findings"]
    assert [row["excerpt"] for row in rows] == [None, None]


def test_bytes_that_are_no_text_are_replaced(tree: Path) -> None:
    (tree / "a.cu").write_bytes(b"caf\xe9\n")
    assert excerpt.read(result(tree, finding(line=1)))["a.cu", 1].lines == ("caf\ufffd", "")


def test_json_and_sarif_hold_them(tree: Path) -> None:
    found = result(tree, finding(line=5))
    (row,) = json.loads(FORMATS[Format.JSON](found))["findings"]
    assert row["excerpt"] == {"first": 3, "lines": LINES[2:7]}
    (row,) = json.loads(FORMATS[Format.SARIF](found))["runs"][0]["results"]
    place = row["locations"][0]["physicalLocation"]
    around = {"startLine": 3, "endLine": 7, "snippet": {"text": "\n".join(LINES[2:7])}}
    assert place["contextRegion"] == around
    assert place["region"]["startLine"] == 5


def test_sarif_leaves_out_the_lines_around_before_it_leaves_out_a_result(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = random.Random(0)
    lines = ("".join(noise.choices(string.ascii_letters, k=100)) for _ in range(300))
    (tree / "a.cu").write_text("\n".join(lines))
    found = result(tree, *(finding(line=line) for line in range(1, 300)))
    whole = FORMATS[Format.SARIF](found)
    assert whole.count("contextRegion") == 299
    monkeypatch.setattr(sarif, "MAX_BYTES", len(gzip.compress(whole.encode(), 6)) - 1)
    cut = json.loads(FORMATS[Format.SARIF](found))["runs"][0]
    assert len(cut["results"]) == 299
    assert "contextRegion" not in json.dumps(cut)
