"""The migration's part of the report: a few lines on the first page, and `migration.html`, which has everything.

Read from `results/migrate.json` (a scan of this tree), `results/behaviour.json` (the probes) and the difference of the
toolkits that ships with the package. The first two may be missing.
"""

from fa3_matrix.matrix import Matrix
from fa3_matrix.migrate.formats import html
from fa3_matrix.migrate.store import load_difference
from fa3_matrix.report.inputs import Inputs, Json

PAGE = "migration.html"
_NOT_SCANNED = "`nox -s migrate` scans this tree for what breaks from one toolkit to the other"
_NOT_PROBED = "`nox -s migrate-probes` asks a GPU how both toolkits' runtimes behave"


def assemble(inputs: Inputs) -> Json | None:
    """What the first page says of the scan, or `None` where there was none: its document without the findings.

    Besides: `state` ("pass" or "fail"), `summary` (a sentence), `page` (the name of the file with everything).
    """
    scan = inputs.migrate
    if scan is None:
        return None
    return {key: value for key, value in scan.items() if key not in ("findings", "skipped")} | {
        "state": "fail" if scan["failing"] else "pass",
        "summary": _summary(scan),
        "page": PAGE,
    }


def not_run(inputs: Inputs) -> list[Json]:
    """A line for each of the two that is missing."""
    missing = [
        ("migration scan", inputs.migrate, _NOT_SCANNED),
        ("behaviour probes", inputs.behaviour, _NOT_PROBED),
    ]
    return [
        {"stage": stage, "reason": reason, "cells": []}
        for stage, document, reason in missing
        if document is None
    ]


def page(matrix: Matrix, inputs: Inputs) -> str:
    """The page of the scan, the probes and the difference; of the matrix's toolkits where there is no scan.

    Raises ToolkitError when nothing is known of the toolkits that the scan was of.
    """
    scan = inputs.migrate
    old, new = (
        (scan["old"]["cuda"], scan["new"]["cuda"])
        if scan
        else (matrix.toolkits[0].version, matrix.toolkits[-1].version)
    )
    remarks = [f"Not run: {entry['reason']}." for entry in not_run(inputs)]
    return html.page(scan, load_difference(old, new), inputs.behaviour, remarks)


def _summary(scan: Json) -> str:
    """`nothing that fails; 1 info (1 active); 1,044 files, 426,207 lines read`."""
    verdict = f"{scan['failing']} to be dealt with" if scan["failing"] else "nothing that fails"
    found = [
        f"{sum(row.values())} {severity} ({', '.join(f'{n} {name}' for name, n in row.items() if n)})"
        for severity, row in scan["counts"].items()
        if any(row.values())
    ]
    read = f"{scan['files']:,} files, {scan['lines']:,} lines read"
    return "; ".join([verdict, *(found or ["no findings"]), read])
