"""String literals that name what the toolkit's version changes: libraries to load, architectures to compile for."""

import re
from collections.abc import Iterator

from fa3_matrix.migrate.difference import Change
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.rules import Severity
from fa3_matrix.migrate.scan.index import Index
from fa3_matrix.migrate.scan.source import Source
from fa3_matrix.migrate.scan.unit import Unit

_OPTION = re.compile(
    r"(?:--?gpu-(?:architecture|code)|-arch|-code|arch|code)\s*=\s*[\"']?(?:sm|compute|lto)_(\d+)[af]?"
)
_LOOK_UP = re.compile(
    rb"\b(?:dlv?sym|GetProcAddress|cu(?:da)?GetProcAddress\w*|cudaGetDriverEntryPoint\w*)\s*\([^;{}]*\"$"
)
_ALONE = re.compile(r"\s*(?:sm|compute|lto)_(\d+)[af]?\s*$")
_PTX_TARGET = re.compile(r"^[ \t]*\.target[ \t]+sm_(\d+)[af]?", re.MULTILINE)


def find(unit: Unit) -> Iterator[Finding]:
    """In every string of the file that stands in code."""
    text = unit.source.text
    for start, end in unit.lexed.strings:
        if end - start < 4 or unit.is_condition(start):
            continue
        value = text[start:end]
        for change, span, message, confidence in _libraries(unit.index, value):
            at = (start + span[0], start + span[1])
            found = unit.finding(change, at, message, confidence=confidence)
            if found:
                yield found
        for change, span, message, confidence in _architectures(unit.index, value):
            at = (start + span[0], start + span[1])
            found = unit.finding(change, at, message, confidence=confidence)
            if found:
                yield found
        for change in _symbols(unit, start, value):
            found = unit.finding(
                change,
                (start, end),
                f"No library of CUDA {unit.index.difference.new} exports {value}.",
            )
            if found:
                yield found
        if ".target" in value:
            yield from _targets(unit.source, unit.index, start, end)


_Row = tuple[Change, tuple[int, int], str, str]


def _libraries(index: Index, value: str) -> Iterator[_Row]:
    for name, change in index.libraries.items():
        position = value.find(name)
        if position < 0 or (position and value[position - 1] not in "/\\:;"):
            continue
        rest = value[position + len(name) :]
        if re.match(r"(?:\.\d+)*(?:[;:]|$)", rest) is None:
            continue  # in a message, or another name
        message = f"{name} is not there in CUDA {index.difference.new}"
        message += f", which has {change.new}." if change.new else "."
        yield change, (position, position + len(name)), message, "high"


def _symbols(unit: Unit, start: int, value: str) -> Iterator[Change]:
    """Functions that are looked up by name and are gone."""
    changes = unit.index.names.get(value, ())
    if changes and _LOOK_UP.search(unit.code, max(0, start - 200), start):
        yield from (c for c in changes if c.rule in ("FN-REMOVED", "FN-SUFFIX") and c.name == value)


def _architectures(index: Index, value: str) -> Iterator[_Row]:
    matches = [(match, "high") for match in _OPTION.finditer(value)]
    alone = _ALONE.match(value)
    if alone and not matches:
        matches = [(alone, "medium")]
    for match, confidence in matches:
        change = index.architectures.get(f"sm_{match[1]}")
        if change:
            message = f"CUDA {index.difference.new} compiles for no architecture {change.name}."
            yield change, match.span(), message, confidence


def _targets(source: Source, index: Index, start: int, end: int) -> Iterator[Finding]:
    """``.target`` of PTX: drivers still compile it, ptxas makes no binary for that GPU."""
    for match in _PTX_TARGET.finditer(source.text, start, end):
        change = index.architectures.get(f"sm_{match[1]}")
        if change:
            yield source.finding(
                "PTX-ISA",
                match.span(),
                f".target sm_{match[1]}",
                f"ptxas of CUDA {index.difference.new} makes no binary for {change.name}; "
                "it takes such PTX for newer GPUs.",
                change=change,
                severity=Severity.INFO,
            )


def find_ptx(file: str, text: str, index: Index) -> Iterator[Finding]:
    """In a file of PTX."""
    yield from _targets(Source(file, text, index.difference), index, 0, len(text))
