"""Copies of the source tree to build from: a git revision, or the working tree with a fault put in on purpose."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from fa3_matrix import matrix
from fa3_matrix._progress import progress
from fa3_matrix.build.driver import Build, build_cell
from fa3_matrix.errors import BuildError

_BUILT_FROM = ("cpp", "cmake", "ci", "src", "CMakeLists.txt", "CMakePresets.json")


def build_revision(revision: str, cell: str, root: Path | None = None) -> Build:
    """A cell of a git revision, built by that revision's own `nox` session in a copy of its tree.

    Copies are kept in ``build/revisions`` by the hash of their tree, so that a revision is built once.

    Raises:
        BuildError: there is no such revision, or its build failed; the message ends with the output.
    """
    root = root or matrix.load().root
    tree = _git(root, "rev-parse", "--verify", f"{revision}^{{tree}}").decode().strip()
    folder = root / "build" / "revisions" / tree[:16]
    built = folder / "build" / "cells" / cell / "fa3"
    if not (built / "manifest.json").is_file():
        if not folder.is_dir():
            _export(root, tree, folder)
        with progress(f"build {cell} of {revision}"):
            _run([sys.executable, "-m", "nox", "-s", f"build-{cell}"], folder)
    return Build.load(built)


@dataclass(frozen=True)
class Replacement:
    """Text of one file, which occurs there once, and what stands in its place."""

    file: str
    old: str
    new: str


def build_changed(
    name: str, cell: str, replacements: Sequence[Replacement], root: Path | None = None
) -> Build:
    """A cell of the working tree's tracked files with `replacements` made, in ``build/changed/<name>``.

    Raises:
        BuildError: a text to replace does not occur exactly once, or the build failed.
    """
    root = root or matrix.load().root
    folder = root / "build" / "changed" / name
    copy_changed(root, folder, replacements)
    return build_cell(cell, root=folder)


def copy_changed(root: Path, folder: Path, replacements: Sequence[Replacement]) -> None:
    """Copy what a build takes of the tracked files of `root`, with `replacements` made; see `build_changed`."""
    listed = _git(root, "ls-files", "-z", "--", *_BUILT_FROM).decode()
    files = {
        file: (root / file).read_bytes() for file in listed.split("\0") if (root / file).is_file()
    }
    for change in replacements:
        text = files[change.file].decode()
        if text.count(change.old) != 1:
            raise BuildError(
                f"{change.file} has {text.count(change.old)} times, not once: {change.old}"
            )
        files[change.file] = text.replace(change.old, change.new).encode()
    for left in folder.glob("cpp/**/*"):
        if left.is_file() and str(left.relative_to(folder)) not in files:
            left.unlink()
    for file, content in files.items():
        path = folder / file
        # Unchanged files keep their time, so that nothing is compiled again for nothing.
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _export(root: Path, tree: str, folder: Path) -> None:
    archive = _git(root, "archive", "--format=tar", tree)
    temporary = folder.with_name(f".{folder.name}.{uuid4().hex}")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(temporary, filter="data")
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise BuildError("git is not installed, which revisions are read with") from error
    if done.returncode:
        raise BuildError(
            f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BuildError(
            f"{' '.join(command)} in {folder} ended with {done.returncode}:\n{done.stdout[-6000:]}"
        )
