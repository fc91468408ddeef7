"""The baseline: findings that were there before, so that only new ones fail."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.difference import Difference
from fa3_matrix.migrate.result import Entry

_KIND = "fa3-matrix migrate baseline"


class BaselineError(Fa3Error):
    """The baseline is missing, is another kind of file, is of other toolkits, or cannot be written."""


def write(path: Path, entries: Sequence[Entry], difference: Difference) -> int:
    """Write what is open now to ``path``, atomically; return the number of findings.

    Suppressed ones and those guarded by the toolkit's version need no entry.
    """
    kept = [entry.finding for entry in entries if entry.open]
    counts = Counter(finding.fingerprint for finding in kept)
    rows: dict[str, Any] = {
        finding.fingerprint: {
            "count": counts[finding.fingerprint],
            # For those who review the file; only the fingerprint and the count are read back.
            "rule": finding.rule,
            "file": finding.file,
            "name": finding.name,
            "construct": finding.construct,
        }
        for finding in sorted(kept, key=lambda f: (f.file, f.rule, f.name, f.fingerprint))
    }
    data = {"kind": _KIND, "old": difference.old, "new": difference.new, "findings": rows}
    try:
        _json.write_atomic(path, data)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written ({error})") from error
    return len(kept)


def read(path: Path, difference: Difference) -> Counter[str]:
    """How many findings of each fingerprint were there.

    Raises:
        BaselineError: see there.
    """
    try:
        data = _json.read(path)
    except Fa3Error as error:
        raise BaselineError(f"{error}. `--write-baseline {path}` writes it") from error
    if data.get("kind") != _KIND:
        raise BaselineError(f"{path}: not a baseline; `--write-baseline {path}` writes one")
    toolkits = (data.get("old"), data.get("new"))
    if toolkits != (difference.old, difference.new):
        raise BaselineError(
            f"{path}: a baseline of CUDA {toolkits[0]} -> {toolkits[1]}, and this run is of "
            f"{difference.old} -> {difference.new}; write one for it with --write-baseline"
        )
    try:
        return Counter({str(key): int(row["count"]) for key, row in data["findings"].items()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BaselineError(
            f"{path}: damaged ({error!r}); `--write-baseline {path}` writes it again"
        ) from error


def mark(entries: Sequence[Entry], known: Counter[str]) -> tuple[tuple[Entry, ...], int]:
    """The entries with those of the baseline marked known, and how many of the baseline are gone.

    Of a fingerprint that is met more often than before, the later ones are new.
    """
    open_ones = Counter(entry.finding.fingerprint for entry in entries if entry.open)
    seen: Counter[str] = Counter()
    marked = []
    for entry in entries:
        key = entry.finding.fingerprint
        if entry.open:
            seen[key] += 1
        marked.append(replace(entry, known=entry.open and seen[key] <= known[key]))
    return tuple(marked), (known - open_ones).total()
