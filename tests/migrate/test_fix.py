"""The patch: git applies it, and what it gives is what the edits say, byte for byte."""

import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa3_matrix.migrate import fix
from fa3_matrix.migrate.difference import Remedy
from fa3_matrix.migrate.finding import Edit
from fa3_matrix.migrate.rules import State

from .small_difference import finding


def git(folder: Path, *arguments: str, text: bytes = b"") -> None:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=text, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("name", ["a.cu", "with blank/b.cu", "é/ü.cu", 'q"uote.cu', "tab\t.cu"])
@pytest.mark.parametrize(
    "before, after",
    [
        (b"one\ntwo\nthree\n", b"one\nTWO\nthree\n"),
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\nTWO\r\nthree\r\n"),
        (b"one\ntwo", b"one\nTWO"),
        (
            b"one\r\ntwo\x0c\rx\x85\n",
            None,
        ),  # Latin-1 on the line itself: its columns are not certain
        (b"l\xe9\ntwo\nl\xe9", b"l\xe9\nTWO\nl\xe9"),
    ],
)
def test_git_applies_it(tmp_path: Path, name: str, before: bytes, after: bytes | None) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before)
    made = fix.patch(tmp_path, [finding(file=name, line=2, edits=(Edit(2, 1, 4, "TWO"),))])
    if after is None:
        assert made.text == b""
        assert made.left == ((f"{name}:2", "the line is not UTF-8"),)
        return
    git(tmp_path, "apply", "-", text=made.text)
    assert file.read_bytes() == after
    assert (made.files, made.fixed, made.left) == (1, 1, ())


def test_it_applies_in_a_subfolder_of_a_repository(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "a.cu").write_text("one\n")
    git(tmp_path, "init", "-q")
    made = fix.patch(inner, [finding(edits=(Edit(1, 1, 4, "ONE"),))])
    git(inner, "apply", "-", text=made.text)
    assert (inner / "a.cu").read_text() == "ONE\n"


def test_several_files_lines_and_edits(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("a b c\n" + "x\n" * 20 + "a b c\n")
    (tmp_path / "b.cu").write_text("a b c\n")
    made = fix.patch(
        tmp_path,
        [
            finding(edits=(Edit(1, 1, 2, "AA"), Edit(1, 5, 6, ""))),
            finding(line=22, edits=(Edit(22, 3, 4, "B"),)),
            finding("FN-SIG", line=22, edits=(Edit(22, 3, 4, "B"),)),  # the same, said twice
            finding(file="b.cu", edits=(Edit(1, 6, 6, " d"),)),
        ],
    )
    git(tmp_path, "apply", "-", text=made.text)
    assert (tmp_path / "a.cu").read_text() == "AA b \n" + "x\n" * 20 + "a B c\n"
    assert (tmp_path / "b.cu").read_text() == "a b c d\n"
    assert (made.files, made.fixed) == (2, 4)


def test_what_is_suppressed_guarded_or_in_conflict_stays(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("abcdef\nabcdef\n")
    edit = Edit(1, 1, 3, "X")
    made = fix.patch(
        tmp_path,
        [
            replace(finding(edits=(Edit(2, 1, 3, "X"),)), suppressed="why"),
            replace(finding(edits=(Edit(2, 1, 3, "X"),)), state=State.INACTIVE),
            finding(edits=(edit,)),
            finding("FN-SIG", edits=(Edit(1, 2, 5, "Y"),)),
            finding("FN-SIG", line=9, edits=(Edit(9, 1, 2, "Y"),)),
            finding("FN-SIG", line=2, edits=(Edit(2, 5, 90, "Y"),)),
        ],
    )
    git(tmp_path, "apply", "-", text=made.text)
    assert (tmp_path / "a.cu").read_text() == "Xcdef\nabcdef\n"
    assert [place for place, _ in made.left] == ["a.cu:1", "a.cu:9", "a.cu:2"]
    assert "another fix" in made.left[0][1]
    assert "has changed" in made.left[1][1]


def test_latent_places_take_only_what_fits_both(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("abc\nabc\n")
    latent = replace(finding(edits=(Edit(1, 1, 2, "X"),)), state=State.LATENT)
    fits = replace(latent, line=2, edits=(Edit(2, 1, 2, "X"),), remedy=Remedy("Write X.", both="X"))
    made = fix.patch(tmp_path, [latent, fits])
    git(tmp_path, "apply", "-", text=made.text)
    assert (tmp_path / "a.cu").read_text() == "abc\nXbc\n"
    assert made.left == (
        ("a.cu:1", "it stands behind a condition that may be on the toolkit's version"),
    )


def test_nothing_to_do_is_an_empty_patch(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("x\n")
    assert fix.patch(tmp_path, [finding(), finding(edits=(Edit(1, 1, 2, "x"),))]).text == b""


def test_a_file_that_has_gone(tmp_path: Path) -> None:
    with pytest.raises(fix.FixError, match="scan again"):
        fix.patch(tmp_path, [finding(edits=(Edit(1, 1, 2, ""),))])


def test_writing_is_atomic_and_says_what_is_wrong(tmp_path: Path) -> None:
    fix.write(tmp_path / "new" / "out.patch", b"a\r\n")
    assert (tmp_path / "new" / "out.patch").read_bytes() == b"a\r\n"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["out.patch"]
    with pytest.raises(fix.FixError, match="cannot be written"):
        fix.write(tmp_path / "new" / "out.patch" / "x", b"")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text("ab \t\r\x0c\u2028é", max_size=6), min_size=1, max_size=8),
    st.booleans(),
    st.data(),
)
def test_any_text_any_edit(lines: list[str], ends: bool, data: st.DataObject) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    line = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.integers(1, len(lines[line - 1]) + 1))
    start = data.draw(st.integers(1, end))
    new = data.draw(st.text("xy", min_size=1, max_size=3))
    wanted = list(lines)
    wanted[line - 1] = lines[line - 1][: start - 1] + new + lines[line - 1][end - 1 :]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.cu").write_bytes(text.encode())
        made = fix.patch(folder, [finding(line=line, edits=(Edit(line, start, end, new),))])
        if not made.files:  # a line that isn't there: the text is empty
            return
        git(folder, "apply", "--whitespace=nowarn", "-", text=made.text)
        assert (folder / "a.cu").read_bytes() == (
            "\n".join(wanted) + ("\n" if ends else "")
        ).encode()
