"""Runs trials one after another, each in a process of its own."""

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fa3_matrix import _json
from fa3_matrix.bench.results import Document
from fa3_matrix.errors import BenchError


@dataclass(frozen=True)
class Trials:
    """What a run's trials have in common; see `fa3_matrix.bench.trial.Plan`."""

    base: Path
    heads: Mapping[str, Path]
    suites: Sequence[str]
    stage: str
    mode: str = "cold"
    pairs: int | None = None
    twins: bool = True

    def run(
        self, count: int, seeds: random.Random, *, done: Callable[[int], None] = lambda _: None
    ) -> list[list[Document]]:
        """The documents of `count` trials: a list for each, with one for each head.

        A trial's process starts while the one before still measures, and loads what it needs without touching the
        GPU: importing takes about as long as measuring.

        Args:
            seeds: draws a seed for each trial.
            done: called with the number of trials that are done.

        Raises:
            BenchError: a trial failed; the message ends with what it said.
        """
        trials: list[list[Document]] = []
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fa3-trials-")))
            processes = self._processes(folder, count, seeds, stack)
            waiting = next(processes, None)
            while waiting is not None:
                process, out = waiting
                _signal(process)
                waiting = next(processes, None)
                _, said = process.communicate()
                if process.returncode:
                    raise BenchError(f"trial {len(trials)} of {self.stage} failed:\n{said[-4000:]}")
                trials.append(_json.read(out)["trials"])
                done(len(trials))
        return trials

    def _processes(
        self, folder: Path, count: int, seeds: random.Random, stack: ExitStack
    ) -> "Iterator[tuple[subprocess.Popen[str], Path]]":
        for number in range(count):
            out = folder / f"{number}.json"
            command = [sys.executable, "-m", "fa3_matrix.bench", "trial", "--on-signal"]
            command += ["--base", str(self.base), "--stage", self.stage, "--number", str(number)]
            command += ["--head", *(f"{name}={path}" for name, path in self.heads.items())]
            command += ["--suite", *self.suites, "--mode", self.mode, "--json", str(out)]
            command += ["--seed", str(seeds.randrange(2**31))]
            command += [] if self.pairs is None else ["--pairs", str(self.pairs)]
            command += [] if self.twins else ["--no-twins"]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            # One that was never started ends when its stdin does.
            stack.callback(_end, process)
            yield process, out


def _signal(process: "subprocess.Popen[str]") -> None:
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
