"""One trial: a fresh process that times heads against a base, pair by pair.

A process has offsets of its own (where its memory lies, in which order it loaded what), so that the trial, not the
pair, is the sample that `fa3_matrix.gate` tests. Each trial therefore draws anew what can be drawn: the order in which
builds are loaded and cells are timed, and where the buffers lie.

The document, one for each head::

    schema 1, kind "trial", stage "screen" | "confirm" | "calibrate", number, seed, started, seconds
    arms        {"base": {"name", "cell", "manifest_sha256"}, "head": {...}}
    gpu         {"name", "uuid", "driver", "torch"}
    load_order  names of the builds
    cells       [{"suite", "problem", "label", "variant": {"base", "head"}, "control", "mode", "calls", "failed",
                  "pairs"}]

    control  "twin": both arms are the base, loaded twice; "same-sass": the arms' variants are the same code; null
    mode     "cold": calls rotate among inputs that L2 does not hold; "hot": one set of inputs
    failed   why there are no pairs: a build refused the problem, or its output was wrong; null
    pairs    columns, an entry a pair in the order taken: "first" (the arm that was timed first), "base_ns", "head_ns"
             (device time of a call), "base_mhz", "head_mhz" (SM clock just after), "watts", "celsius", "dropped" (why
             the pair does not count, or null)
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree

import torch

from fa3_matrix import _json
from fa3_matrix._progress import progress
from fa3_matrix.bench import machine
from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.measure import Contender, check, rotating_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document, Stopwatch, arm_identity
from fa3_matrix.bench.sensors import Sensors
from fa3_matrix.bench.timing import Arm, Clock, CudaClock, Work
from fa3_matrix.bench.trial_plan import Plan, PlannedCell
from fa3_matrix.errors import BenchError, Fa3Error

# The clock's grid of 0.5 us is then 0.05% of a sample.
_SAMPLE_SECONDS = 1e-3
# The reference of a whole 16k-token problem would take longer than its pairs.
_CHECKED_SCORES = 2**26
_MOST_PLACEMENT_BYTES = 2**28

_TWIN = "twin of the base"


@contextmanager
def _arms(plan: Plan) -> Iterator[dict[str, BuildArm]]:
    """The base, the heads, and a twin if one is planned. No two are of one folder: each is a module of its own."""
    with tempfile.TemporaryDirectory(prefix="fa3-copies-") as copies:
        base = BuildArm.open(plan.base)
        arms = {plan.base_name: base}
        opened = {name: BuildArm.open(path) for name, path in plan.heads.items()}
        if any(cell.control == "twin" for cell in plan.cells):
            opened[_TWIN] = base
        for number, (name, arm) in enumerate(opened.items()):
            if arm.folder in [other.folder for other in arms.values()]:
                arm = BuildArm.open(Path(copytree(arm.folder, Path(copies, str(number)))))
            arms[name] = arm
        yield arms


@dataclass
class _Pairs:
    """Columns of a document."""

    first: list[str] = field(default_factory=list)
    base_ns: list[float] = field(default_factory=list)
    head_ns: list[float] = field(default_factory=list)
    base_mhz: list[int | None] = field(default_factory=list)
    head_mhz: list[int | None] = field(default_factory=list)
    watts: list[float | None] = field(default_factory=list)
    celsius: list[int | None] = field(default_factory=list)
    dropped: list[str | None] = field(default_factory=list)


class Trial:
    """What a plan asks for, on the current GPU.

    Args:
        device, clock: as `fa3_matrix.bench.measure.measure` has them.
    """

    def __init__(self, plan: Plan, device: str = "cuda", clock: Clock | None = None) -> None:
        self._plan = plan
        self._device = device
        self._clock = clock or CudaClock()
        self._order = random.Random(plan.seed)
        self._arms: dict[str, BuildArm] = {}
        self._sensors = Sensors("")

    def run(self, report: Callable[[int, int], None] = lambda _, __: None) -> list[Document]:
        """Times everything; one document for each head.

        Args:
            report: called with the number of problems done, and of all.

        Raises:
            BenchError: a build serves none of a problem's class.
        """
        watch, plan, order = Stopwatch(), self._plan, self._order
        wanted: dict[tuple[str, str], list[PlannedCell]] = {}
        for planned in plan.cells:
            wanted.setdefault((planned.suite, planned.problem), []).append(planned)
        cells: dict[str, list[Document]] = {name: [] for name in plan.heads}
        with _arms(plan) as self._arms, torch.no_grad():
            load_order = order.sample(list(self._arms), len(self._arms))
            for name in load_order:
                self.contender(name).use()
            placement = torch.empty(
                order.randrange(_MOST_PLACEMENT_BYTES), dtype=torch.uint8, device=self._device
            )
            here = machine.describe()
            self._sensors = Sensors(here.get("uuid", ""))
            for done, key in enumerate(order.sample(list(wanted), len(wanted))):
                for name, timed in self._time(wanted[key]):
                    cells[name].append(timed)
                report(done + 1, len(wanted))
            del placement
            identities = {
                name: arm_identity(name, arm.name, arm.folder) for name, arm in self._arms.items()
            }
        return [
            {
                "schema": 1,
                "kind": "trial",
                "stage": plan.stage,
                "number": plan.number,
                "seed": plan.seed,
                "started": watch.started,
                "seconds": watch.seconds(),
                "arms": {"base": identities[plan.base_name], "head": identities[name]},
                "gpu": {
                    "name": here["gpu"],
                    "uuid": here.get("uuid"),
                    "driver": here.get("driver"),
                    "torch": here.get("torch"),
                },
                "load_order": load_order,
                "cells": cells[name],
            }
            for name in plan.heads
        ]

    def contender(self, name: str) -> Contender:
        """An arm, under its name in this trial."""
        arm = self._arms[name]
        return Contender(name, Contender.of_build(arm).prepare, arm.use)

    def _time(self, planned: list[PlannedCell]) -> Iterator[tuple[str, Document]]:
        """Cells of one problem, with the head that each is of; a twin's is of all of them."""
        problem = Problem.parse(planned[0].problem)
        base, heads = self._plan.base_name, list(self._plan.heads)
        opponents = {
            name: cell
            for cell in planned
            for name in ([_TWIN] if cell.control == "twin" else heads)
        }
        faults, calls, pairs = self._measure(problem, base, list(opponents))
        for name, cell in opponents.items():
            document = {
                "suite": cell.suite,
                "problem": cell.problem,
                "label": problem.label,
                "variant": {
                    "base": self._variant(base, problem),
                    "head": self._variant(name, problem),
                },
                "control": cell.control,
                "mode": self._plan.mode,
                "calls": calls,
                "failed": next(
                    (f"{arm}: {faults[arm]}" for arm in (base, name) if arm in faults), None
                ),
                "pairs": vars(pairs.get(name, _Pairs())),
            }
            for head in heads if name == _TWIN else [name]:
                yield head, document

    def _measure(
        self, problem: Problem, base: str, opponents: list[str]
    ) -> tuple[dict[str, str], int, dict[str, _Pairs]]:
        """What is wrong with arms' outputs, calls a sample, and the pairs of each opponent without a fault."""
        names = self._order.sample([base, *opponents], len(opponents) + 1)
        contenders = [self.contender(name) for name in names]
        inputs = rotating_inputs(problem, self._device)
        if self._plan.mode == "hot":
            del inputs[1:]
        faults = check(problem, contenders, inputs[0], most=_CHECKED_SCORES)
        arms = {c.name: c.timed(problem, inputs) for c in contenders if c.name not in faults}
        pairs = {name: _Pairs() for name in opponents if name in arms}
        if base not in arms or not pairs:
            return faults, 0, {}
        work = Work.of(list(arms.values()), self._clock, _SAMPLE_SECONDS)
        for _ in range(self._plan.pairs):
            for name in self._order.sample(list(pairs), len(pairs)):
                self._pair(work, arms[base], arms[name], pairs[name])
        return faults, work.calls, pairs

    def _pair(self, work: Work, base: Arm, head: Arm, pairs: _Pairs) -> None:
        nanoseconds: dict[str, float] = {}
        mhz: dict[str, int | None] = {}
        arms = self._order.sample([("base", base), ("head", head)], 2)
        for side, arm in arms:
            marks = work.sample(arm, self._clock)
            self._clock.wait()
            mhz[side] = self._sensors.sm_mhz()
            nanoseconds[side] = self._clock.seconds(*marks) / work.calls * 1e9
        pairs.first.append(arms[0][0])
        pairs.base_ns.append(round(nanoseconds["base"], 2))
        pairs.head_ns.append(round(nanoseconds["head"], 2))
        pairs.base_mhz.append(mhz["base"])
        pairs.head_mhz.append(mhz["head"])
        pairs.watts.append(self._sensors.watts())
        pairs.celsius.append(self._sensors.celsius())
        pairs.dropped.append(self._sensors.disturbance())

    def _variant(self, name: str, problem: Problem) -> str:
        return self._arms[name].variant(problem).name


def main() -> int:
    """Time the plan in one file and write the documents to another; 2: it could not be done, stderr says why."""
    parser = argparse.ArgumentParser(prog="python -m fa3_matrix.bench.trial")
    parser.add_argument("plan", type=Path, help="see fa3_matrix.bench.trial_plan")
    parser.add_argument("out", type=Path, help='{"trials": [a document for each head]}')
    parser.add_argument(
        "--on-signal",
        action="store_true",
        help="begin when a line arrives on stdin; load until then",
    )
    arguments = parser.parse_args()
    try:
        plan = Plan.read(arguments.plan)
        if arguments.on_signal and not sys.stdin.readline():
            raise BenchError("stdin ended before the line that starts the trial")
        reason = machine.why_no_gpu()
        if reason:
            raise BenchError(f"a trial needs a GPU: {reason}")
        with progress(f"{plan.stage} trial {plan.number}", unit="problems") as shown:
            _json.write_atomic(arguments.out, {"trials": Trial(plan).run(shown.update)})
    except Fa3Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
