"""SARIF 2.1.0, as code hosts take it: rules with their help, fingerprints, suppressions, fixes."""

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from fa3_matrix.migrate.finding import Edit
from fa3_matrix.migrate.formats import excerpt
from fa3_matrix.migrate.result import Entry, Result
from fa3_matrix.migrate.rules import RULES, Rule, Severity, State

# GitHub's limits of an upload: results of a run, and its size after gzip.
MAX_RESULTS = 25_000
MAX_BYTES = 10_000_000

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {
    Severity.BREAK: "error",
    Severity.SILENT: "warning",
    Severity.DEPRECATED: "warning",
    Severity.INFO: "note",
}


def result(result: Result) -> str:
    """Of a scan. Places that are guarded by the toolkit's version are no results: nothing is to be done.

    The worst come first and are kept when the limits cut, after the lines around them have gone; a notification says
    how many were left out.
    """
    entries = [e for e in result.worst_first if e.finding.state is not State.INACTIVE]
    kept, excerpts = entries[:MAX_RESULTS], excerpt.read(result)
    while True:
        log = _log(result, kept, len(entries) - len(kept), excerpts)
        text = json.dumps(log, indent=2) + "\n"
        if not kept or len(gzip.compress(text.encode(), 6)) <= MAX_BYTES:
            return text
        if excerpts:
            excerpts = {}
        else:
            kept = kept[: len(kept) * 3 // 4]


def _log(
    result: Result, entries: list[Entry], cut: int, excerpts: excerpt.Excerpts
) -> dict[str, Any]:
    import fa3_matrix

    difference = result.difference
    ids = list(RULES)
    baseline = any(entry.known for entry in result.entries)
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "fa3-matrix migrate",
                        "semanticVersion": fa3_matrix.__version__.split("+")[0],
                        "version": fa3_matrix.__version__,
                        "rules": [_rule(rule) for rule in RULES.values()],
                    }
                },
                "automationDetails": {
                    "id": f"fa3-matrix-migrate/{difference.old}-{difference.new}/"
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The scanned folder."}}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": list(_notifications(result, cut)),
                    }
                ],
                "properties": {
                    "oldToolkit": difference.old,
                    "newToolkit": difference.new,
                    "oldCccl": difference.old_cccl,
                    "newCccl": difference.new_cccl,
                },
                "results": [
                    _result(
                        entry,
                        ids.index(entry.finding.rule),
                        baseline,
                        excerpts.get((entry.finding.file, entry.finding.line)),
                    )
                    for entry in entries
                ],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.help},
        "help": {"text": rule.help, "markdown": rule.help},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["cuda", "migration"], "precision": "high"},
    }


def _notifications(result: Result, cut: int) -> Iterator[dict[str, Any]]:
    if cut:
        yield {
            "level": "warning",
            "message": {
                "text": f"{cut} results are left out: an upload takes {MAX_RESULTS} and "
                f"{MAX_BYTES // 10**6} MB. The JSON format has all."
            },
        }
    for note in result.notes:
        yield {"level": "note", "message": {"text": note}}
    for file, reason in result.skipped:
        yield {
            "level": "warning",
            "message": {"text": f"not scanned: {reason}"},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(file)}}],
        }


def _artifact(file: str) -> dict[str, Any]:
    # Names of files need not be text: what cannot be UTF-8 is written as its bytes.
    return {"uri": quote(file.encode("utf-8", "surrogateescape")), "uriBaseId": "SRCROOT"}


def _result(
    entry: Entry, rule_index: int, baseline: bool, around: excerpt.Excerpt | None
) -> dict[str, Any]:
    f = entry.finding
    since = f" Since CUDA {f.since}." if f.since else ""
    latent = " It stands behind a condition of the project." if f.state is State.LATENT else ""
    instead = f" Instead: {f.remedy.text}" if f.remedy else ""
    found: dict[str, Any] = {
        "ruleId": f.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[f.severity],
        "message": {"text": f"{f.message}{since}{latent}{instead}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(f.file),
                    "region": {
                        "startLine": f.line,
                        "startColumn": f.column,
                        "snippet": {"text": f.construct},
                    },
                    **({"contextRegion": _context(around)} if around else {}),
                }
            }
        ],
        # The one key that GitHub reads.
        "partialFingerprints": {"primaryLocationLineHash": entry.identity},
        "properties": {
            "name": f.name,
            "severity": f.severity,
            "state": f.state,
            "confidence": f.confidence,
            "proof": f.proof,
            **({"since": f.since} if f.since else {}),
            **({"url": f.url} if f.url else {}),
        },
    }
    if f.suppressed is not None:
        found["suppressions"] = [{"kind": "inSource", "justification": f.suppressed}]
    if baseline:
        found["baselineState"] = "unchanged" if entry.known else "new"
    if f.edits:
        found["fixes"] = [
            {
                "description": {"text": f.remedy.text if f.remedy else "Write the new name."},
                "artifactChanges": [
                    {
                        "artifactLocation": _artifact(f.file),
                        "replacements": [_replacement(edit) for edit in f.edits],
                    }
                ],
            }
        ]
    return found


def _context(around: excerpt.Excerpt) -> dict[str, Any]:
    return {
        "startLine": around.first,
        "endLine": around.first + len(around.lines) - 1,
        "snippet": {"text": "\n".join(around.lines)},
    }


def _replacement(edit: Edit) -> dict[str, Any]:
    return {
        "deletedRegion": {
            "startLine": edit.line,
            "startColumn": edit.column,
            "endLine": edit.line,
            "endColumn": edit.end_column,
        },
        "insertedContent": {"text": edit.text},
    }
