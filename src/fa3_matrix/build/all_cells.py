"""`python -m fa3_matrix.build.all_cells [CELL ...]`: build cells, go on after a failure, compare what can be.

Without names: all cells, all twins and the host library. A cell that fails leaves
`build/results/build-<cell>.json`, which the report shows; the next build that succeeds removes it.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fa3_matrix import _json, matrix
from fa3_matrix._extras import needs
from fa3_matrix.build.compare import compare
from fa3_matrix.build.driver import Build, build_cell, build_host
from fa3_matrix.build.manifest import FILE_NAME
from fa3_matrix.errors import Fa3Error
from fa3_matrix.matrix import Matrix

_ERROR = re.compile(r"\berror\b|\bfatal\b", re.IGNORECASE)


def run(names: Sequence[str] = (), *, jobs: int | None = None) -> list[str]:
    """Builds the cells and twins called `names` (none: all, and the host library) and compares archs.

    Returns the names of what failed, in order; each was explained on stderr.
    Raises MatrixError when a name is unknown, before anything is built.
    """
    loaded = matrix.load()
    chosen = [loaded.cell(name).name for name in names]
    failed = []
    for name in chosen or [cell.name for cell in loaded.buildable]:
        if not _build(loaded.root / "build", name, jobs):
            failed.append(name)
    if not chosen:
        try:
            print(f"host library: {build_host(jobs=jobs)}")
        except Fa3Error as error:
            print(f"host library: {error}", file=sys.stderr)
            failed.append("host")
    compare_archs(loaded)
    return failed


def compare_archs(loaded: Matrix) -> list[Path]:
    """Writes `build/compare/<arch>.json` for every arch whose builds by two toolkits exist; returns the paths."""
    root = loaded.root / "build"
    written = []
    for arch in loaded.archs:
        folders = [root / "cells" / cell.name / "fa3" for cell in loaded.cells if cell.arch == arch]
        builds = [Build.load(folder) for folder in folders if (folder / FILE_NAME).is_file()]
        if len(builds) == 2:
            written.append(compare(*builds).write(root / "compare" / f"{arch.name}.json"))
    return written


def _build(root: Path, name: str, jobs: int | None) -> bool:
    record = root / "results" / f"build-{name}.json"
    started = time.monotonic()
    try:
        build = build_cell(name, jobs=jobs)
    except Fa3Error as error:
        print(f"{name}: {error}", file=sys.stderr)
        failure = {
            "kind": "build",
            "cell": name,
            "state": "failed",
            "reason": _sentence(str(error)),
            "output": str(error),
        }
        _json.write_atomic(record, failure)
        return False
    record.unlink(missing_ok=True)
    seconds = time.monotonic() - started
    print(f"{name}: {len(build.manifest.variants)} variants, {seconds:.1f} s, {build.folder}")
    return True


def _sentence(output: str) -> str:
    """The line of a failed build's output that says what is wrong: the first one with an error, else the first."""
    lines = output.splitlines() or ["no output"]
    return next((line.strip() for line in lines[1:] if _ERROR.search(line)), lines[0])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fa3_matrix.build.all_cells", description=__doc__
    )
    parser.add_argument("cells", nargs="*", metavar="CELL", help="cells or twins; none: everything")
    parser.add_argument(
        "--only-compare", action="store_true", help="build nothing, compare what is there"
    )
    parser.add_argument("--jobs", type=int, help="compilers at once (default: cores and memory)")
    options = parser.parse_args(arguments)
    try:
        if options.only_compare:
            compare_archs(matrix.load())
            return 0
        with needs("build", 1):
            failed = run(options.cells, jobs=options.jobs)
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
