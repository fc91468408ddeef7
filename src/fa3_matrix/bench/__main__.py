"""``python -m fa3_matrix.bench``: correctness, times and hardware counters of builds, on this machine's GPU."""

import argparse

from fa3_matrix.bench import (
    correctness_command,
    profile_command,
    run_command,
    session,
)


def main() -> int:
    """Exit code 0: passed, or skipped with a sentence; 1: a problem failed; 2: the command could not do its work."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.bench", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (correctness_command, profile_command, run_command):
        command.add_parsers(commands)
    arguments = parser.parse_args()
    return session.main(arguments.run, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
