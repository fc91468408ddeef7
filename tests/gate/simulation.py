"""Trials of two arms as a GPU might give them, without one; and how often the gate errs on them.

``python -m tests.gate.simulation`` prints the operating points of docs/gate.md. The noise is assumed, not measured:
its model is that of :class:`Noise`.
"""

import argparse
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.controls import check
from fa3_matrix.gate.stage import Stage
from fa3_matrix.gate.statistics import clopper_pearson
from fa3_matrix.gate.trials import Arm, CellKey, FloatArray, Machine, Trial, TrialCell
from fa3_matrix.gate.verdict import confirmation_plan, decide
from fa3_matrix.matrix import GateLimits, load

BASE = Arm("base", "sm90-cu124", "a" * 64)
HEAD = Arm("head", "sm90-cu124", "b" * 64)
MACHINE = Machine("NVIDIA H200", "GPU-1", "580.159.04", "2.11.0+cu130")
LIMITS = load().gate
# A tenth of the pairs may be dropped, which is then a whole number.
_ROUND_LIMITS = replace(LIMITS, pairs=20)
_EPOCH = datetime(2030, 1, 31, 22, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Noise:
    """Standard deviations of log times.

    ``arm``: a process' offset of each arm of each cell; ``white``: of a timing; ``drift``: of where a random walk over
    a cell's timings, which both arms share, ends; ``spikes``: share of timings that take up to ``spike`` longer;
    ``unequal``: of the logarithm of a cell's own factor on ``arm`` and ``white``.
    """

    arm: float = 0.0025
    white: float = 0.004
    drift: float = 0.006
    spikes: float = 0.01
    spike: float = 0.2
    unequal: float = 0.3


@dataclass(frozen=True)
class Simulator:
    """Runs of ``cells`` cells and ``twins`` controls. ``slower``: log ratios, 0 of cells not named."""

    cells: int
    twins: int
    limits: GateLimits = _ROUND_LIMITS
    noise: Noise = Noise()

    @property
    def expected(self) -> Expected:
        keys = [CellKey("suite", f"p{i}", "cold") for i in range(self.cells)]
        keys += [CellKey("suite", f"p{i}", "cold", "twin") for i in range(self.twins)]
        return Expected(BASE, HEAD, tuple(keys))

    def factors(self, generator: np.random.Generator) -> dict[CellKey, float]:
        """Each cell's own factor on the noise, the same in all trials of a run."""
        keys = self.expected.cells
        drawn = np.exp(generator.normal(0, self.noise.unequal, len(keys)))
        return dict(zip(keys, drawn.tolist(), strict=True))

    def timings(
        self, generator: np.random.Generator, factors: FloatArray, effects: FloatArray, trials: int
    ) -> tuple[FloatArray, FloatArray, Any]:
        """Log times of base and head, and whether head came first: arrays (trials, cells, pairs)."""
        n, noise = self.limits.pairs, self.noise
        shape = (trials, len(factors), n)
        scale = factors[None, :, None]
        head_first = generator.random(shape) < 0.5
        steps = generator.normal(0, noise.drift / np.sqrt(2 * n), (*shape[:2], 2 * n))
        walk = steps.cumsum(axis=-1).reshape(*shape, 2)  # by pair, then by position in it
        shared = [
            np.where(head_first, walk[..., 1], walk[..., 0]),
            np.where(head_first, walk[..., 0], walk[..., 1]),
        ]
        times = []
        for drift, effect in zip(shared, (np.zeros_like(effects), effects), strict=True):
            offset = generator.normal(effect[:, None], noise.arm * scale, (*shape[:2], 1))
            white = generator.normal(0, noise.white * scale, shape)
            spiked = generator.random(shape) < noise.spikes
            spikes = np.where(spiked, generator.uniform(0, noise.spike, shape), 0)
            times.append(offset + white + drift + spikes)
        return times[0], times[1], head_first

    def trials(
        self,
        generator: np.random.Generator,
        stage: str,
        keys: Sequence[CellKey],
        factors: Mapping[CellKey, float],
        slower: Mapping[CellKey, float],
    ) -> list[Trial]:
        """The trials that ``limits`` ask of ``stage``, already read."""
        limits = self.limits
        count = limits.screen_trials if stage == "screen" else limits.confirm_trials
        base, head, head_first = self.timings(
            generator,
            np.array([factors[key] for key in keys]),
            np.array([slower.get(key, 0.0) for key in keys]),
            count,
        )
        base_ns, head_ns = 1e6 * np.exp(base), 1e6 * np.exp(head)
        kept = (None,) * limits.pairs
        start = _EPOCH + timedelta(hours=stage == "confirm")
        return [
            Trial(
                source=f"{stage}-{number}.json",
                stage=stage,
                number=number,
                seed=int(generator.integers(2**62)),
                started=start + timedelta(minutes=number),
                base=BASE,
                head=HEAD,
                machine=MACHINE,
                cells={
                    key: TrialCell(
                        key, str(key), None, head_first[t, c], base_ns[t, c], head_ns[t, c], kept
                    )
                    for c, key in enumerate(keys)
                },
            )
            for t, number in enumerate(range(count))
        ]

    def run(
        self, generator: np.random.Generator, slower: Mapping[CellKey, float]
    ) -> tuple[list[Trial], list[Trial]]:
        """A whole run: the screen, and the fresh trials that it asks for."""
        factors, expected = self.factors(generator), self.expected
        screen = self.trials(generator, "screen", expected.cells, factors, slower)
        plan = confirmation_plan(self.stage(screen, expected.cells), expected, self.limits)
        confirm = self.trials(generator, "confirm", plan, factors, slower) if plan else []
        return screen, confirm

    def stage(self, trials: Sequence[Trial], keys: Sequence[CellKey]) -> Stage:
        return Stage(trials[0].stage, trials, keys, self.limits)

    def judged(
        self, generator: np.random.Generator, slower: Mapping[CellKey, float]
    ) -> tuple[dict[CellKey, str], bool]:
        """What the gate says of each cell of one run, and whether the run is void; the report's table left out."""
        expected = self.expected
        screen, confirm = self.run(generator, slower)
        plan = tuple(confirm[0].cells) if confirm else ()
        stages = [self.stage(screen, expected.cells)]
        stages += [self.stage(confirm, plan)] if confirm else []
        decisions = decide(stages, plan, expected, self.limits)
        void = any(test.rejected for test in check(stages, expected, self.limits))
        return {key: decision.verdict for key, decision in decisions.items()}, void


def document(trial: Trial) -> dict[str, Any]:
    """The JSON document of a simulated trial."""

    def arm(arm: Arm) -> dict[str, str]:
        return {"name": arm.name, "cell": arm.cell, "manifest_sha256": arm.manifest_sha256}

    return {
        "schema": 1,
        "kind": "trial",
        "stage": trial.stage,
        "number": trial.number,
        "seed": trial.seed,
        "started": trial.started.isoformat(),
        "seconds": 41.2,
        "arms": {"base": arm(trial.base), "head": arm(trial.head)},
        "gpu": dict(vars(trial.machine)),
        "load_order": ["head", "base"],
        "cells": [_cell_document(cell) for cell in trial.cells.values()],
    }


def _cell_document(cell: TrialCell) -> dict[str, Any]:
    pairs = len(cell.dropped)
    return {
        **cell.key._asdict(),
        "label": cell.label,
        "variant": {"base": "fa3_fwd", "head": "fa3_fwd"},
        "calls": 12,
        "failed": cell.failed,
        "pairs": {
            "first": ["head" if first else "base" for first in cell.head_first],
            "base_ns": cell.base_ns.tolist(),
            "head_ns": cell.head_ns.tolist(),
            "base_mhz": [1980] * pairs,
            "head_mhz": [None] * pairs,
            "watts": [512.5] * pairs,
            "celsius": [61] * pairs,
            "dropped": list(cell.dropped),
        },
    }


@dataclass
class Tally:
    """Of ``runs``: how many fail a cell that is not slowed, leave one undecided, or are void; of all ``slowed`` cells
    of these runs: how many fail (``caught``) and pass."""

    runs: int
    slowed: int
    false_fails: int = 0
    undecided: int = 0
    void: int = 0
    caught: int = 0
    passed: int = 0


def tally(
    simulator: Simulator, seed: int, runs: int, slowed: int, ratio: float, others: float = 1.0
) -> Tally:
    """Runs of which the first ``slowed`` cells are slower by ``ratio``, and all others by ``others``."""
    keys = simulator.expected.judged
    bad, good = keys[:slowed], keys[slowed:]
    slower = {key: float(np.log(ratio)) for key in bad}
    slower |= {key: float(np.log(others)) for key in good}
    generator = np.random.default_rng(seed)
    total = Tally(runs, runs * slowed)
    for _ in range(runs):
        verdicts, void = simulator.judged(generator, slower)
        total.false_fails += any(verdicts[key] == "fail" for key in good)
        total.undecided += any(verdicts[key] == "inconclusive" for key in good)
        total.void += void
        total.caught += sum(verdicts[key] == "fail" for key in bad)
        total.passed += sum(verdicts[key] == "pass" for key in bad)
    return total


# What is true of 200 cells: the name, how many are slowed, their ratio, and that of all others.
TRUTHS = (
    ("all cells alike (A/A)", 0, 1.0, 1.0),
    ("every cell slower by the margin", 0, 1.0, 1.005),
    ("5 cells slower by 1%", 5, 1.01, 1.0),
    ("5 cells slower by 1.5%", 5, 1.015, 1.0),
    ("5 cells slower by 2%", 5, 1.02, 1.0),
    ("5 cells slower by 5%", 5, 1.05, 1.0),
)


def operating_points(runs: int) -> Iterator[str]:
    """The rows of docs/gate.md's table: the project's limits, 20 twins; 95% intervals (Clopper and Pearson)."""
    simulator = Simulator(cells=200, twins=20, limits=LIMITS)

    def share(count: int, of: int) -> str:
        low, high = clopper_pearson(count, of)
        return f"{count}/{of} ({low:.1%} to {high:.1%})"

    yield (
        "| truth | runs with a false fail | runs void | runs with another cell undecided "
        "| slowed cells failed | slowed cells passed |"
    )
    yield "|---|---|---|---|---|---|"
    for seed, (name, slowed, ratio, others) in enumerate(TRUTHS):
        t = tally(simulator, seed, runs, slowed, ratio, others)
        columns = [share(count, runs) for count in (t.false_fails, t.void, t.undecided)]
        columns += [share(count, t.slowed) if slowed else "-" for count in (t.caught, t.passed)]
        yield f"| {name} | {' | '.join(columns)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    gc.freeze()  # statsmodels collects garbage at every correction
    started = time.monotonic()
    for line in operating_points(parser.parse_args().runs):
        print(line, flush=True)
    print(f"{time.monotonic() - started:.0f} s")
