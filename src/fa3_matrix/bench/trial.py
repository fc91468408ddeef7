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

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree

import torch

from fa3_matrix.bench import machine
from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.measure import Contender, check, rotating_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.results import Document, Stopwatch
from fa3_matrix.bench.sensors import Sensors
from fa3_matrix.bench.session import manifest_sha256
from fa3_matrix.bench.timing import Arm, Clock, CudaClock, Work
from fa3_matrix.build import VariantRecord

# The clock's grid of 0.5 us is then 0.05% of a sample.
_SAMPLE_SECONDS = 1e-3
# The reference of a whole 16k-token problem would take longer than its pairs.
_CHECKED_SCORES = 2**26
# Every so many cells have a twin, the first one among them.
_TWIN_EVERY = 10
_MOST_PLACEMENT_BYTES = 2**28

BASE = "base"
TWIN = "twin"


@dataclass(frozen=True)
class Plan:
    """What a trial is of.

    Args:
        heads: build folders by the names that their documents get.
        problems: with the suite that each is of.
        pairs: of each cell.
        twins: time a copy of the base against the base on some cells, as a control.
    """

    base: Path
    heads: Mapping[str, Path]
    problems: Sequence[tuple[str, Problem]]
    stage: str
    number: int
    seed: int
    pairs: int
    mode: str = "cold"
    twins: bool = True


def run(plan: Plan, *, progress: Callable[[int], None] = lambda _: None) -> list[Document]:
    """Times everything in `plan` on the current GPU; one document for each head.

    Raises BenchError when a build serves none of a problem's class.
    """
    watch = Stopwatch()
    order = random.Random(plan.seed)
    with _arms(plan) as arms:
        load_order = order.sample(list(arms), len(arms))
        for name in load_order:
            arms[name].use()
        placement = torch.empty(
            order.randrange(_MOST_PLACEMENT_BYTES), dtype=torch.uint8, device="cuda"
        )
        here = machine.describe()
        sensors = Sensors(here["uuid"])
        trial = _Trial(plan, arms, order, CudaClock(), sensors)
        cells: dict[str, list[Document]] = {name: [] for name in plan.heads}
        numbered = list(enumerate(plan.problems))
        for done, (index, (suite, problem)) in enumerate(order.sample(numbered, len(numbered))):
            twin = plan.twins and index % _TWIN_EVERY == 0
            for name, timed in trial.cell(suite, problem, twin=twin).items():
                for head in plan.heads if name == TWIN else [name]:
                    cells[head].append(timed)
            progress(done + 1)
        del placement
    gpu = {
        "name": here["gpu"],
        "uuid": here["uuid"],
        "driver": here["driver"],
        "torch": here["torch"],
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
            "arms": {
                "base": _identity(BASE, arms[BASE]),
                "head": _identity(name, arms[name]),
            },
            "gpu": gpu,
            "load_order": load_order,
            "cells": cells[name],
        }
        for name in plan.heads
    ]


@contextmanager
def _arms(plan: Plan) -> Iterator[dict[str, BuildArm]]:
    """The base, the heads, and a copy of the base, which the driver loads as another module."""
    with tempfile.TemporaryDirectory(prefix="fa3-twin-") as folder:
        arms = {BASE: BuildArm.open(plan.base)}
        arms |= {name: BuildArm.open(path) for name, path in plan.heads.items()}
        if plan.twins:
            arms[TWIN] = BuildArm.open(Path(copytree(arms[BASE].folder, Path(folder, "fa3"))))
        yield arms


def _identity(name: str, arm: BuildArm) -> Document:
    return {"name": name, "cell": arm.name, "manifest_sha256": manifest_sha256(arm.folder)}


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


class _Trial:
    def __init__(
        self,
        plan: Plan,
        arms: Mapping[str, BuildArm],
        order: random.Random,
        clock: Clock,
        sensors: Sensors,
    ) -> None:
        self._plan = plan
        self._arms = arms
        self._order = order
        self._clock = clock
        self._sensors = sensors

    def cell(self, suite: str, problem: Problem, *, twin: bool) -> dict[str, Document]:
        """A cell for each head, and for the twin if asked."""
        names = [BASE, *self._plan.heads, *([TWIN] if twin else [])]
        contenders = [
            Contender(name, Contender.of_build(self._arms[name]).prepare, self._arms[name].use)
            for name in self._order.sample(names, len(names))
        ]
        with torch.no_grad():
            inputs = rotating_inputs(problem, "cuda")
            if self._plan.mode == "hot":
                del inputs[1:]
            faults = check(problem, contenders, inputs[0], most=_CHECKED_SCORES)
            arms = {c.name: c.timed(problem, inputs) for c in contenders if c.name not in faults}
            against = [name for name in names if name != BASE and name in arms]
            work, pairs = None, {name: _Pairs() for name in against}
            if BASE in arms and against:
                work = Work.of(list(arms.values()), self._clock, _SAMPLE_SECONDS)
                for _ in range(self._plan.pairs):
                    for name in self._order.sample(against, len(against)):
                        self._pair(work, arms[BASE], arms[name], pairs[name])
        return {
            name: {
                "suite": suite,
                "problem": problem.id,
                "label": problem.label,
                "variant": {
                    "base": self._variant(BASE, problem),
                    "head": self._variant(name, problem),
                },
                "control": self._control(name, problem),
                "mode": self._plan.mode,
                "calls": work.calls if work else 0,
                "failed": _fault(faults, name),
                "pairs": vars(pairs.get(name, _Pairs()) if work else _Pairs()),
            }
            for name in names
            if name != BASE
        }

    def _pair(self, work: Work, base: Arm, head: Arm, pairs: _Pairs) -> None:
        nanoseconds: dict[str, float] = {}
        mhz: dict[str, int | None] = {}
        arms = self._order.sample([(BASE, base), ("head", head)], 2)
        for side, arm in arms:
            marks = work.sample(arm, self._clock)
            self._clock.wait()
            mhz[side] = self._sensors.sm_mhz()
            nanoseconds[side] = self._clock.seconds(*marks) / work.calls * 1e9
        pairs.first.append(arms[0][0])
        pairs.base_ns.append(round(nanoseconds[BASE], 2))
        pairs.head_ns.append(round(nanoseconds["head"], 2))
        pairs.base_mhz.append(mhz[BASE])
        pairs.head_mhz.append(mhz["head"])
        pairs.watts.append(self._sensors.watts())
        pairs.celsius.append(self._sensors.celsius())
        pairs.dropped.append(self._sensors.disturbance())

    def _record(self, name: str, problem: Problem) -> VariantRecord:
        return self._arms[name].variant(problem)

    def _variant(self, name: str, problem: Problem) -> str:
        return self._record(name, problem).name

    def _control(self, name: str, problem: Problem) -> str | None:
        if name == TWIN:
            return "twin"
        if self._plan.stage == "calibrate":
            return None  # equal code is then what is measured
        base, head = (
            self._record(BASE, problem).sass.sha256,
            self._record(name, problem).sass.sha256,
        )
        return "same-sass" if base and base == head else None


def _fault(faults: Mapping[str, str], name: str) -> str | None:
    for side, arm in ((BASE, BASE), ("head", name)):
        if arm in faults:
            return f"{side}: {faults[arm]}"
    return None
