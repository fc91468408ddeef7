"""Headers of the toolkit that are gone or moved, and names that headers no longer bring in."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fa3_matrix.migrate.difference import Change
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan.guards import Directive
from fa3_matrix.migrate.scan.preprocessor import Truth
from fa3_matrix.migrate.scan.tree import INCLUDED
from fa3_matrix.migrate.scan.unit import CUDA_SUFFIXES, Unit

# Headers of the standard library, of C, the system and the toolkit: of these it is known what they bring in.
_C = (
    "assert|complex|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stdbool|stddef|stdint"
    "|stdio|stdlib|string|tgmath|time|wchar|dirent|dlfcn|execinfo|fcntl|getopt|libgen|malloc|memory|netdb|omp|poll"
    "|pthread|pwd|sched|semaphore|strings|termios|unistd|windows|intrin|immintrin|x86intrin|mma"
)
_KNOWN = re.compile(
    rf"[a-z_]+|(?:{_C}|cooperative_groups)\.h|(?:thrust|cub|cuda|nv|cooperative_groups|crt|sys|linux|netinet|arpa)/.*"
    r"|(?:cu|nv|npp)\w*\.(?:h|hpp|cuh)"
    r"|(?:device|host|vector|math|driver|sm|texture|surface|builtin|channel|library|common)_\w+\.(?:h|hpp)"
)


@dataclass(frozen=True)
class Include:
    """One ``#include``: ``span`` of its path, between the quotes."""

    header: str
    quoted: bool
    span: tuple[int, int]


def include_of(text: str, directive: Directive) -> Include | None:
    """The header that a directive names; None: a macro names it."""
    match = INCLUDED.match(text, directive.rest_start, directive.end)
    if match is None:
        return None
    return Include(match[2].strip(), match[1] == '"', match.span(2))


def includes_of(unit: Unit) -> Iterator[Include]:
    """All of a file."""
    for directive in unit.guards.directives:
        if directive.word in ("include", "include_next"):
            include = include_of(unit.source.text, directive)
            if include:
                yield include


def find(unit: Unit, local: frozenset[str]) -> Iterator[Finding]:
    """Removed and moved headers. ``local``: includes, as written, that the tree itself answers.

    That headers moved is said once in a file: where nvcc finds them it asks nothing of anybody, and a host compiler
    stops at the first.
    """
    moved: list[Finding] = []
    for include in includes_of(unit):
        if include.header in local:
            continue
        for change in _changes(unit, include.header):
            if change.rule == "HDR-MOVED":
                moved += filter(None, [_moved(unit, change, include)])
            elif change.rule in ("HDR-REMOVED", "DEPRECATED"):
                found = _removed(unit, change, include)
                if found:
                    yield found
    active = (finding for finding in moved if finding.state is State.ACTIVE)
    yield from moved[:1] if (first := next(active, None)) is None else [first]


def _changes(unit: Unit, header: str) -> tuple[Change, ...]:
    exact = unit.index.headers.get(header)
    if exact:
        return exact
    return tuple(change for prefix, change in unit.index.prefixes if header.startswith(prefix))


def _removed(unit: Unit, change: Change, include: Include) -> Finding | None:
    replacement = change.remedy.replacement if change.remedy else None
    edits: tuple[Edit, ...] = ()
    if replacement:
        edits = (unit.source.edit(*include.span, replacement),)
    verb = "deprecates" if change.rule == "DEPRECATED" else "has no"
    return unit.finding(
        change,
        include.span,
        f"CUDA {unit.index.difference.new} {verb} header {include.header}.",
        edits=edits,
    )


def _moved(unit: Unit, change: Change, include: Include) -> Finding | None:
    """nvcc searches CCCL's new folder by itself; a host compiler does not."""
    new = f"{include.header} is in include/cccl of CUDA {unit.index.difference.new}"
    if unit.by_nvcc or unit.file.endswith(CUDA_SUFFIXES):
        return unit.finding(
            change, include.span, f"{new}, which nvcc searches by itself.", severity=Severity.INFO
        )
    if unit.is_header:
        message = f"{new}: a host compiler that reads this header needs -I for it."
        return unit.finding(
            change, include.span, message, severity=Severity.INFO, confidence="medium"
        )
    message = f"{new}: a host compiler needs -I for it."
    return unit.finding(change, include.span, message, confidence="medium")


def lost(change: Change, reached: frozenset[str]) -> str | None:
    """Whether a name is lost with the headers that a file reaches: a confidence, or None.

    Args:
        change: of rule INCLUDE-TRANSITIVE.
        reached: headers of no file of the tree that the file includes, itself or through the tree.
    """
    if reached & {change.where, *change.brought_by}:
        return None
    if change.name.startswith("std::") and any(map(may_bring, reached)):
        return None
    return "high" if reached & set(change.lost_from) else None


def may_bring(header: str) -> bool:
    """Whether a header that the tree does not have is a third party's, of which it is not known what it includes."""
    return _KNOWN.fullmatch(header) is None


def added(unit: Unit, change: Change) -> tuple[Edit, ...]:
    """The include that the remedy names, ahead of the first one of the same library that is always read."""
    line = change.remedy.both if change.remedy else None
    match = re.fullmatch(r"#include <(\w+)/[^<>]+>", line or "")
    if line is None or match is None:
        return ()
    for directive in unit.guards.directives:
        if directive.word != "include" or unit.guards.at(directive.start).new is not Truth.TRUE:
            continue
        include = include_of(unit.source.text, directive)
        if include and include.header.startswith(match[1] + "/"):
            line += unit.source.newline_of(directive.start)
            return (unit.source.edit(directive.start, directive.start, line),)
    return ()
