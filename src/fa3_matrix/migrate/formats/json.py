"""JSON for programs: everything that is known of each finding, with a schema version."""

from dataclasses import asdict
from typing import Any

from fa3_matrix import _json
from fa3_matrix.migrate.difference import Change, Difference
from fa3_matrix.migrate.formats import excerpt
from fa3_matrix.migrate.result import Entry, Result


def result(result: Result) -> str:
    """Of a scan; see `of_result`."""
    return _json.dumps(of_result(result))


def difference(difference: Difference, changes: tuple[Change, ...]) -> str:
    """Of two toolkits: ``changes``, all or some of the difference's."""
    return _json.dumps(
        {
            "kind": "fa3-matrix migrate diff",
            **_toolkits(difference),
            "changes": [asdict(change) for change in changes],
        }
    )


def of_result(result: Result) -> dict[str, Any]:
    """A scan as data, its findings worst first.

    Of each finding ``fails`` is what the exit code rests on, ``standing`` the column of ``counts`` that it is in, and
    ``excerpt`` its lines with those around them, null where the file cannot be read any more.
    """
    excerpts = excerpt.read(result)
    return {
        "kind": "fa3-matrix migrate",
        **_toolkits(result.difference),
        "root": result.root,
        "files": result.files,
        "lines": result.lines,
        "fail_on": result.fail_on,
        "failing": result.failing,
        "counts": result.counts(),
        "by_release": result.by_release(),
        "findings": [_entry(entry, result, excerpts) for entry in result.worst_first],
        "skipped": [{"file": file, "reason": reason} for file, reason in result.skipped],
        "notes": list(result.notes),
    }


def _toolkits(difference: Difference) -> dict[str, Any]:
    return {
        "old": {"cuda": difference.old, "cccl": difference.old_cccl},
        "new": {"cuda": difference.new, "cccl": difference.new_cccl},
    }


def _entry(entry: Entry, result: Result, excerpts: excerpt.Excerpts) -> dict[str, Any]:
    place = entry.finding.file, entry.finding.line
    return {
        **asdict(entry.finding),
        "fingerprint": entry.finding.fingerprint,
        "occurrence": entry.occurrence,
        "known": entry.known,
        "standing": entry.standing,
        "fails": entry.fails(result.fail_on),
        "excerpt": asdict(excerpts[place]) if place in excerpts else None,
    }
