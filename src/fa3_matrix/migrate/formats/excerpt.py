"""The lines around findings, read from the scanned tree once more: what a reader wants to see of a place."""

from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.migrate.result import Result

# Lines before and after a finding's own.
CONTEXT = 2
# Of a line, in characters, as of a finding's construct: generated files have endless ones.
_WIDTH = 200


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file; ``first``: the number of the first of them, from 1."""

    first: int
    lines: tuple[str, ...]


Excerpts = dict[tuple[str, int], Excerpt]
"""By file and line of a finding."""


def read(result: Result) -> Excerpts:
    """Of all findings whose files can still be read and have that line."""
    root = Path(result.root)
    folder = root if root.is_dir() else root.parent
    wanted: dict[str, set[int]] = {}
    for entry in result.entries:
        wanted.setdefault(entry.finding.file, set()).add(entry.finding.line)
    found: Excerpts = {}
    for file, numbers in wanted.items():
        try:
            text = (folder / file).read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # gone since it was scanned
        lines = text.split("\n")
        found |= {(file, n): _around(lines, n) for n in numbers if n <= len(lines)}
    return found


def _around(lines: list[str], number: int) -> Excerpt:
    first = max(number - CONTEXT, 1)
    shown = lines[first - 1 : number + CONTEXT]
    return Excerpt(first, tuple(line.rstrip("\r")[:_WIDTH] for line in shown))
