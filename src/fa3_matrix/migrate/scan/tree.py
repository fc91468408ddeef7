"""The headers of a tree: which files include which, and the macros that they define."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.migrate.scan.guards import (
    CONDITIONS,
    Branch,
    Conditions,
    Definition,
    Directive,
    Guards,
    definition_of,
    directives,
)
from fa3_matrix.migrate.scan.lexing import lex, to_bytes
from fa3_matrix.migrate.scan.preprocessor import Truth
from fa3_matrix.migrate.scan.walk import read, read_text

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include(?:_next)?[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cu", ".mm")
HEADER_SUFFIXES = (
    *(".h", ".hh", ".hpp", ".hxx", ".h++", ".cuh"),
    *(".inl", ".inc", ".ipp", ".tpp", ".txx"),
)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_][A-Za-z0-9_]*)", re.MULTILINE)
# What follows `#include`; a macro may stand there instead.
INCLUDED = re.compile(r"\s*(?:_next)?\s*([<\"])([^>\"\n]*)[>\"]")
_WORD = re.compile(r"[A-Za-z_]\w*")
# The `#ifndef X`, `#define X` that a header begins with.
_INCLUDE_GUARD = re.compile(
    rb"[^#]*(?:^[ \t]*#[ \t]*pragma\b[^#]*)?^[ \t]*#[ \t]*(?:ifndef[ \t]+|if[ \t]+!defined[ \t]*\(?[ \t]*)"
    rb"(?P<name>\w+)[^#]*^[ \t]*#[ \t]*define[ \t]+(?P=name)[ \t\r]*$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Header:
    """``includes``: as written; ``cuda``: the word stands in it; ``defines``: its macros,
    without that which keeps it from being read twice.
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
        self.files = files
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for file in sorted(files):
            self._by_name[file.rpartition("/")[2]].append(file)
        self._headers: dict[str, Header] = {}
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._reached: dict[str, frozenset[str]] = {}
        self._outside: dict[str, frozenset[str]] = {}
        self._units: dict[str, list[str]] | None = None
        self._includers: dict[str, list[str]] | None = None
        self._definers: dict[str, set[str]] = defaultdict(set)
        self._directives: dict[str, bytes] = {}

    def resolve(self, file: str, header: str) -> str | None:
        """The file of the tree that ``#include`` of ``header`` in ``file`` means, or None."""
        key = file.rpartition("/")[0], header
        if key not in self._resolved:
            self._resolved[key] = self._resolve(file, header)
        return self._resolved[key]

    def _resolve(self, file: str, header: str) -> str | None:
        if header in self.files and "/" in header:
            return header
        folder = file.rpartition("/")[0]
        parts = [*folder.split("/")] if folder else []
        for part in header.split("/"):
            if part == ".." and parts:
                parts.pop()
            elif part not in (".", ".."):
                parts.append(part)
        beside = "/".join(parts)
        if beside in self.files:
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
        defines = frozenset(match.decode("ascii") for match in _DEFINE.findall(data))
        guard = _INCLUDE_GUARD.match(data)
        if guard:
            defines -= {guard["name"].decode("ascii")}
        for macro in defines:
            self._definers[macro].add(file)
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
            for file in sorted(self.files):
                if file.endswith(SOURCE_SUFFIXES):
                    for reached in self.reached(file):
                        self._units[reached].append(file)
        return tuple(self._units.get(header, ()))

    def includers(self, header: str) -> tuple[str, ...]:
        """Files that include ``header`` themselves; all code of the tree is read for it, once."""
        if self._includers is None:
            self._includers = defaultdict(list)
            for file in sorted(self.files):
                if file.endswith((*SOURCE_SUFFIXES, *HEADER_SUFFIXES)):
                    for name in self.header(file).includes:
                        target = self.resolve(file, name)
                        if target is not None and target != file:
                            self._includers[target].append(file)
        return tuple(dict.fromkeys(self._includers.get(header, ())))

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
        wanted: frozenset[str],
        seen: set[tuple[str, Truth]],
    ) -> None:
        """Take in macros of the headers that ``#include`` of ``name`` in ``file`` reads, in ``branch``.

        Of headers through which something ``wanted`` is defined: the words of the conditions that ask.
        ``seen``: headers that were read, and how surely; grows.
        """
        target = self.resolve(file, name)
        if target is None or branch.dead or (target, branch.new) in seen:
            return
        if not self._leads_to(target, wanted):
            return
        seen.add((target, branch.new))
        code = self.directives_of(target)
        wanted = self._with_what_decides(code, self.header(target).defines & wanted, wanted)

        def included(directive: Directive, inner: Branch) -> None:
            path = INCLUDED.match(directive.rest)
            if path:
                self.read_macros(target, path[2].strip(), conditions, inner, wanted, seen)

        Guards(code, conditions, included, around=branch)

    def _with_what_decides(
        self, code: bytes, found: frozenset[str], wanted: frozenset[str]
    ) -> frozenset[str]:
        """``wanted``, and what the macros ``found`` in ``code`` are made of, and whether they are defined at all."""
        if not found:
            return wanted
        asked: set[str] = set()
        for directive in directives(code):
            definition = definition_of(directive) if directive.word == "define" else None
            if definition is not None and definition.name in found:
                asked.update(_WORD.findall(definition.body))
            elif directive.word in CONDITIONS:
                asked.update(_WORD.findall(directive.rest))
        return wanted | asked

    def definition(self, file: str, name: str) -> Definition | None:
        """Of the macro ``name`` in the headers that ``file`` reaches; None: there is none, or they disagree."""
        found: dict[str, Definition] = {}
        for header in sorted(self.reached(file) & self._definers.get(name, frozenset())):
            for directive in directives(self.directives_of(header)):
                given = definition_of(directive) if directive.word == "define" else None
                if given is not None and given.name == name:
                    found[given.body] = given
        return found.popitem()[1] if len(found) == 1 else None

    def _leads_to(self, header: str, wanted: frozenset[str]) -> bool:
        """Whether ``header``, or what it reaches, defines one of ``wanted``."""
        reached = self.reached(header)
        return any(
            header in files or not reached.isdisjoint(files)
            for files in map(self._definers.get, wanted)
            if files
        )

    def directives_of(self, file: str) -> bytes:
        """The directives of a header alone, as `lex` has them, but with the paths of its includes."""
        known = self._directives.get(file)
        if known is None:
            text = read_text(self.root / file)
            code, written = lex(text).code, to_bytes(text)
            lines = (
                (written if directive.word == "include" else code)[directive.start : directive.end]
                for directive in directives(code)
            )
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
