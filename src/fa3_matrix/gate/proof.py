"""What the gate does on trials that were measured: whole runs drawn from them, on builds whose difference is known.

The trials are of stage "calibrate": each timed one base against a copy of it and against the same build with slowdowns
put in (`fa3_matrix.build.injected`). A run draws as many as the gate takes, none twice and all of one calibration, that
is of one GPU, and is judged by the gate's own rules. Runs share trials, so they are not independent: the counts
describe these trials, not others.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fa3_matrix.bench.trial_plan import TWIN_EVERY
from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.controls import check
from fa3_matrix.gate.stage import Stage
from fa3_matrix.gate.statistics import clopper_pearson
from fa3_matrix.gate.trials import CellKey, Trial, TrialCell, read_trial
from fa3_matrix.gate.verdict import confirmation_plan, decide
from fa3_matrix.matrix import GateLimits

SAME = "same"  # the head that is a copy of the base


@dataclass(frozen=True)
class Calibration:
    """What one `calibrate` measured: trials by the head that they time, entry i of each of process i."""

    trials: dict[str, list[Trial]]

    @classmethod
    def of(cls, processes: Sequence[Sequence[Mapping[str, Any]]]) -> "Calibration":
        """From the documents of each process. Raises TrialError."""
        trials: dict[str, list[Trial]] = {}
        for number, documents in enumerate(processes):
            for document in documents:
                trial = read_trial(document, f"process {number}")
                trials.setdefault(trial.head.name, []).append(trial)
        return cls(trials)

    @property
    def processes(self) -> int:
        return len(self.trials[SAME])

    @property
    def keys(self) -> tuple[CellKey, ...]:
        """Of every cell, in order of suite and problem."""
        return tuple(sorted(self.trials[SAME][0].cells))


@dataclass(frozen=True)
class Count:
    """How often something happened, with Clopper and Pearson's interval of 95%."""

    happened: int
    of: int

    def __str__(self) -> str:
        if not self.of:
            return "-"
        low, high = clopper_pearson(self.happened, self.of)
        return f"{self.happened}/{self.of} ({low:.1%} to {high:.1%})"


@dataclass(frozen=True)
class Proof:
    """Outcomes of runs in which `slowed` cells, drawn anew for each, are the head `head`'s, and all others the base's.

    ``false_fails``, ``voids``, ``undecided``: runs with a failed cell that is the base's, a rejected control, a cell
    that is inconclusive. ``found``, ``passed``: of the slowed cells.
    """

    head: str
    slowed: int
    false_fails: Count
    voids: Count
    undecided: Count
    found: Count
    passed: Count


def prove(
    calibrations: Sequence[Calibration],
    head: str,
    slowed: int,
    limits: GateLimits,
    runs: int,
    seed: int,
) -> Proof:
    """Draw and judge `runs` runs, each of one calibration, which is drawn by how many trials it has.

    Raises:
        ValueError: a calibration has fewer trials than a run takes.
    """
    needed = limits.screen_trials + limits.confirm_trials
    processes = [calibration.processes for calibration in calibrations]
    if min(processes) < needed:
        raise ValueError(f"{min(processes)} trials, a run takes {needed}: measure more")
    order = random.Random(seed)
    happened = dict.fromkeys(("false", "void", "undecided", "found", "passed"), 0)
    for calibration in order.choices(calibrations, processes, k=runs):
        keys = calibration.keys
        controls = keys[::TWIN_EVERY]  # as many as the gate plans, here of the copy of the base
        judged = [key for key in keys if key not in controls]
        worse = set(order.sample(judged, slowed))
        drawn = order.sample(range(calibration.processes), needed)
        trials = [
            _trial(calibration, index, number, controls, judged, worse, head)
            for number, index in enumerate(drawn)
        ]
        screen, confirm = trials[: limits.screen_trials], trials[limits.screen_trials :]
        expected = Expected(screen[0].base, screen[0].head, tuple(screen[0].cells))
        first = Stage("screen", screen, expected.cells, limits)
        plan = confirmation_plan(first, expected, limits)
        stages = [first, *([Stage("confirm", confirm, plan, limits)] if plan else [])]
        happened["void"] += any(test.rejected for test in check(stages, expected, limits))
        verdicts = {k: d.verdict for k, d in decide(stages, plan, expected, limits).items()}
        happened["false"] += any(verdicts[key] == "fail" for key in judged if key not in worse)
        happened["undecided"] += "inconclusive" in verdicts.values()
        happened["found"] += sum(verdicts[key] == "fail" for key in worse)
        happened["passed"] += sum(verdicts[key] == "pass" for key in worse)
    of_runs = {name: Count(happened[name], runs) for name in ("false", "void", "undecided")}
    of_cells = {name: Count(happened[name], runs * slowed) for name in ("found", "passed")}
    return Proof(head, slowed, *of_runs.values(), *of_cells.values())


def _trial(
    calibration: Calibration,
    index: int,
    number: int,
    controls: Sequence[CellKey],
    judged: Sequence[CellKey],
    worse: set[CellKey],
    head: str,
) -> Trial:
    same, other = calibration.trials[SAME][index], calibration.trials[head][index]
    cells: dict[CellKey, TrialCell] = {
        key: (other if key in worse else same).cells[key] for key in judged
    }
    for key in controls:
        twin = key._replace(control="twin")
        cells[twin] = replace(same.cells[key], key=twin)
    return replace(same, number=number, cells=cells)
