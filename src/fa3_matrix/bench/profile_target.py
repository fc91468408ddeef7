"""What runs under the profiler: one build's calls, each once to warm up and once between profiler start and stop."""

import argparse
import sys
from pathlib import Path

import torch

from fa3_matrix.bench.builds import BuildArm, call_interface
from fa3_matrix.bench.inputs import make_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.errors import Fa3Error


def main() -> int:
    """Call them in the order given; 2: the build refused one, stderr says why."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.bench.profile_target")
    parser.add_argument("build", type=Path)
    parser.add_argument("problems", nargs="+", type=Problem.parse, metavar="PROBLEM")
    arguments = parser.parse_args()
    try:
        BuildArm.open(arguments.build).use()
        with torch.no_grad():
            for problem in arguments.problems:
                _call(problem)
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _call(problem: Problem) -> None:
    # Rows that don't count hold 0, as where it is timed.
    inputs = make_inputs(problem, "cuda", guard=0, unused=0)
    # The first call loads the kernel and allocates. New rows go to the same places of a cache in both.
    call_interface(problem, inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call_interface(problem, inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    sys.exit(main())
