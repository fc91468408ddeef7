"""``python -m fa3_matrix.build``: the audit, called by CMake, and building a cell or the host library."""

import argparse
import sys
from pathlib import Path

from fa3_matrix import matrix
from fa3_matrix.build import audit
from fa3_matrix.build.driver import build_cell, build_host
from fa3_matrix.errors import Fa3Error


def _audit(options: argparse.Namespace) -> None:
    loaded = matrix.load(options.matrix)
    objects = [Path(line) for line in options.objects.read_text().splitlines() if line]
    audit.run(
        loaded,
        loaded.cell(options.cell),
        {path.name.split(".", 1)[0]: path for path in objects},
        output=options.output,
        binary=options.binary,
        nvcc_release=options.nvcc_release,
        package_version=options.package_version or None,
    )


def _cell(options: argparse.Namespace) -> None:
    for name in options.cells:
        print(build_cell(name, jobs=options.jobs).folder)


def _host(options: argparse.Namespace) -> None:
    print(build_host(jobs=options.jobs))


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; 0 on success, 1 with a message on standard error otherwise."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.build", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("audit", help="audit compiled fatbins and write their manifest")
    command.add_argument("cell")
    command.add_argument("--matrix", type=Path, required=True, help="ci/matrix.toml")
    command.add_argument(
        "--objects", type=Path, required=True, help="file with one fatbin path a line"
    )
    command.add_argument("--binary", type=Path, required=True, help="CMake's binary folder")
    command.add_argument("--output", type=Path, required=True, help="the build folder to make")
    command.add_argument("--nvcc-release", required=True, help="such as 12.4.131")
    command.add_argument("--package-version", default="", help="of the wheel being built")
    command.set_defaults(run=_audit)
    command = commands.add_parser("cell", help="build cells or twins")
    command.add_argument("cells", nargs="+", metavar="CELL")
    command.add_argument(
        "--jobs", type=int, help="compilers at once (default: from cores and memory)"
    )
    command.set_defaults(run=_cell)
    command = commands.add_parser("host", help="build the host library")
    command.add_argument(
        "--jobs", type=int, help="compilers at once (default: from cores and memory)"
    )
    command.set_defaults(run=_host)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (Fa3Error, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
