"""`python -m fa3_matrix.report [--build build]`: write the report, print its table and its path."""

import argparse
import sys
import textwrap
from pathlib import Path

from fa3_matrix import report
from fa3_matrix.errors import Fa3Error
from fa3_matrix.report import model, render
from fa3_matrix.report.inputs import Json

# Of a terminal's row; the pages have all of it.
_WHY_COLUMNS = 100


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 when a stage of any cell has failed, else 0: what was not run is not a failure."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.report", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="default: build")
    options = parser.parse_args(arguments)
    try:
        data = report.write(options.build)
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(summary(data))
    print(f"\nreport: {(options.build / 'report' / 'index.html').resolve()}")
    return 1 if data["failures"] else 0


def summary(data: Json) -> str:
    """The report as a terminal table: a row a cell, then the headline and the build figures."""
    shown = model.STAGES[2:]
    rows = [
        [
            name,
            entry["target"],
            entry["state"],
            render.seconds(entry["seconds"]),
            *(entry["stages"][stage]["state"] for stage in shown),
            textwrap.shorten(entry["reason"], _WHY_COLUMNS, placeholder=" ..."),
        ]
        for name, entry in (data["cells"] | data["twins"]).items()
    ]
    figures = data["figures"]
    return "\n".join(
        [
            render.table(
                ["cell", "target", "state", "build", *shown, "why"],
                rows,
            ),
            "",
            data["headline"],
            *_gate(data["gate"]),
            f"{figures['cells_measured']} cells from nothing: {render.seconds(figures['build_seconds'])} "
            f"(budget {render.seconds(figures['build_budget_seconds'])}); largest compiler process: "
            f"{render.size(figures['peak_compiler_bytes'])} "
            f"(budget {render.size(figures['compiler_budget_bytes'])})",
        ]
    )


def _gate(gate: Json | None) -> list[str]:
    if gate is None:
        return []
    stale = f" (stale: {gate['stale']})" if gate["stale"] else ""
    return [f"gate: {gate['outcome']}{stale}, {gate['meaning']}; {gate['summary']}"]


if __name__ == "__main__":
    sys.exit(main())
