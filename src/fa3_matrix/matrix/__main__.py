"""``python -m fa3_matrix.matrix cmake <cell>``: the cell as CMake variables, on standard output.

Standard library only, for it also runs in pip's isolated build environment.
"""

import argparse
import sys

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix.cmake import snippet
from fa3_matrix.matrix.reader import load


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 on success, 1 with a message on standard error otherwise."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.matrix", description=__doc__)
    commands = parser.add_subparsers(required=True)
    cmake = commands.add_parser("cmake", help="print a cell as CMake set() commands")
    cmake.add_argument("cell", help="name of a cell or twin, such as sm90-cu133")
    options = parser.parse_args(arguments)
    try:
        matrix = load()
        sys.stdout.write(snippet(matrix, matrix.cell(options.cell)))
    except MatrixError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
