"""Find in a tree of sources what the difference of two toolkits touches. Nothing that is read is executed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan.walk import Listed, Skipped, walk

__all__ = ["Scan", "Skipped", "scan"]


@dataclass(frozen=True)
class Scan:
    """What a scan came to: ``files`` and ``lines`` that were read, findings in the order of files and lines."""

    findings: tuple[Finding, ...]
    files: int
    lines: int
    skipped: tuple[Skipped, ...]


def scan(
    root: Path,
    difference: Difference,
    *,
    exclude: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    processes: int | None = None,
) -> Scan:
    """Scan all files under ``root``, or the one file that it is.

    Args:
        root: folder or file.
        difference: what to look for.
        exclude: patterns of names relative to ``root`` that are not read: see `walk`.
        progress: called with bytes done and bytes in all.
        processes: how many to use; None: one for each core, and one alone where the tree is small.

    Raises:
        Fa3Error: there is no such folder, or the parser is not installed.
    """
    from fa3_matrix.migrate.scan.work import run

    if not root.exists():
        raise Fa3Error(f"{root}: no such file or folder; name what to scan")
    entries = list(walk(root, exclude))
    files = [entry for entry in entries if isinstance(entry, Listed)]
    skipped = [entry for entry in entries if isinstance(entry, Skipped)]
    folder = root.parent if root.is_file() else root
    result = run(folder, files, difference, progress, processes)
    findings = dict.fromkeys(result.findings)
    ordered = sorted(findings, key=lambda f: (f.file, f.line, f.column, f.rule, f.name))
    return Scan(tuple(ordered), result.files, result.lines, (*skipped, *result.skipped))
