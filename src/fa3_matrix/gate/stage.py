"""One stage of a run, tested: what its trials say of each cell, and whether they may say it."""

import math
from collections.abc import Sequence

import numpy as np

from fa3_matrix.gate.estimates import CellEstimate, estimate, sample
from fa3_matrix.gate.result import StageSummary
from fa3_matrix.gate.statistics import NO_PRIOR, detectable_effect
from fa3_matrix.gate.trials import CellKey, Trial, by_cell
from fa3_matrix.matrix.gate import GateLimits


class Stage:
    """The tests of ``keys``, which each of ``trials`` has timed.

    Cells of the screen lend each other variance, so all are tested at once. Those to confirm do not: they were flagged
    in part for being noisy, and a variance that leans on the calmer controls would fail them too often.
    """

    def __init__(
        self, name: str, trials: Sequence[Trial], keys: Sequence[CellKey], limits: GateLimits
    ) -> None:
        # The order in which trials are given is no information; by number, results don't depend on it.
        self._trials = sorted(trials, key=lambda trial: trial.number)
        self.name = name
        self._limits = limits
        cells = by_cell(self._trials)
        self._cells = {key: cells[key] for key in keys}
        prior = None if name == "screen" else NO_PRIOR
        self._sample = sample(self._cells, len(trials), prior)
        self._p: dict[CellKey, float] = {}
        self._p_two_sided: dict[CellKey, float] = {}
        self._upper: dict[CellKey, float] = {}
        self._deviation: dict[CellKey, float] = {}
        if self._sample is not None:
            means, tested = self._sample.means, list(self._sample.rows)
            margins = [math.log1p(limits.margin_of(key.suite, key.problem)) for key in tested]
            self._p = dict(zip(tested, means.p_above(margins).tolist(), strict=True))
            self._p_two_sided = dict(zip(tested, means.p_two_sided().tolist(), strict=True))
            upper = np.exp(means.interval(1 - limits.alpha)[1])
            self._upper = dict(zip(tested, upper.tolist(), strict=True))
            deviations = (means.standard_error * math.sqrt(len(trials))).tolist()
            self._deviation = dict(zip(tested, deviations, strict=True))

    def untestable(self, key: CellKey) -> str | None:
        """Why the cell's pairs may not decide anything; ``None`` where they may."""
        trials = self._cells[key]
        dropped = sum(len(trial.dropped) - int(trial.kept.sum()) for trial in trials)
        taken = sum(len(trial.dropped) for trial in trials)
        if dropped > self._limits.most_dropped * taken:
            return (
                f"{dropped} of {taken} pairs were dropped, "
                f"more than {self._limits.most_dropped:.0%} ({self._causes(key)})"
            )
        if key not in self._p:
            return f"a trial kept none of its pairs ({self._causes(key)})"
        return None

    def p(self, key: CellKey) -> float | None:
        """One-sided p for H0: ratio <= 1 + margin; ``None`` where untestable."""
        return None if self.untestable(key) else self._p[key]

    def p_two_sided(self, key: CellKey) -> float | None:
        """Two-sided p for H0: ratio = 1; ``None`` where untestable."""
        return None if self.untestable(key) else self._p_two_sided[key]

    def estimate(self, key: CellKey) -> CellEstimate:
        return estimate(
            key, self._cells[key], self._sample, 1 - self._limits.alpha, self._trials[0].seed
        )

    def upper(self, key: CellKey) -> float:
        """The upper end of the ratio's interval; infinite where a trial has no statistic."""
        return self._upper.get(key, math.inf)

    def detectable(self, key: CellKey, tests: int) -> float | None:
        """The ratio that confirmation shows with 90% among ``tests`` flagged cells, at this cell's spread."""
        if key not in self._deviation:
            return None
        limits = self._limits
        margin = math.log1p(limits.margin_of(key.suite, key.problem))
        effect = detectable_effect(
            self._deviation[key], limits.confirm_trials, tests, limits.alpha, margin
        )
        return math.exp(float(effect))

    def summary(self) -> StageSummary:
        prior = self._sample.means.prior if self._sample else None
        return StageSummary(
            trials=len(self._trials),
            seeds=[trial.seed for trial in self._trials],
            prior_df=prior.df if prior and math.isfinite(prior.df) else None,
            prior_deviation=math.sqrt(prior.variance) if prior and prior.df else None,
        )

    def _causes(self, key: CellKey) -> str:
        return ", ".join(sorted({why for trial in self._cells[key] for why in trial.drop_reasons}))
