"""The document of a judged run."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fa3_matrix.gate.estimates import CellEstimate
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.gate.trials import SCHEMA, Arm, Machine
from fa3_matrix.matrix.gate import GateLimits

Verdict = Literal["pass", "fail", "inconclusive", "no-pair"]


@dataclass(frozen=True, kw_only=True)
class CellResult(CellEstimate):
    """A cell's estimate in the stage that decided it, and its verdict with the reason.

    ``stage``: ``screen``, ``confirm``, or ``None`` where nothing was tested. ``p``: one-sided, of that stage, for
    H0: ratio <= 1 + margin; ``p_adjusted``: Holm's over the flagged cells, ``None`` for the others. ``screen_p`` and
    ``screen_q``: the screen's p, and its adjustment by Benjamini and Hochberg, which ranks and fails nothing.
    ``detectable``: the ratio that confirmation shows with 90% were every cell flagged, at this cell's spread.
    """

    stage: str | None
    margin: float
    budget: float
    p: float | None = None
    p_adjusted: float | None = None
    screen_p: float | None = None
    screen_q: float | None = None
    detectable: float | None = None
    verdict: Verdict
    reason: str


@dataclass(frozen=True, kw_only=True)
class ControlResult(CellEstimate):
    """A control's estimate in one stage, and its test; see `controls.ControlTest`."""

    stage: str
    p: float | None
    p_adjusted: float | None
    rejected: bool


@dataclass(frozen=True)
class StageSummary:
    """A stage's trials and the prior of its cells' variances (see `statistics.Prior`).

    ``prior_df`` is ``None`` where it is infinite, 0 where each cell has its own variance alone, as when confirming;
    ``prior_deviation``: of a trial's log ratio, ``None`` then.
    """

    trials: int
    seeds: list[int]
    prior_df: float | None
    prior_deviation: float | None


@dataclass(frozen=True)
class GateResult:
    """The document of a judged run. ``reasons``: what made the outcome, worst first; one sentence each."""

    outcome: Outcome
    reasons: list[str]
    base: Arm
    head: Arm
    machine: Machine | None
    limits: GateLimits
    stages: dict[str, StageSummary]
    cells: list[CellResult]
    controls: list[ControlResult]

    @property
    def exit_code(self) -> int:
        return self.outcome.exit_code

    @property
    def counts(self) -> dict[str, int]:
        """How many cells have each verdict."""
        met = Counter(cell.verdict for cell in self.cells)
        verdicts: tuple[Verdict, ...] = ("pass", "fail", "inconclusive", "no-pair")
        return {verdict: met[verdict] for verdict in verdicts}

    def as_json(self) -> dict[str, Any]:
        """The document, of plain types; holds no NaN and no infinity."""
        return {
            "schema": SCHEMA,
            "kind": "gate",
            **asdict(self),
            "outcome": self.outcome.value,
            "exit_code": self.exit_code,
            "counts": self.counts,
        }
