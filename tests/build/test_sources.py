"""Trees to build from: revisions are exported whole, changes are made exactly where they are meant."""

import subprocess
from pathlib import Path

import pytest

from fa3_matrix.build import sources
from fa3_matrix.build.injected import INJECTED
from fa3_matrix.build.sources import Replacement, build_revision, copy_changed
from fa3_matrix.errors import BuildError
from fa3_matrix.matrix import load, parse


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for file, text in {
        "cpp/kernel.cu": "one two\n",
        "ci/matrix.toml": "[matrix]\n",
        "README.md": "words\n",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first")
    (root / "cpp" / "untracked.cu").write_text("not of the tree\n")
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True)


def test_a_change_is_made_in_a_copy(checkout, tmp_path):
    folder = tmp_path / "copy"
    copy_changed(checkout, folder, [Replacement("cpp/kernel.cu", "two", "three")])
    assert (folder / "cpp" / "kernel.cu").read_text() == "one three\n"
    assert (checkout / "cpp" / "kernel.cu").read_text() == "one two\n"
    assert not (folder / "cpp" / "untracked.cu").exists()
    git(checkout, "mv", "cpp/kernel.cu", "cpp/moved.cu")
    copy_changed(checkout, folder, [])
    assert [path.name for path in (folder / "cpp").iterdir()] == ["moved.cu"]


def test_what_did_not_change_is_not_written_again(checkout, tmp_path):
    folder = tmp_path / "copy"
    copy_changed(checkout, folder, [])
    before = (folder / "cpp" / "kernel.cu").stat().st_mtime_ns
    copy_changed(checkout, folder, [])
    assert (folder / "cpp" / "kernel.cu").stat().st_mtime_ns == before


@pytest.mark.parametrize("old,times", [("four", 0), ("o", 2)])
def test_a_text_that_is_not_there_once_is_an_error(checkout, tmp_path, old, times):
    with pytest.raises(BuildError, match=f"cpp/kernel.cu has {times} times, not once: {old}"):
        copy_changed(checkout, tmp_path / "copy", [Replacement("cpp/kernel.cu", old, "")])


@pytest.mark.parametrize("fault", INJECTED)
def test_faults_apply_to_the_sources_as_they_are(fault, tmp_path):
    copy_changed(load().root, tmp_path, INJECTED[fault])
    matrix = tmp_path / "ci" / "matrix.toml"
    parse(matrix.read_text(), matrix)


def test_a_revision_is_built_once_in_a_copy_of_its_tree(checkout, monkeypatch):
    built = []

    def build(command: list[str], folder: Path) -> None:
        built.append((command[1:], (folder / "cpp" / "kernel.cu").read_text()))
        made = folder / "build" / "cells" / "sm90-cu133" / "fa3"
        made.mkdir(parents=True)
        (made / "manifest.json").write_text("{}")

    monkeypatch.setattr(sources, "_run", build)
    monkeypatch.setattr(sources.Build, "load", lambda folder: folder)
    (checkout / "cpp" / "kernel.cu").write_text("changed since\n")
    first = build_revision("HEAD", "sm90-cu133", checkout)
    assert build_revision("HEAD", "sm90-cu133", checkout) == first
    assert built == [(["-m", "nox", "-s", "build-sm90-cu133"], "one two\n")]
    with pytest.raises(BuildError, match="no-such-revision"):
        build_revision("no-such-revision", "sm90-cu133", checkout)


def test_a_build_that_fails_says_what_it_said(tmp_path):
    with pytest.raises(BuildError, match=r"(?s)ended with 3:.*what went wrong"):
        sources._run(["python3", "-c", "print('what went wrong'); raise SystemExit(3)"], tmp_path)
