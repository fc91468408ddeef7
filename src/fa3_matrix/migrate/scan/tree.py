"""The headers of a tree: which files include which, and the macros made of a toolkit's version in them."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.migrate.scan.guards import Branch, Conditions, Guards, directives
from fa3_matrix.migrate.scan.lexing import lex
from fa3_matrix.migrate.scan.walk import read

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include(?:_next)?[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_VERSION = re.compile(
    rb"^[ \t]*#.*\b(?:CUDA(?:RT)?_VERSION|__CUDACC_VER_\w+|(?:THRUST|CUB|CCCL)_\w*VERSION)\b",
    re.MULTILINE,
)
SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cu", ".mm")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_][A-Za-z0-9_]*)", re.MULTILINE)
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Header:
    """``includes``: as written; ``cuda``: the word stands in it.

    ``defines``: its macros, if its directives have to do with a toolkit's version.
    """

    includes: tuple[str, ...]
    cuda: bool
    defines: frozenset[str]


class Tree:
    """Files under ``root`` by relative name; each is read once, when it is first included.

    Which folders the compiler searches is not known: an include is taken for the file of the tree whose
    path ends with it and that is nearest to the file that includes it.
    """

    def __init__(self, root: Path, files: frozenset[str]) -> None:
        self.root = root
        self._files = files
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for file in sorted(files):
            self._by_name[file.rpartition("/")[2]].append(file)
        self._headers: dict[str, Header] = {}
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._reached: dict[str, frozenset[str]] = {}
        self._outside: dict[str, frozenset[str]] = {}
        self._units: dict[str, list[str]] | None = None
        self._definers: dict[str, tuple[str, ...]] = {}
        self._directives: dict[str, bytes] = {}

    def resolve(self, file: str, header: str) -> str | None:
        """The file of the tree that ``#include`` of ``header`` in ``file`` means, or None."""
        key = file.rpartition("/")[0], header
        if key not in self._resolved:
            self._resolved[key] = self._resolve(file, header)
        return self._resolved[key]

    def _resolve(self, file: str, header: str) -> str | None:
        if header in self._files and "/" in header:
            return header
        folder = file.rpartition("/")[0]
        parts = [*folder.split("/")] if folder else []
        for part in header.split("/"):
            if part == ".." and parts:
                parts.pop()
            elif part not in (".", ".."):
                parts.append(part)
        beside = "/".join(parts)
        if beside in self._files:
            return beside
        tail = re.sub(r"^(?:\.\.?/)+", "", header)
        candidates = [
            candidate
            for candidate in self._by_name.get(tail.rpartition("/")[2], ())
            if candidate == tail or candidate.endswith("/" + tail)
        ]
        return max(candidates, key=lambda c: (_shared(c, file), -len(c)), default=None)

    def header(self, file: str) -> Header:
        """What ``file`` says of itself; nothing if it cannot be read."""
        known = self._headers.get(file)
        if known is None:
            known = self.remember(file, read(self.root / file) or b"")
        return known

    def remember(self, file: str, data: bytes) -> Header:
        """Of ``data``, the contents of ``file``, so that it is not read again."""
        names = tuple(match.decode("utf-8", "replace") for match in _INCLUDE.findall(data))
        defines: frozenset[str] = frozenset()
        if _VERSION.search(data):
            defines = frozenset(match.decode("ascii") for match in _DEFINE.findall(data))
        known = Header(names, b"cuda" in data, defines)
        self._headers[file] = known
        return known

    def reached(self, file: str) -> frozenset[str]:
        """Files of the tree that ``file`` includes, itself or through others; without itself."""
        known = self._reached.get(file)
        if known is None:
            seen: set[str] = set()
            todo = [file]
            while todo:
                current = todo.pop()
                for name in self.header(current).includes:
                    target = self.resolve(current, name)
                    if target is not None and target not in seen:
                        seen.add(target)
                        todo.append(target)
            known = self._reached[file] = frozenset(seen - {file})
        return known

    def outside(self, file: str) -> frozenset[str]:
        """Headers that ``file`` and what it reaches include, and that the tree does not have."""
        return frozenset().union(*(self._own_outside(f) for f in (file, *self.reached(file))))

    def _own_outside(self, file: str) -> frozenset[str]:
        known = self._outside.get(file)
        if known is None:
            names = self.header(file).includes
            known = frozenset(name for name in names if self.resolve(file, name) is None)
            self._outside[file] = known
        return known

    def units(self, header: str) -> tuple[str, ...]:
        """Sources that reach ``header``; all sources of the tree are read for it, once."""
        if self._units is None:
            self._units = defaultdict(list)
            for file in sorted(self._files):
                if file.endswith(SOURCE_SUFFIXES):
                    for reached in self.reached(file):
                        self._units[reached].append(file)
        return tuple(self._units.get(header, ()))

    def local(self, file: str) -> frozenset[str]:
        """Includes of ``file``, as written, that the tree answers."""
        names = self.header(file).includes
        return frozenset(name for name in names if self.resolve(file, name) is not None)

    def read_macros(
        self,
        file: str,
        name: str,
        conditions: Conditions,
        branch: Branch,
        wanted: set[str],
        seen: set[str],
    ) -> None:
        """Take in macros of the headers that ``#include`` of ``name`` in ``file`` reads, in ``branch``.

        Of headers whose directives have to do with a toolkit's version, and that define what is
        ``wanted``: the words of the conditions that ask. ``seen``: headers that were read; grows.
        """
        target = self.resolve(file, name)
        if target is not None and not branch.dead:
            self._read_macros(target, conditions, branch, wanted, seen)

    def _read_macros(
        self, header: str, conditions: Conditions, branch: Branch, wanted: set[str], seen: set[str]
    ) -> None:
        for other in self._defining(header):
            if other in seen or wanted.isdisjoint(self.header(other).defines):
                continue
            seen.add(other)
            code = self._directives_of(other)
            words = {word.decode("ascii") for word in _WORD.findall(code)}
            self._read_macros(other, conditions, branch, words, seen)  # what its macros are made of
            Guards(code, conditions, around=branch)

    def _defining(self, header: str) -> tuple[str, ...]:
        """Of what ``header`` reaches, and of itself, what defines macros that have to do with a version."""
        known = self._definers.get(header)
        if known is None:
            files = (*sorted(self.reached(header)), header)
            known = tuple(file for file in files if self.header(file).defines)
            self._definers[header] = known
        return known

    def _directives_of(self, file: str) -> bytes:
        """The directives of a header alone."""
        known = self._directives.get(file)
        if known is None:
            text = (read(self.root / file) or b"").decode("utf-8", "replace")
            code = lex(text).code
            lines = (code[directive.start : directive.end] for directive in directives(code))
            known = self._directives[file] = b"\n".join(lines)
        return known

    def texts(self, files: frozenset[str]) -> Iterator[bytes]:
        """Contents of files of the tree."""
        for file in sorted(files):
            yield read(self.root / file) or b""


def _shared(first: str, second: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for one, other in zip(first.split("/")[:-1], second.split("/")[:-1], strict=False):
        if one != other:
            break
        count += 1
    return count
