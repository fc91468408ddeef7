"""JSON for programs: everything that is known of each finding, with a schema version."""

from dataclasses import asdict
from typing import Any

from fa3_matrix import _json
from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.result import Entry, Result


def result(result: Result) -> str:
    """Of a scan. ``fails``: what the exit code rests on."""
    return _json.dumps(
        {
            "kind": "fa3-matrix migrate",
            **_toolkits(result.difference),
            "root": result.root,
            "files": result.files,
            "lines": result.lines,
            "fail_on": result.fail_on,
            "failing": result.failing,
            "counts": result.counts(),
            "by_release": result.by_release(),
            "findings": [_entry(entry, result) for entry in result.entries],
            "skipped": [{"file": file, "reason": reason} for file, reason in result.skipped],
            "notes": list(result.notes),
        }
    )


def difference(difference: Difference, changes: tuple[Change, ...]) -> str:
    """Of two toolkits: ``changes``, all or some of the difference's."""
    return _json.dumps(
        {
            "kind": "fa3-matrix migrate diff",
            **_toolkits(difference),
            "changes": [asdict(change) for change in changes],
        }
    )


def _toolkits(difference: Difference) -> dict[str, Any]:
    return {
        "old": {"cuda": difference.old, "cccl": difference.old_cccl},
        "new": {"cuda": difference.new, "cccl": difference.new_cccl},
    }


def _entry(entry: Entry, result: Result) -> dict[str, Any]:
    return {
        **asdict(entry.finding),
        "fingerprint": entry.finding.fingerprint,
        "occurrence": entry.occurrence,
        "known": entry.known,
        "fails": entry.fails(result.fail_on),
    }
