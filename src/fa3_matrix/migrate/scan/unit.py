"""One C++ file under the scanner: its text, its guards, and how a change becomes a finding in it."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan.guards import (
    CONDITIONS,
    Branch,
    Conditions,
    Directive,
    Guards,
    directives,
)
from fa3_matrix.migrate.scan.index import Index
from fa3_matrix.migrate.scan.lexing import Lexed, lex
from fa3_matrix.migrate.scan.preprocessor import Environment, Macro, Truth, toolkit_macros
from fa3_matrix.migrate.scan.source import Source
from fa3_matrix.migrate.scan.tree import HEADER_SUFFIXES, INCLUDED, Tree

# What nvcc compiles; other files with CUDA's own syntax go to it as well.
CUDA_SUFFIXES = (".cu", ".cuh")
_QUERY = re.compile(
    rb"\bcudaGetDeviceProperties(?:_v2)?\s*\(\s*&?\s*([A-Za-z_][^,;()\[\]]*)(?:\[[^\]]*\]\s*)?,"
)
_DEVICE = re.compile(rb"\b__(?:global|device|shared)__\b|<<<")


def is_device_code(code: bytes) -> bool:
    """Whether CUDA's own syntax is in it, which only nvcc takes."""
    return bool(_DEVICE.search(code))


@dataclass(frozen=True)
class Unit:
    """``guards`` and ``lexed`` are of ``source``; offsets are characters of its text, everywhere."""

    source: Source
    index: Index
    lexed: Lexed
    guards: Guards

    @property
    def code(self) -> bytes:
        """The text without comments and string contents."""
        return self.lexed.code

    @property
    def file(self) -> str:
        """Relative name."""
        return self.source.file

    @cached_property
    def words(self) -> frozenset[str]:
        """Identifiers of the code, those of directives included."""
        return frozenset(re.findall(r"[A-Za-z_]\w*", self.code.decode("ascii")))

    @cached_property
    def queried(self) -> frozenset[str]:
        """What cudaGetDeviceProperties fills in, as written."""
        return frozenset(
            "".join(match.decode("ascii").split()) for match in _QUERY.findall(self.code)
        )

    @cached_property
    def by_nvcc(self) -> bool:
        """Whether nvcc compiles the file as CUDA, as far as its name and text tell."""
        return self.file.endswith(CUDA_SUFFIXES) or is_device_code(self.code)

    @property
    def is_header(self) -> bool:
        """By its name."""
        return self.file.endswith(HEADER_SUFFIXES)

    def in_directive(self, offset: int) -> Directive | None:
        """The preprocessor's line at ``offset``."""
        position = bisect_right(self._directive_starts, offset) - 1
        if position < 0:
            return None
        directive = self.guards.directives[position]
        return directive if offset < directive.end else None

    def is_condition(self, offset: int) -> bool:
        """Whether a directive other than ``#define`` stands there."""
        directive = self.in_directive(offset)
        return directive is not None and directive.word != "define"

    @cached_property
    def _directive_starts(self) -> list[int]:
        return [directive.start for directive in self.guards.directives]

    def finding(
        self,
        change: Change,
        span: tuple[int, int],
        message: str,
        *,
        confidence: str = "high",
        severity: Severity | None = None,
        edits: tuple[Edit, ...] = (),
    ) -> Finding | None:
        """At ``span``; None where no compiler of either toolkit comes by."""
        branch = self.guards.at(span[0])
        if branch.state is None:
            return None
        return self.source.finding(
            change.rule,
            span,
            change.name,
            message,
            change=change,
            severity=severity,
            state=branch.state,
            confidence=confidence,
            edits=() if branch.state is State.INACTIVE else edits,
        )


def conditions_of(difference: Difference, headers: dict[str, bool]) -> Conditions:
    """What both toolkits define; ``headers``: whether the new one has a header (the old one has them all)."""
    new = toolkit_macros(difference.new, difference.new_cccl)
    old = toolkit_macros(difference.old, difference.old_cccl)
    return Conditions(
        Environment(new, headers.get),
        Environment(old, lambda header: True if header in headers else None),
    )


def unit_of(
    file: str,
    text: str,
    index: Index,
    tree: Tree | None = None,
    given: frozenset[str] = frozenset(),
) -> Unit:
    """Read ``text``; of ``tree`` the macros of the headers that it includes; ``given``: what is defined before it."""
    gone = {
        name: not any(change.rule == "HDR-REMOVED" for change in changes)
        for name, changes in index.headers.items()
    }
    conditions = conditions_of(index.difference, gone)
    for name in given:
        conditions.new.macros[name] = conditions.old.macros[name] = Macro("1")
    lexed = lex(text)
    if tree is None:
        guards = Guards(lexed.code, conditions)
    else:
        asked = (d.rest for d in directives(lexed.code) if d.word in (*CONDITIONS, "define"))
        words = frozenset(word for rest in asked for word in re.findall(r"\w+", rest))
        seen: set[tuple[str, Truth]] = set()

        def included(directive: Directive, branch: Branch) -> None:
            # In the text, since `lex` blanks what stands in quotes.
            header = INCLUDED.match(text, directive.rest_start, directive.end)
            if header:
                tree.read_macros(file, header[2].strip(), conditions, branch, words, seen)

        guards = Guards(lexed.code, conditions, included)
    return Unit(Source(file, text, index.difference), index, lexed, guards)
