"""``python -m fa3_matrix.bench correctness`` and ``smoke``."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from fa3_matrix._progress import progress
from fa3_matrix.bench import machine, results
from fa3_matrix.bench.fixed_problems import fixed_problems
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems
from fa3_matrix.bench.results import Document, manifest_sha256
from fa3_matrix.bench.session import (
    Session,
    add_arguments,
    header,
    open_session,
    say,
)
from fa3_matrix.bench.suites import suite_problems

if TYPE_CHECKING:
    from fa3_matrix.bench.correctness import Tally

RANDOM_PROBLEMS = 2000
# Enough for both dtypes, all compiled head_dims, every tile height, mask, packing and layout to meet several times.
REDUCED_PROBLEMS = 200
# Of JSON, which has neither NaN nor infinity.
_LARGEST_RATIO = 1e9
_PRINTED_FAILURES = 20
_PRINTED_VARIANTS = 3


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    correctness = commands.add_parser(
        "correctness",
        help="judge builds by random and fixed problems against fp32 references",
        description="Without --suite, --problem or --reduced: --n random problems, then the fixed cases.",
    )
    add_arguments(correctness)
    correctness.add_argument(
        "--n", type=int, default=None, help=f"random problems (default {RANDOM_PROBLEMS})"
    )
    correctness.add_argument(
        "--seed", type=int, default=0, help="of the random problems (default 0)"
    )
    correctness.add_argument("--suite", help="the problems of a suite of ci/matrix.toml instead")
    correctness.add_argument(
        "--problem", action="append", metavar="ID", help="this problem instead"
    )
    correctness.add_argument("--no-fixed", action="store_true", help="leave the fixed cases out")
    correctness.add_argument(
        "--reduced",
        action="store_true",
        help=f"{REDUCED_PROBLEMS} small problems, for compute-sanitizer: references on the CPU, storage that ends "
        "at the last element, outputs not poisoned",
    )
    correctness.set_defaults(run=run_correctness)

    smoke = commands.add_parser(
        "smoke", help="the smoke suite on every build that this GPU can load"
    )
    add_arguments(smoke)
    smoke.set_defaults(
        run=run_correctness,
        suite="smoke",
        n=None,
        seed=0,
        problem=None,
        no_fixed=True,
        reduced=False,
    )


def run_correctness(arguments: argparse.Namespace) -> int:
    """Runs, prints and writes; 0 when every problem of every build passed, or nothing could run here."""
    session = open_session(arguments)
    header(session)
    label, problems = _problems(arguments, session)
    seed = arguments.seed if "random" in label or label == "reduced" else None
    documents = session.not_run("correctness", suite=label, seed=seed)
    if session.builds:
        documents += _run(session, problems, label, seed, arguments.reduced)
    session.write(documents, keep=label not in ("problem", "reduced"))
    return int(any(document["state"] == "failed" for document in documents))


def _problems(arguments: argparse.Namespace, session: Session) -> tuple[str, list[Problem]]:
    if arguments.problem:
        return "problem", [Problem.parse(text) for text in arguments.problem]
    if arguments.suite:
        return arguments.suite, suite_problems(arguments.suite, session.matrix)
    if arguments.reduced:
        count = REDUCED_PROBLEMS if arguments.n is None else arguments.n
        return "reduced", random_problems(arguments.seed, count, reduced=True)
    count = RANDOM_PROBLEMS if arguments.n is None else arguments.n
    fixed = [] if arguments.no_fixed else list(fixed_problems().values())
    label = "+".join((["random"] if count else []) + (["fixed"] if fixed else []))
    return label, random_problems(arguments.seed, count) + fixed


def _run(
    session: Session, problems: list[Problem], label: str, seed: int | None, reduced: bool
) -> list[Document]:
    from fa3_matrix.bench.builds import BuildArm
    from fa3_matrix.bench.correctness import run
    from fa3_matrix.bench.inputs import GUARD

    arms = {name: BuildArm.open(folder) for name, folder in session.builds.items()}
    with progress(f"{label} problems on {', '.join(arms)}") as bar:
        tallies = run(
            problems,
            {name: arm.kernel() for name, arm in arms.items()},
            "cuda",
            guard=0 if reduced else GUARD,
            reference_device="cpu" if reduced else None,
            poison=not reduced,
            variant_of=lambda name, problem: arms[name].variant(problem).name,
            progress=lambda done: bar.update(done, len(problems)),
        )
    documents = []
    for name, tally in tallies.items():
        tally.variants.update({v.name: 0 for v in arms[name].manifest.variants if not v.candidate})
        _print(name, arms[name].folder, tally)
        documents.append(_document(session, name, arms[name].folder, tally, label, seed))
    return documents


def command_for(folder: Path, problem: Problem) -> str:
    """One line that runs this problem on this build again."""
    return f"python -m fa3_matrix.bench correctness --build {folder} --problem {problem.id}"


def _print(name: str, folder: Path, tally: "Tally") -> None:
    worst = ", ".join(
        f"{ratio} {value:.3f} ({problem})" for ratio, (value, problem) in tally.worst.items()
    )
    unused = [variant for variant, count in tally.variants.items() if not count]
    say(
        f"{name}: {tally.passed} of {tally.run} passed, {len(tally.failures)} failed, {tally.not_run} not run "
        f"({tally.seconds:.1f} s in calls and checks)"
    )
    say(f"  worst: {worst or 'nothing was compared'}")
    if unused:
        few = ", ".join(unused[:_PRINTED_VARIANTS]) + (
            ", ..." if len(unused) > _PRINTED_VARIANTS else ""
        )
        say(f"  {len(unused)} of {len(tally.variants)} variants were not used: {few}")
    for failure in tally.failures[:_PRINTED_FAILURES]:
        say(f"  FAILED {failure.problem.id}: {failure.reason}")
        say(f"    {command_for(folder, failure.problem)}")
    if len(tally.failures) > _PRINTED_FAILURES:
        say(f"  ... and {len(tally.failures) - _PRINTED_FAILURES} more, all in the results file")


def _document(
    session: Session, name: str, folder: Path, tally: "Tally", label: str, seed: int | None
) -> Document:
    ok = tally.passed == tally.requested
    reason = "" if ok else f"{len(tally.failures)} of {tally.run} problems failed"
    if tally.not_run:
        reason += f", {tally.not_run} were not run after the GPU refused further work"
    worst: dict[str, float | str] = {}
    for ratio, (value, problem) in tally.worst.items():
        prefix = ratio.removesuffix("ratio")
        worst[ratio] = value if math.isfinite(value) else _LARGEST_RATIO
        worst[f"{prefix}problem"] = problem
    return results.document(
        "correctness",
        name,
        state="passed" if ok else "failed",
        reason=reason,
        watch=session.watch,
        machine=machine.describe(),
        manifest_sha256=manifest_sha256(folder),
        suite=label,
        seed=seed,
        counts={
            "requested": tally.requested,
            "run": tally.run,
            "passed": tally.passed,
            "failed": len(tally.failures),
            "not_run": tally.not_run,
        },
        worst=worst,
        variants=dict(sorted(tally.variants.items())),
        failures=[
            {
                "problem": failure.problem.id,
                "reason": failure.reason,
                "command": command_for(folder, failure.problem),
            }
            for failure in tally.failures
        ],
    )
