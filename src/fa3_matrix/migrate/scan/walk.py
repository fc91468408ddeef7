"""The files of a tree that a scanner may read."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

# Above, a file is generated or no source; what people write has less than 2 MB.
LARGEST = 20_000_000
_HEAD = 4096
_IGNORED = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".bzr",
        ".jj",
        "CVS",
        "__pycache__",
        ".tox",
        ".nox",
        ".venv",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        "node_modules",
    ]
)


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was not read, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class Listed:
    """A file by its relative name, with /; ``size`` in bytes."""

    file: str
    size: int


def walk(root: Path, exclude: Sequence[str] = ()) -> Iterator[Listed | Skipped]:
    """All regular files under ``root`` in the order of their names, without those of version control.

    Links to files elsewhere are followed; links to folders are not, since what they show is either in
    the tree already, or no part of it. A ``root`` that is a file is the only one.

    Args:
        exclude: patterns of relative names, as of `fnmatch`; what matches one, and what lies in a folder that does,
            is not looked at.
    """
    patterns = [pattern.rstrip("/") for pattern in exclude]
    if root.is_file():
        if not _matches(root.name, patterns):
            yield _listed(root.name, root)
        return
    yield from _folder(root, root.resolve(), patterns)


def _matches(file: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(file, pattern) for pattern in patterns)


def _folder(root: Path, real: Path, exclude: Sequence[str]) -> Iterator[Listed | Skipped]:
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError as error:
            yield Skipped(_text(folder) or ".", f"cannot be listed: {error.strerror}")
            continue
        # A virtual environment, whatever it is called; unless it is what was asked for.
        if folder and any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        inner = []
        for entry in entries:
            file = f"{folder}/{entry.name}" if folder else entry.name
            if _matches(file, exclude):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _IGNORED:
                    inner.append(file)
            elif not entry.is_symlink():
                yield _listed(file, root / file)
            elif not os.path.exists(entry.path):
                yield Skipped(_text(file), "link that leads nowhere")
            elif entry.is_file() and not Path(os.path.realpath(entry.path)).is_relative_to(real):
                yield _listed(file, root / file)
        folders += reversed(inner)


def _listed(file: str, path: Path) -> Listed | Skipped:
    try:
        status = path.stat()
    except OSError as error:
        return Skipped(_text(file), f"cannot be read: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return Skipped(_text(file), "not a regular file")
    if status.st_size > LARGEST:
        size = f"{status.st_size / 1e6:.0f} MB"
        return Skipped(
            _text(file), f"{size}; files of more than {LARGEST // 1_000_000} MB are not read"
        )
    return Listed(file, status.st_size)


def _text(name: str) -> str:
    """A file name as text that can be written: bytes that are no UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read(path: Path) -> bytes | None:
    """Contents of a file; None where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def read_text(path: Path) -> str:
    """Contents of a file, of which no byte is an error; "" where it cannot be read."""
    return (read(path) or b"").decode("utf-8", "replace")


def is_binary(data: bytes) -> bool:
    """Whether a file is no text: a zero byte early on (which UTF-16, that no compiler here takes, has too)."""
    return b"\0" in data[:_HEAD]
