"""``build OUT`` compiles the probes with both toolkits; ``run OUT`` runs them here; ``table FILE`` prints the outcome.

Exit codes: 0 (also where there is no GPU: that is a result); 1 a probe crashed, took too long or said nothing;
2 it could not be done.
"""

import argparse
import sys
from pathlib import Path

from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.command import Options
from fa3_matrix.migrate.probes import Observations, Status, read, run, write
from fa3_matrix.migrate.probes.markdown import table

_FAILED = 1
_NOT_DONE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fa3_matrix.migrate.probes", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="compile the probes with both toolkits")
    make.add_argument("out", type=Path, help="folder to fill")
    make.add_argument("--from", dest="old", default=Options.old, metavar="VERSION")
    make.add_argument("--to", dest="new", default=Options.new, metavar="VERSION")
    ask = commands.add_parser("run", help="run the probes of a folder on this machine")
    ask.add_argument("out", type=Path, help="folder that `build` filled")
    ask.add_argument("--output", type=Path, metavar="FILE", help="default: OUT/behaviour.json")
    show = commands.add_parser("table", help="print what was observed, as Markdown")
    show.add_argument("file", type=Path, help="what `run` wrote")
    options = parser.parse_args(arguments)
    try:
        if options.command == "build":
            from fa3_matrix.migrate.probes.build import build

            build(options.out, (options.old, options.new), say=_say)
        elif options.command == "run":
            observations = run(options.out, say=_say)
            write(options.output or options.out / "behaviour.json", observations)
            print(table(observations), end="")
            return _FAILED if _failed(observations) else 0
        else:
            print(table(read(options.file)), end="")
    except (Fa3Error, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _NOT_DONE
    return 0


def _failed(observations: Observations) -> bool:
    runs = (run for probed in observations.probes for run in probed.runs)
    return any(run.status is Status.FAILED for run in runs)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
