"""`python -m fa3_matrix.toolkits`: what CMake and nox ask; needs no command-line library."""

import argparse
import sys
from pathlib import Path

from fa3_matrix import _json
from fa3_matrix.errors import Fa3Error

from . import find, host_compiler, report, text, torch_headers


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.toolkits", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cmake = commands.add_parser("cmake", help="print CMake variables of a toolkit")
    cmake.add_argument("version", help="such as 13.3")
    commands.add_parser("torch-headers", help="print the folder of torch's stable-ABI headers")
    show = commands.add_parser("report", help="provision and probe every toolkit")
    show.add_argument("--verify", action="store_true", help="recheck every provisioned file")
    show.add_argument("--json", type=Path, metavar="FILE", help="write the result to FILE as well")
    options = parser.parse_args(arguments)
    try:
        if options.command == "cmake":
            print(cmake_variables(options.version))
        elif options.command == "torch-headers":
            print(torch_headers())
        else:
            states = report(provision=True, verify=options.verify)
            print(text(states))
            if options.json is not None:
                _json.write_atomic(
                    options.json, {"toolkits": {s.version: s.as_dict() for s in states}}
                )
            return 1 if any(state.problem for state in states) else 0
    except (Fa3Error, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def cmake_variables(version: str) -> str:
    """CMake code that sets what a cell's configure needs to know of its toolkit."""
    toolkit = find(version)
    variables = {
        "FA3_NVCC": toolkit.nvcc,
        "FA3_PTXAS": toolkit.ptxas,
        "FA3_CUDA_ROOT": toolkit.root,
        "FA3_CUDA_INCLUDE": toolkit.include,
        "FA3_CUDA_VERSION": toolkit.probe().release,
        "FA3_CUDA_HOST_COMPILER": host_compiler(toolkit),
    }
    # Bracket arguments: no character of a path means anything to CMake in them.
    return "\n".join(f"set({name} [==[{value}]==])" for name, value in variables.items())


if __name__ == "__main__":
    sys.exit(main())
