"""The builds that an arm may be named by: a cell, a build folder, a wheel, or a git revision."""

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.build.manifest import FILE_NAME, Manifest
from fa3_matrix.build.sources import build_revision
from fa3_matrix.errors import BenchError
from fa3_matrix.matrix import Matrix


@dataclass(frozen=True)
class NamedBuild:
    """A build folder, and what it was asked for as."""

    name: str
    folder: Path

    @property
    def manifest(self) -> Manifest:
        return Manifest.read(self.folder)


def resolve(name: str, cell: str | None, matrix: Matrix) -> NamedBuild:
    """The build that `name` means: a folder, a wheel, a cell or twin as built here, or a git revision's `cell`.

    Raises:
        BenchError: it means none of these.
        BuildError: the revision's build failed.
    """
    path = Path(name)
    if path.suffix == ".whl":
        return NamedBuild(name, _unpacked(path, matrix.root / "build" / "wheels"))
    for folder in (path, path / "fa3"):
        if (folder / FILE_NAME).is_file():
            return NamedBuild(name, folder.resolve())
    if name in [buildable.name for buildable in matrix.buildable]:
        folder = matrix.root / "build" / "cells" / name / "fa3"
        if (folder / FILE_NAME).is_file():
            return NamedBuild(name, folder)
        raise BenchError(f"{name} is not built here: `nox -s build-{name}` builds it")
    if cell is None:
        raise BenchError(
            f"{name} is no build folder, no wheel and no cell; if it is a git revision, say which cell of it: --cell"
        )
    return NamedBuild(f"{name}:{cell}", build_revision(name, cell, matrix.root).folder)


def _unpacked(wheel: Path, folder: Path) -> Path:
    """The one build in a wheel, in a folder of its own by the wheel's hash."""
    if not wheel.is_file():
        raise BenchError(f"{wheel}: no such wheel")
    out = folder / hashlib.sha256(wheel.read_bytes()).hexdigest()[:16]
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("fa3_matrix/cells/")]
        if not names:
            raise BenchError(f"{wheel} holds no build: it is no wheel of a cell")
        # ZipFile.extract drops what would lead out of the folder.
        archive.extractall(out, names)
    (manifest,) = out.glob(f"fa3_matrix/cells/*/{FILE_NAME}")
    return manifest.parent
