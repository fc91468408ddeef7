"""Runs trials one after another, each in a process of its own."""

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from fa3_matrix import _json
from fa3_matrix.bench.results import Document
from fa3_matrix.bench.trial_plan import Plan
from fa3_matrix.errors import BenchError

# Of what a failed trial said.
_MOST_CHARACTERS = 4000


def run_trials(
    plan: Plan, count: int, seeds: random.Random, *, done: Callable[[int], None] = lambda _: None
) -> list[list[Document]]:
    """The documents of `count` trials of `plan`: for each trial a list with one for each head.

    A trial's process starts while the one before still measures, and loads what it needs without touching the GPU:
    importing takes about as long as measuring.

    Args:
        seeds: draws a seed for each trial.
        done: called with the number of trials that are done.

    Raises:
        BenchError: a trial failed; the message ends with what it said.
    """
    trials: list[list[Document]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fa3-trials-")))
        processes = _processes(plan, folder, count, seeds, stack)
        waiting = next(processes, None)
        while waiting is not None:
            process, out = waiting
            _start(process)
            waiting = next(processes, None)
            _, said = process.communicate()
            if process.returncode:
                raise BenchError(
                    f"trial {len(trials)} of {plan.stage} failed:\n{said[-_MOST_CHARACTERS:]}"
                )
            trials.append(_json.read(out)["trials"])
            done(len(trials))
    return trials


def _processes(
    plan: Plan, folder: Path, count: int, seeds: random.Random, stack: ExitStack
) -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    for number in range(count):
        asked, out = folder / f"plan-{number}.json", folder / f"trial-{number}.json"
        _json.write_atomic(asked, plan.trial(number, seeds.randrange(2**31)).as_json())
        process = subprocess.Popen(
            [sys.executable, "-m", "fa3_matrix.bench.trial", str(asked), str(out), "--on-signal"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(_end, process)
        yield process, out


def _start(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        return  # it has failed already: its exit code and words follow


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()
