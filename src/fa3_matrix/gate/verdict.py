"""The verdict on head: screen every cell, confirm what that flags on fresh trials, fail only what is confirmed.

The rules, and what they rest on: docs/gate.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fa3_matrix.gate import completeness
from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.controls import ControlTest, check
from fa3_matrix.gate.estimates import estimate
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.gate.result import CellResult, ControlResult, GateResult, Verdict
from fa3_matrix.gate.stage import Stage
from fa3_matrix.gate.statistics import benjamini_hochberg, holm
from fa3_matrix.gate.trials import CellKey, Trial, by_cell
from fa3_matrix.matrix.gate import GateLimits


def to_confirm(
    screen: Sequence[Trial], expected: Expected, limits: GateLimits
) -> tuple[CellKey, ...]:
    """The cells that the confirming trials are to time: those flagged, and all controls. Empty: no such trials.

    A screen that is incomplete asks for none, since `judge` will not go further either.
    """
    if _screen_gaps(screen, expected, limits):
        return ()
    return confirmation_plan(Stage("screen", screen, expected.cells, limits), expected, limits)


def judge(
    screen: Sequence[Trial], confirm: Sequence[Trial], expected: Expected, limits: GateLimits
) -> GateResult:
    """Judge a run: ``screen`` of all expected cells, ``confirm`` of those that `to_confirm` names.

    Never raises for what trials lack: that is the outcome ``INCOMPLETE``.
    """
    gaps = _screen_gaps(screen, expected, limits)
    if not gaps:
        first = Stage("screen", screen, expected.cells, limits)
        plan = confirmation_plan(first, expected, limits)
        count = limits.confirm_trials if plan else 0
        gaps = [
            *completeness.gaps("confirm", confirm, count, plan, expected, limits),
            *completeness.contradictions(screen, confirm),
        ]
    if gaps:
        return _incomplete(gaps, screen, expected, limits)
    stages = [first, *([Stage("confirm", confirm, plan, limits)] if plan else [])]
    tests = check(stages, expected, limits)
    unchecked = [
        f"{stage.name}: no control kept enough pairs to check the harness"
        for stage in stages
        if all(test.p is None for test in tests if test.stage is stage)
    ]
    if unchecked:
        return _incomplete(unchecked, screen, expected, limits)
    controls = [_control(test) for test in tests]
    rejected = [
        f"{control.stage}: {control.key} differs by {_percent(control.ratio)} where nothing should"
        for control in controls
        if control.rejected
    ]
    cells = [
        *_cells(first, decide(stages, plan, expected, limits), limits, void=bool(rejected)),
        *(_no_pair(key, why, limits) for key, why in expected.no_pair.items()),
    ]
    outcome, reasons = _outcome(rejected, cells)
    if outcome is Outcome.PASS and not expected.judged:
        reasons = ["every kernel timed is the same code in both arms, and the controls agree"]
    return GateResult(
        outcome=outcome,
        reasons=reasons,
        base=expected.base,
        head=expected.head,
        machine=screen[0].machine,
        limits=limits,
        stages={stage.name: stage.summary() for stage in stages},
        cells=cells,
        controls=controls,
    )


def _screen_gaps(screen: Sequence[Trial], expected: Expected, limits: GateLimits) -> list[str]:
    return [
        *completeness.shortfalls(expected),
        *completeness.gaps(
            "screen", screen, limits.screen_trials, expected.cells, expected, limits
        ),
        *completeness.contradictions(screen, ()),
    ]


def _flagged(stage: Stage, key: CellKey, limits: GateLimits) -> bool:
    """Whether the screen leaves open that the cell is slower: it looks so, or too little is known to rule it out."""
    p = stage.p(key)
    if p is None:
        return False  # inconclusive already: fresh pairs do not undo the dropped ones
    return p <= limits.alpha or stage.upper(key) > 1 + limits.budget_of(key.suite, key.problem)


def confirmation_plan(stage: Stage, expected: Expected, limits: GateLimits) -> tuple[CellKey, ...]:
    """The cells that a screen which is complete asks fresh trials of; see `to_confirm`."""
    flagged = tuple(key for key in expected.judged if _flagged(stage, key, limits))
    return (*flagged, *expected.controls) if flagged else ()


@dataclass(frozen=True)
class Decision:
    """A cell's verdict, the stage it rests on, and Holm's adjusted p where the cell was flagged."""

    stage: Stage
    p_adjusted: float | None
    verdict: Verdict
    reason: str


def decide(
    stages: Sequence[Stage], plan: Sequence[CellKey], expected: Expected, limits: GateLimits
) -> dict[CellKey, Decision]:
    """The verdict on each judged cell of a complete run, controls apart; flagged cells by the last of ``stages``."""
    screen, last = stages[0], stages[-1]
    flagged = [key for key in plan if key.control is None]
    # A flagged cell whose fresh pairs do not count stays in the family, as one that is not rejected.
    family = [1.0 if (p := last.p(key)) is None else p for key in flagged]
    adjusted: dict[CellKey, float] = dict(zip(flagged, holm(family).tolist(), strict=True))
    decisions = {}
    for key in expected.judged:
        stage = last if key in adjusted else screen
        p_adjusted = adjusted.get(key)
        decisions[key] = Decision(stage, p_adjusted, *_verdict(stage, key, p_adjusted, limits))
    return decisions


def _control(test: ControlTest) -> ControlResult:
    return ControlResult(
        **vars(test.stage.estimate(test.key)),
        stage=test.stage.name,
        p=test.p,
        p_adjusted=test.p_adjusted,
        rejected=test.rejected,
    )


def _cells(
    screen: Stage,
    decisions: Mapping[CellKey, Decision],
    limits: GateLimits,
    *,
    void: bool,
) -> list[CellResult]:
    screen_p = {key: p for key in decisions if (p := screen.p(key)) is not None}
    screen_q = dict(
        zip(screen_p, benjamini_hochberg(list(screen_p.values())).tolist(), strict=True)
    )
    results = []
    for key, decision in decisions.items():
        stage, verdict, reason = decision.stage, decision.verdict, decision.reason
        if void:
            verdict, reason = "inconclusive", f"the harness is void; alone: {verdict}, {reason}"
        results.append(
            CellResult(
                **vars(stage.estimate(key)),
                stage=stage.name,
                margin=limits.margin_of(key.suite, key.problem),
                budget=limits.budget_of(key.suite, key.problem),
                p=stage.p(key),
                p_adjusted=decision.p_adjusted,
                screen_p=screen_p.get(key),
                screen_q=screen_q.get(key),
                detectable=stage.detectable(key, len(decisions)),
                verdict=verdict,
                reason=reason,
            )
        )
    return results


def _verdict(
    stage: Stage, key: CellKey, p_adjusted: float | None, limits: GateLimits
) -> tuple[Verdict, str]:
    untestable = stage.untestable(key)
    if untestable:
        return "inconclusive", untestable
    margin = limits.margin_of(key.suite, key.problem)
    if p_adjusted is not None and p_adjusted <= limits.alpha:
        return "fail", f"slower by more than {margin:.1%}, confirmed (adjusted p {p_adjusted:.2g})"
    budget = limits.budget_of(key.suite, key.problem)
    upper = stage.upper(key)
    if upper > 1 + budget:
        return (
            "inconclusive",
            f"not shown to be slower by more than {margin:.1%}, nor to stay within {budget:.1%}: "
            f"upper bound {_percent(upper)}",
        )
    flagged = "" if p_adjusted is None else "flagged by the screen, not confirmed; "
    return "pass", f"{flagged}upper bound {_percent(upper)}"


def _no_pair(key: CellKey, why: str, limits: GateLimits, label: str | None = None) -> CellResult:
    return _unjudged(key, limits, "no-pair", why, label)


def _unjudged(
    key: CellKey, limits: GateLimits, verdict: Verdict, reason: str, label: str | None = None
) -> CellResult:
    nothing = vars(estimate(key, (), None, 1 - limits.alpha, 0))
    return CellResult(
        **{**nothing, "label": label or key.problem},
        stage=None,
        margin=limits.margin_of(key.suite, key.problem),
        budget=limits.budget_of(key.suite, key.problem),
        verdict=verdict,
        reason=reason,
    )


def _incomplete(
    gaps: list[str], screen: Sequence[Trial], expected: Expected, limits: GateLimits
) -> GateResult:
    """Nothing is estimated from trials that are not what was planned; `compare` shows what there is."""
    met = by_cell(screen)
    cells = []
    for key in expected.judged:
        trials = met.get(key, [])
        label = trials[0].label if trials else None
        failed = next((trial.failed for trial in trials if trial.failed is not None), None)
        cells.append(
            _unjudged(key, limits, "inconclusive", "the run is incomplete", label)
            if failed is None
            else _no_pair(key, failed, limits, label)
        )
    cells += [_no_pair(key, why, limits) for key, why in expected.no_pair.items()]
    return GateResult(
        outcome=Outcome.INCOMPLETE,
        reasons=gaps,
        base=expected.base,
        head=expected.head,
        machine=screen[0].machine if screen else None,
        limits=limits,
        stages={},
        cells=cells,
        controls=[],
    )


def _outcome(rejected: list[str], cells: Sequence[CellResult]) -> tuple[Outcome, list[str]]:
    def told(verdict: Verdict) -> list[str]:
        return [f"{cell.key}: {cell.reason}" for cell in cells if cell.verdict == verdict]

    if rejected:
        return Outcome.VOID, rejected
    failed, undecided = told("fail"), told("inconclusive")
    if failed:
        return Outcome.FAIL, failed + undecided
    if undecided:
        return Outcome.INCONCLUSIVE, undecided
    return Outcome.PASS, []


def _percent(ratio: float | None) -> str:
    return "?" if ratio is None else f"{ratio - 1:+.2%}"
