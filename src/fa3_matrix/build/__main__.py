"""``python -m fa3_matrix.build audit``: the audit, called by CMake. To build: ``python -m fa3_matrix.build.all_cells``."""

import argparse
import sys
from pathlib import Path

from fa3_matrix import matrix
from fa3_matrix._extras import needs
from fa3_matrix.errors import Fa3Error

with needs("build", 1):
    from fa3_matrix.build import audit


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


def main(arguments: list[str] | None = None) -> int:
    """Run the audit; 0 on success, 1 with a message on standard error otherwise."""
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
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (Fa3Error, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
