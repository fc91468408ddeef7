"""Assemble a recipe's tree in the cache: whole or not at all."""

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import IO

from fa3_matrix import _json
from fa3_matrix._progress import progress
from fa3_matrix.errors import ToolkitError

from ._archive import members
from ._cache import cache_dir, locked
from ._download import fetch, file_sha256
from ._pins import Recipe

_RECORD = "fa3-install.json"


def installed(recipe: Recipe) -> Path | None:
    """The recipe's tree if it is installed. It appears by one rename: what exists is complete."""
    tree = _tree(recipe)
    return tree if (tree / _RECORD).is_file() else None


def install(recipe: Recipe) -> Path:
    """Return the recipe's tree, downloading and assembling it unless it is installed.

    Safe when several processes do it at once, and an interrupted one leaves no tree.

    Raises:
        ToolkitError: This machine cannot run it, a package could not be had or did not match its
            pinned sha256, or the disk refused.
    """
    if (tree := installed(recipe)) is not None:
        return tree
    if recipe.machine and (sys.platform, platform.machine()) != ("linux", recipe.machine):
        raise ToolkitError(
            f"{recipe.name} can be provisioned on linux {recipe.machine} only, and this machine is "
            f"{sys.platform} {platform.machine()}"
        )
    with locked(recipe.name):
        if (tree := installed(recipe)) is not None:  # Another process was faster.
            return tree
        tree = _tree(recipe)
        try:
            return _assemble(recipe, tree)
        except OSError as error:
            raise ToolkitError(
                f"{recipe.name} could not be installed in {tree.parent}: {error}; nothing was "
                "installed. Free some space or set FA3_CACHE_DIR to another folder, and run again"
            ) from error


def damaged(tree: Path) -> list[str]:
    """Files of an installed tree that are missing or whose sha256 is not the installed one."""
    recorded: dict[str, str] = _json.read(tree / _RECORD)["files"]
    with progress(f"verify {tree.name}", unit="files") as bar:
        bad = []
        for number, (name, sha256) in enumerate(recorded.items()):
            path = tree / name
            if not path.is_file() or file_sha256(path) != sha256:
                bad.append(name)
            bar.update(number + 1, len(recorded))
    return bad


def _tree(recipe: Recipe) -> Path:
    return cache_dir() / "trees" / recipe.folder


def _assemble(recipe: Recipe, tree: Path) -> Path:
    archives = [(package, fetch(package)) for package in recipe.packages]
    tree.parent.mkdir(exist_ok=True)
    for leftover in tree.parent.glob(f".{recipe.name}-*"):  # Of a process that was killed.
        shutil.rmtree(leftover)
    staging = Path(mkdtemp(prefix=f".{recipe.name}-", dir=tree.parent))
    files: dict[str, str] = {}
    try:
        with progress(f"unpack {recipe.name}", unit="packages") as bar:
            for number, (package, archive) in enumerate(archives):
                before = len(files)
                for member, mode, content in members(package, archive):
                    place = package.destination(member)
                    if place is not None:
                        files[str(place)] = _write(staging / place, mode, content)
                if len(files) == before:
                    raise ToolkitError(f"{package}: nothing in the archive matches its layout")
                bar.update(number + 1, len(archives))
        for name, text in recipe.files.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            files[name] = file_sha256(path)
        for name, target in recipe.links.items():
            (staging / name).symlink_to(target)
        packages = [
            {"name": p.name, "version": p.version, "sha256": p.sha256} for p in recipe.packages
        ]
        _json.write_atomic(
            staging / _RECORD, {"recipe": recipe.name, "packages": packages, "files": files}
        )
        staging.chmod(0o755)
        staging.rename(tree)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return tree


def _write(path: Path, mode: int, content: IO[bytes]) -> str:
    """Copy `content` to a new file and return its sha256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as file:
        while block := content.read(1 << 20):
            digest.update(block)
            file.write(block)
    os.chmod(path, mode | 0o644)
    return digest.hexdigest()
