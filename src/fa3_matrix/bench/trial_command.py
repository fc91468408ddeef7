"""``python -m fa3_matrix.bench trial``: times builds against a base, pair by pair, in this process."""

import argparse
import sys
from pathlib import Path

from fa3_matrix import _json
from fa3_matrix._progress import progress
from fa3_matrix.bench import machine
from fa3_matrix.bench.session import say
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.errors import BenchError
from fa3_matrix.matrix import load


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("trial", help="one trial of builds against a base, in pairs")
    parser.add_argument("--base", type=Path, required=True, metavar="DIR", help="build folder")
    parser.add_argument(
        "--head", nargs="+", required=True, metavar="NAME=DIR", help="builds held against it"
    )
    parser.add_argument("--suite", nargs="+", default=["gate"], help="of ci/matrix.toml")
    parser.add_argument("--mode", choices=("cold", "hot"), default="cold", help="of the L2 cache")
    parser.add_argument("--stage", choices=("screen", "confirm", "calibrate"), default="screen")
    parser.add_argument("--number", type=int, default=0, help="of the trial in its stage")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--pairs", type=int, help="of each cell; default: as ci/matrix.toml says")
    parser.add_argument("--no-twins", dest="twins", action="store_false", help="no control cells")
    parser.add_argument(
        "--on-signal",
        action="store_true",
        help="begin when a line arrives on stdin; load until then",
    )
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the documents")
    parser.set_defaults(run=run_trial)


def run_trial(arguments: argparse.Namespace) -> int:
    """Times and writes; raises BenchError where there is no GPU."""
    from fa3_matrix.bench import trial  # needs torch, whose import takes seconds

    matrix = load()
    heads = dict(_named(text) for text in arguments.head)
    plan = trial.Plan(
        base=arguments.base,
        heads=heads,
        problems=[(s, p) for s in arguments.suite for p in suite_problems(s, matrix)],
        stage=arguments.stage,
        number=arguments.number,
        seed=arguments.seed,
        pairs=arguments.pairs or matrix.gate.pairs,
        mode=arguments.mode,
        twins=arguments.twins,
    )
    if arguments.on_signal and not sys.stdin.readline():
        raise BenchError("stdin ended before the line that starts the trial")
    reason = machine.why_no_gpu()
    if reason:
        raise BenchError(f"a trial needs a GPU: {reason}")
    with progress(f"{arguments.stage} trial {arguments.number}", unit="cells") as shown:
        total = len(plan.problems)
        documents = trial.run(plan, progress=lambda done: shown.update(done, total))
    _json.write_atomic(arguments.json, {"trials": documents})
    say(f"{arguments.stage} trial {arguments.number}: {documents[0]['seconds']} s")
    return 0


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise BenchError(f"--head {text}: give NAME=DIR, such as head=build/cells/sm90-cu133")
    return name, Path(folder)
