"""The table of cells that a comparison shows, with or without verdicts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fa3_matrix.gate.statistics import ModeratedMeans, Prior, bootstrap_interval, moderate
from fa3_matrix.gate.trials import SCHEMA, CellKey, Trial, TrialCell, TrialError, by_cell

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class CellEstimate:
    """What the trials say of one cell. Times are of one call; a ratio is head over base, above 1 head is slower.

    ``interval``: of the ratio, moderated over cells; ``bootstrap``: the same by resampling trials and pairs; both of
    coverage ``level``, ``None`` where the trials do not allow one. ``base_us``, ``head_us``: medians over trials of
    medians over kept pairs. ``order_effect``: median over trials of how much slower (as a share) whichever arm is
    timed first looks; ``order_signs``: in how many trials it looks slower, and faster.
    """

    suite: str
    problem: str
    mode: str
    control: str | None
    label: str
    trials: int
    pairs_kept: int
    pairs_dropped: int
    drop_reasons: dict[str, int]
    level: float
    base_us: float | None = None
    head_us: float | None = None
    ratio: float | None = None
    interval: Interval | None = None
    bootstrap: Interval | None = None
    order_effect: float | None = None
    order_signs: tuple[int, int] = (0, 0)

    @property
    def key(self) -> CellKey:
        return CellKey(self.suite, self.problem, self.mode, self.control)


@dataclass(frozen=True)
class Sample:
    """Cells whose trials all have a statistic, and their moderated means."""

    means: ModeratedMeans
    rows: dict[CellKey, int]


def sample(
    cells: Mapping[CellKey, Sequence[TrialCell]], trials: int, prior: Prior | None = None
) -> Sample | None:
    """The moderated means of the cells that have ``trials`` statistics; ``None`` where no cell has.

    Without ``prior`` it is fitted to them.
    """
    statistics = {key: [trial.statistic for trial in each] for key, each in cells.items()}
    whole = {
        key: each
        for key, each in statistics.items()
        if len(each) == trials and np.isfinite(each).all()
    }
    if not whole or trials < 2:
        return None
    rows = {key: row for row, key in enumerate(whole)}
    return Sample(moderate(list(whole.values()), prior), rows)


def estimate(
    key: CellKey, trials: Sequence[TrialCell], drawn: Sample | None, level: float, seed: int
) -> CellEstimate:
    """The table's entry of one cell; ``seed`` is the bootstrap's, ``drawn`` holds the cell's interval if it has one."""
    reasons = sum((trial.drop_reasons for trial in trials), Counter[str]())
    usable = [trial for trial in trials if trial.kept.any()]
    dropped = sum(reasons.values())
    counts: dict[str, Any] = {
        **key._asdict(),
        "label": trials[0].label if trials else key.problem,
        "trials": len(usable),
        "pairs_kept": sum(len(trial.dropped) for trial in trials) - dropped,
        "pairs_dropped": dropped,
        "drop_reasons": dict(reasons),
        "level": level,
    }
    if not usable:
        return CellEstimate(**counts)
    orders = [effect for trial in usable if math.isfinite(effect := trial.order_effect)]
    interval = None
    if drawn is not None and key in drawn.rows:
        row = drawn.rows[key]
        low, high = drawn.means.interval(level)
        interval = math.exp(low[row]), math.exp(high[row])
    low_log, high_log = bootstrap_interval([trial.log_ratios for trial in usable], level, seed)
    return CellEstimate(
        **counts,
        base_us=float(np.median([np.median(t.base_ns[t.kept]) for t in usable])) * 1e-3,
        head_us=float(np.median([np.median(t.head_ns[t.kept]) for t in usable])) * 1e-3,
        ratio=math.exp(float(np.mean([trial.statistic for trial in usable]))),
        interval=interval,
        bootstrap=(math.exp(low_log), math.exp(high_log)),
        order_effect=math.expm1(float(np.median(orders))) if orders else None,
        order_signs=(sum(effect > 0 for effect in orders), sum(effect < 0 for effect in orders)),
    )


@dataclass(frozen=True)
class Comparison:
    """Two arms side by side, nothing judged. ``not_timed``: cells that a trial could not time, and why."""

    base: str
    head: str
    gpus: list[str]
    seeds: list[int]
    cells: list[CellEstimate]
    not_timed: list[dict[str, str | None]]

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "kind": "comparison", **asdict(self)}


def compare(trials: Sequence[Trial], level: float = 0.95) -> Comparison:
    """The same table as the gate's, of one trial or more, with no verdicts.

    One trial has no spread between processes: its cells have no ``interval``, and their ``bootstrap`` speaks of that
    one process alone.

    Raises:
        TrialError: no trial, or trials of different arms.
    """
    if not trials:
        raise TrialError("no trial to compare; measure one")
    # The order in which they are given is no information.
    trials = sorted(trials, key=lambda trial: (trial.stage, trial.number, trial.seed))
    first = trials[0]
    for trial in trials:
        if (trial.base, trial.head) != (first.base, first.head):
            raise TrialError(f"{trial.source} and {first.source} compare different arms")
    cells = by_cell(trials)
    timed = {
        key: kept
        for key, each in cells.items()
        if (kept := [trial for trial in each if trial.failed is None])
    }
    drawn = sample(timed, len(trials))
    return Comparison(
        base=first.base.name,
        head=first.head.name,
        gpus=sorted({trial.machine.uuid for trial in trials}),
        seeds=[trial.seed for trial in trials],
        cells=[estimate(key, each, drawn, level, first.seed) for key, each in timed.items()],
        not_timed=[
            {**key._asdict(), "reason": trial.failed}
            for key, each in cells.items()
            for trial in each[:1]
            if key not in timed
        ],
    )
