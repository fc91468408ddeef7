"""What an arm may be named by."""

import zipfile
from pathlib import Path

import pytest

from fa3_matrix.errors import BenchError
from fa3_matrix.gate import arms
from fa3_matrix.gate.arms import resolve
from fa3_matrix.matrix import load

from ..bench.conftest import write_build

MATRIX = load()


def test_a_folder_or_the_one_around_it(tmp_path):
    folder = write_build(tmp_path / "cell" / "fa3")
    for path in (folder, folder.parent):
        assert resolve(str(path), None, MATRIX).folder == folder.resolve()


def test_a_wheel_holds_its_build(tmp_path):
    folder = write_build(tmp_path / "fa3")
    wheel = tmp_path / "fa3_matrix-1-py3-none-manylinux_2_34_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("fa3_matrix/__init__.py", "")
        for file in folder.iterdir():
            archive.write(file, f"fa3_matrix/cells/sm90-cu133/{file.name}")
    out = tmp_path / "wheels"
    found = arms._unpacked(wheel, out)
    assert found.is_relative_to(out)
    assert (found / "manifest.json").read_bytes() == (folder / "manifest.json").read_bytes()
    assert arms._unpacked(wheel, out) == found


def test_what_is_no_build_is_named(tmp_path):
    empty = tmp_path / "empty.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("another/__init__.py", "")
    with pytest.raises(BenchError, match="holds no build"):
        arms._unpacked(empty, tmp_path)
    with pytest.raises(BenchError, match="no such wheel"):
        resolve(str(tmp_path / "missing.whl"), None, MATRIX)
    with pytest.raises(BenchError, match=r"no build folder, no wheel and no cell.*--cell"):
        resolve("main", None, MATRIX)


def test_a_revision_is_built(tmp_path, monkeypatch):
    built = []

    class Built:
        folder = Path(tmp_path)

    def build_revision(revision, cell, root):
        built.append((revision, cell, root))
        return Built

    monkeypatch.setattr(arms, "build_revision", build_revision)
    assert resolve("main~3", "sm90-cu133", MATRIX).name == "main~3:sm90-cu133"
    assert built == [("main~3", "sm90-cu133", MATRIX.root)]
