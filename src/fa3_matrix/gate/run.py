"""Runs the gate: plans the cells, has them timed, and judges. The verdict itself is `fa3_matrix.gate.verdict`'s."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fa3_matrix.bench import trial_plan
from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.profile import counters
from fa3_matrix.bench.results import Document, arm_identity, manifest_sha256
from fa3_matrix.bench.trial_plan import Plan, PlannedCell
from fa3_matrix.bench.trials import run_trials
from fa3_matrix.errors import BenchError
from fa3_matrix.gate import hints
from fa3_matrix.gate.arms import NamedBuild
from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.result import GateResult
from fa3_matrix.gate.trials import Arm, CellKey, Trial, read_trial
from fa3_matrix.gate.verdict import judge, to_confirm
from fa3_matrix.matrix import GateLimits

# Of a run, as it goes on: the stage, trials done, trials of the stage.
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Run:
    """A judged run: the result, every trial's document, and hints on the cells that failed.

    ``not_profiled``: those of them of which an arm has no hardware counters.
    """

    result: GateResult
    documents: list[Document]
    hints: dict[CellKey, list[hints.Hint]]
    not_profiled: list[CellKey]

    def as_json(self) -> dict[str, Any]:
        """The result's document; each cell with its ``hints``."""
        document = self.result.as_json()
        for cell, entry in zip(self.result.cells, document["cells"], strict=True):
            entry["hints"] = [hint.text for hint in self.hints.get(cell.key, [])]
        return document


@dataclass(frozen=True)
class _Arms:
    base: BuildArm
    head: BuildArm
    plan: Plan
    expected: Expected


def run(
    base: NamedBuild,
    head: NamedBuild,
    problems: Sequence[tuple[str, Problem]],
    limits: GateLimits,
    seed: int,
    *,
    mode: trial_plan.Mode = "cold",
    profile: Document | None = None,
    report: Report = lambda *_: None,
) -> Run:
    """Screen all of `problems` (with their suites), confirm what is flagged, judge.

    Hints take the counters of both builds from `profile` (`fa3_matrix.bench.profile`), as far as it has them.

    Raises:
        BenchError: a trial failed.
    """
    arms = _arms(base, head, problems, limits, mode)
    seeds = random.Random(seed)
    screen, documents = _stage(
        arms, "screen", arms.expected.cells, limits.screen_trials, seeds, report
    )
    flagged = to_confirm(screen, arms.expected, limits)
    confirm, confirming = _stage(arms, "confirm", flagged, limits.confirm_trials, seeds, report)
    result = judge(screen, confirm, arms.expected, limits)
    failed = [cell.key for cell in result.cells if cell.verdict == "fail"]
    sides = {key: _sides(arms, key, confirming, profile) for key in failed}
    explained = {key: hints.explain(*pair, slower=True) for key, pair in sides.items()}
    not_profiled = [key for key, pair in sides.items() if not all(arm.counters for arm in pair)]
    return Run(result, [*documents, *confirming], explained, not_profiled)


def time(
    base: NamedBuild,
    head: NamedBuild,
    problems: Sequence[tuple[str, Problem]],
    limits: GateLimits,
    seed: int,
    trials: int,
    *,
    mode: trial_plan.Mode = "cold",
    report: Report = lambda *_: None,
) -> tuple[list[Trial], list[Document], dict[CellKey, str]]:
    """Trials without a verdict, their documents, and the cells that an arm lacks.

    Raises:
        BenchError: a trial failed.
    """
    arms = _arms(base, head, problems, limits, mode)
    timed, documents = _stage(
        arms, "screen", arms.expected.cells, trials, random.Random(seed), report
    )
    return timed, documents, dict(arms.expected.no_pair)


def _arms(
    base: NamedBuild,
    head: NamedBuild,
    problems: Sequence[tuple[str, Problem]],
    limits: GateLimits,
    mode: trial_plan.Mode,
) -> _Arms:
    # Documents and columns tell arms apart by name.
    names = (base.name, head.name) if base.name != head.name else ("base", "head")
    arms = BuildArm.open(base.folder), BuildArm.open(head.folder)
    cells: list[CellKey] = []
    no_pair: dict[CellKey, str] = {}
    paired = []
    for suite, problem in problems:
        key = CellKey(suite, problem.id, mode)
        try:
            variants = [arm.variant(problem) for arm in arms]
        except BenchError as error:
            no_pair[key] = str(error)
            continue
        a, b = (variant.sass.sha256 for variant in variants)
        cells.append(key._replace(control="same-sass") if a and a == b else key)
        paired.append((suite, problem))
    cells += [
        CellKey(twin.suite, twin.problem, mode, twin.control) for twin in trial_plan.twins(paired)
    ]
    identities = [
        Arm(**arm_identity(name, arm.name, arm.folder))
        for name, arm in zip(names, arms, strict=True)
    ]
    plan = Plan(
        base=base.folder,
        base_name=names[0],
        heads={names[1]: head.folder},
        cells=[],
        stage="",
        pairs=limits.pairs,
        mode=mode,
    )
    return _Arms(*arms, plan, Expected(identities[0], identities[1], tuple(cells), no_pair))


def _stage(
    arms: _Arms,
    stage: str,
    cells: Sequence[CellKey],
    count: int,
    seeds: random.Random,
    report: Report,
) -> tuple[list[Trial], list[Document]]:
    if not cells:
        return [], []
    planned = [PlannedCell(key.suite, key.problem, key.control) for key in cells]  # type: ignore[arg-type]
    plan = Plan(**{**vars(arms.plan), "cells": planned, "stage": stage})
    report(stage, 0, count)
    documents = [
        document
        for (document,) in run_trials(plan, count, seeds, done=lambda n: report(stage, n, count))
    ]
    trials = [read_trial(document, f"{stage} trial {document['number']}") for document in documents]
    return trials, documents


def _sides(
    arms: _Arms, key: CellKey, documents: Sequence[Document], profile: Document | None
) -> list[hints.Arm]:
    """What is known of base and head on a cell."""
    problem = Problem.parse(key.problem)
    timed = [
        cell["pairs"]
        for document in documents
        for cell in document["cells"]
        if (cell["suite"], cell["problem"], cell["control"]) == (key.suite, key.problem, None)
    ]
    sides = []
    for side, arm in (("base", arms.base), ("head", arms.head)):
        clocks = [mhz for pairs in timed for mhz in pairs[f"{side}_mhz"] if mhz is not None]
        median = statistics.median(clocks) if clocks else None
        counted = counters(profile, key.problem, manifest_sha256(arm.folder)) if profile else None
        variant = arm.variant(problem).name
        sides.append(hints.Arm.of(arm.manifest, variant, sm_mhz=median, counters=counted))
    return sides
