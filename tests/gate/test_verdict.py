"""The rules of a run: what is flagged, confirmed, failed, left open, and what keeps a run from being judged."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.outcome import Outcome
from fa3_matrix.gate.result import GateResult
from fa3_matrix.gate.trials import CellKey, Trial, TrialCell, read_trial
from fa3_matrix.gate.verdict import judge, to_confirm
from fa3_matrix.matrix import GateLimits
from fa3_matrix.matrix.gate import MarginRow

from .simulation import Noise, Simulator, document

SIMULATOR = Simulator(cells=12, twins=3)
LIMITS, EXPECTED = SIMULATOR.limits, SIMULATOR.expected
BAD, GOOD, *_ = EXPECTED.judged
TWIN = EXPECTED.controls[0]

Run = tuple[list[Trial], list[Trial]]


def run(slower: dict[CellKey, float] | None = None, seed: int = 1, **noise: float) -> Run:
    """A run with cells slower by the given shares."""
    effects = {key: math.log1p(share) for key, share in (slower or {}).items()}
    simulator = replace(SIMULATOR, noise=Noise(**noise))
    return simulator.run(np.random.default_rng(seed), effects)


def judged(run: Run, expected: Expected = EXPECTED, limits: GateLimits = LIMITS) -> GateResult:
    return judge(*run, expected, limits)


def verdicts(result: GateResult) -> dict[CellKey, str]:
    return {cell.key: cell.verdict for cell in result.cells}


def with_cell(trial: Trial, key: CellKey, **changes: Any) -> Trial:
    return replace(trial, cells={**trial.cells, key: replace(trial.cells[key], **changes)})


def dropping(trial: Trial, key: CellKey, count: int) -> Trial:
    dropped = ("throttled",) * count + (None,) * (LIMITS.pairs - count)
    return with_cell(trial, key, dropped=dropped)


# --- outcomes and exit codes ------------------------------------------------------------------------------------------


def test_alike_arms_pass() -> None:
    screen, confirm = run()
    result = judged((screen, confirm))
    assert (result.outcome, result.exit_code, result.reasons) == (Outcome.PASS, 0, [])
    assert result.counts == {"pass": 12, "fail": 0, "inconclusive": 0, "no-pair": 0}


def test_a_regression_fails_and_is_named() -> None:
    result = judged(run({BAD: 0.03}))
    assert (result.outcome, result.exit_code) == (Outcome.FAIL, 9)
    assert [key for key, verdict in verdicts(result).items() if verdict == "fail"] == [BAD]
    assert result.reasons[0].startswith("suite/p0 (cold): slower by more than 0.5%, confirmed")


def test_a_head_whose_kernels_are_all_the_base_s_passes_by_its_controls() -> None:
    def same_code(key: CellKey) -> CellKey:
        return key if key.control else key._replace(control="same-sass")

    def alike(trials: list[Trial]) -> list[Trial]:
        renamed = [
            {same_code(k): replace(c, key=same_code(k)) for k, c in t.cells.items()} for t in trials
        ]
        return [replace(t, cells=cells) for t, cells in zip(trials, renamed, strict=True)]

    expected = replace(EXPECTED, cells=tuple(map(same_code, EXPECTED.cells)))
    result = judged((alike(run()[0]), []), expected)
    assert (result.outcome, result.exit_code, result.cells) == (Outcome.PASS, 0, [])
    assert len(result.controls) == len(EXPECTED.cells)
    assert result.reasons == [
        "every kernel timed is the same code in both arms, and the controls agree"
    ]
    # Slower all the same: launched otherwise, or the harness misleads.
    assert judged((alike(run({BAD: 0.05})[0]), []), expected).outcome is Outcome.VOID


def test_a_gain_passes() -> None:
    assert judged(run({BAD: -0.05})).outcome is Outcome.PASS


def test_a_slowdown_within_the_margin_passes() -> None:
    assert judged(run({BAD: 0.002})).outcome is Outcome.PASS


def test_what_noise_hides_is_inconclusive_not_green() -> None:
    result = judged(run(arm=0.05))
    assert (result.outcome, result.exit_code) == (Outcome.INCONCLUSIVE, 10)
    assert "nor to stay within 2.0%: upper bound +" in result.reasons[0]


def test_a_regression_is_told_before_what_is_undecided() -> None:
    screen, confirm = run({BAD: 0.05})
    result = judged(([dropping(trial, GOOD, 10) for trial in screen], confirm))
    assert (result.outcome, result.exit_code) == (Outcome.FAIL, 9)
    assert verdicts(result)[GOOD] == "inconclusive"
    assert "10" in result.reasons[1]


def test_a_twin_that_differs_voids_the_run_whatever_else_it_shows() -> None:
    result = judged(run({BAD: 0.05, TWIN: 0.03}))
    assert (result.outcome, result.exit_code) == (Outcome.VOID, 12)
    assert {control.key for control in result.controls if control.rejected} == {TWIN}
    assert "twin) differs by +" in result.reasons[0]
    assert set(verdicts(result).values()) == {"inconclusive"}
    assert any("alone: fail" in cell.reason for cell in result.cells)


def test_a_faster_twin_voids_too() -> None:
    assert judged(run({TWIN: -0.03})).outcome is Outcome.VOID


def test_a_cell_of_equal_sass_is_a_control() -> None:
    def key(old: CellKey) -> CellKey:
        return old._replace(control="same-sass") if old == GOOD else old

    def renamed(trial: Trial) -> Trial:
        return replace(
            trial, cells={key(k): replace(c, key=key(k)) for k, c in trial.cells.items()}
        )

    expected = replace(EXPECTED, cells=tuple(map(key, EXPECTED.cells)))
    screen, confirm = run({GOOD: 0.05})
    # What GOOD was flagged for is the control's; confirming was for it alone.
    result = judged(([renamed(trial) for trial in screen], []), expected)
    assert result.outcome is Outcome.VOID
    assert confirm
    assert GOOD not in verdicts(result)


def test_incomplete_is_told_before_void_and_fail() -> None:
    screen, confirm = run({BAD: 0.05, TWIN: 0.05})
    result = judged((screen[1:], confirm))
    assert (result.outcome, result.exit_code) == (Outcome.INCOMPLETE, 11)
    assert set(verdicts(result).values()) == {"inconclusive"}
    assert all(cell.ratio is None for cell in result.cells)


def test_every_outcome_has_a_code_of_its_own_and_none_is_pytests() -> None:
    codes = [outcome.exit_code for outcome in Outcome]
    assert codes == [11, 12, 9, 10, 0]


# --- two stages -------------------------------------------------------------------------------------------------------


def test_flagged_cells_and_all_controls_are_confirmed() -> None:
    screen, _ = run({BAD: 0.05})
    assert to_confirm(screen, EXPECTED, LIMITS) == (BAD, *EXPECTED.controls)


def test_alike_arms_may_need_no_confirmation() -> None:
    screen, confirm = run()
    assert to_confirm(screen, EXPECTED, LIMITS) == ()
    assert confirm == []


def test_what_the_screen_cannot_bound_is_confirmed_too() -> None:
    """Too noisy to be rejected, too noisy to pass: ten fresh trials may tell."""
    simulator = replace(SIMULATOR, noise=Noise(arm=0.012, unequal=0.0))
    screen, _ = simulator.run(np.random.default_rng(3), {})
    plan = to_confirm(screen, EXPECTED, LIMITS)
    result = judge(screen, [], EXPECTED, LIMITS)
    assert len(plan) > len(EXPECTED.controls)
    assert result.outcome is Outcome.INCOMPLETE


def test_an_incomplete_screen_asks_for_no_confirmation() -> None:
    screen, _ = run({BAD: 0.05})
    assert to_confirm(screen[1:], EXPECTED, LIMITS) == ()


def test_the_screen_alone_fails_nothing() -> None:
    """A cell that looked slow by chance, and no slower on fresh trials, passes."""
    screen, _ = run({BAD: 0.03})
    _, confirm = run({BAD: 0.03}, seed=2)
    calm = [with_cell(trial, BAD, head_ns=trial.cells[BAD].head_ns / 1.03) for trial in confirm]
    result = judged((screen, calm))
    cell = next(cell for cell in result.cells if cell.key == BAD)
    assert (cell.verdict, cell.stage) == ("pass", "confirm")
    assert cell.reason.startswith("flagged by the screen, not confirmed")
    assert cell.screen_p is not None and cell.screen_p <= LIMITS.alpha
    assert cell.ratio == pytest.approx(1, abs=0.005)
    assert judged((screen, confirm)).outcome is Outcome.FAIL


def test_confirmation_uses_fresh_trials_only() -> None:
    """Neither the estimate nor p of a confirmed cell depends on how the screen came out."""
    screen, confirm = run({BAD: 0.03})
    other = [with_cell(t, BAD, head_ns=t.cells[BAD].head_ns * 1.02) for t in screen]
    first, second = judged((screen, confirm)), judged((other, confirm))
    picked = [next(c for c in r.cells if c.key == BAD) for r in (first, second)]
    assert picked[0].p == picked[1].p
    assert picked[0].ratio == picked[1].ratio
    assert picked[0].screen_p != picked[1].screen_p


def test_p_is_adjusted_over_the_flagged_cells() -> None:
    slower = dict.fromkeys(EXPECTED.judged[:4], 0.012)
    result = judged(run(slower))
    flagged = [cell for cell in result.cells if cell.p_adjusted is not None]
    assert len(flagged) >= 3
    smallest = min(flagged, key=lambda cell: cell.p or 1)
    assert smallest.p is not None
    assert smallest.p_adjusted == pytest.approx(min(1, len(flagged) * smallest.p))


def test_a_margin_of_its_own_spares_a_cell() -> None:
    rows = (MarginRow("suite", None, 0.001, "r"), MarginRow(None, BAD.problem, 0.05, "r"))
    spared = replace(LIMITS, margins=rows)
    simulator = replace(SIMULATOR, limits=spared)
    screen, confirm = simulator.run(np.random.default_rng(1), {BAD: math.log1p(0.03)})
    result = judge(screen, confirm, EXPECTED, spared)
    cell = next(cell for cell in result.cells if cell.key == BAD)
    assert (cell.margin, cell.budget, cell.verdict) == (0.05, 0.05, "pass")


# --- dropped pairs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropped, verdict", [(2, "pass"), (3, "inconclusive")])
def test_more_than_a_tenth_dropped_is_inconclusive(dropped: int, verdict: str) -> None:
    screen, confirm = run()
    result = judged(([dropping(trial, GOOD, dropped) for trial in screen], confirm))
    assert verdicts(result)[GOOD] == verdict
    cell = next(cell for cell in result.cells if cell.key == GOOD)
    assert (cell.pairs_kept, cell.pairs_dropped) == (100 - 5 * dropped, 5 * dropped)
    assert cell.drop_reasons == {"throttled": 5 * dropped}


def test_a_regression_seen_through_many_dropped_pairs_is_not_failed_nor_passed() -> None:
    screen, confirm = run({BAD: 0.05})
    result = judged((screen, [dropping(trial, BAD, 4) for trial in confirm]))
    assert (verdicts(result)[BAD], result.exit_code) == ("inconclusive", 10)


def test_a_flagged_cell_whose_pairs_do_not_count_stays_in_the_family() -> None:
    screen, confirm = run({BAD: 0.012, GOOD: 0.05})
    result = judged((screen, [dropping(trial, GOOD, 4) for trial in confirm]))
    flagged = {cell.key: cell for cell in result.cells if cell.p_adjusted is not None}
    assert set(flagged) == {BAD, GOOD}
    assert (flagged[GOOD].p, flagged[GOOD].p_adjusted) == (None, 1)
    p = flagged[BAD].p
    assert p is not None
    assert flagged[BAD].p_adjusted == pytest.approx(2 * p)


def test_a_trial_that_kept_nothing_is_not_filled_in() -> None:
    lenient = replace(LIMITS, most_dropped=0.5)
    screen, confirm = run()
    screen[0] = dropping(screen[0], GOOD, LIMITS.pairs)
    result = judge(screen, confirm, EXPECTED, lenient)
    cell = next(cell for cell in result.cells if cell.key == GOOD)
    assert (cell.verdict, cell.trials, cell.interval) == ("inconclusive", 4, None)
    assert "a trial kept none of its pairs (throttled)" in cell.reason


def test_controls_that_kept_too_little_check_nothing() -> None:
    screen, confirm = run()
    for key in EXPECTED.controls:
        screen = [dropping(trial, key, 10) for trial in screen]
    result = judged((screen, confirm))
    assert result.outcome is Outcome.INCOMPLETE
    assert "no control kept enough pairs" in result.reasons[0]


# --- completeness -----------------------------------------------------------------------------------------------------


def _first(change: Callable[[Trial], Trial]) -> Callable[[Run], Run]:
    return lambda r: ([change(r[0][0]), *r[0][1:]], r[1])


def _without(trial: Trial, key: CellKey) -> Trial:
    return replace(trial, cells={k: cell for k, cell in trial.cells.items() if k != key})


def _empty(trial: Trial, key: CellKey, why: str) -> Trial:
    none = np.empty(0)
    return with_cell(
        trial, key, failed=why, head_first=none, base_ns=none, head_ns=none, dropped=()
    )


def _short(cell: TrialCell) -> dict[str, Any]:
    return {
        name: getattr(cell, name)[:19] for name in ("head_first", "base_ns", "head_ns", "dropped")
    }


GAPS: dict[str, tuple[Callable[[Run], Run], str]] = {
    "a trial too few": (lambda r: (r[0][1:], r[1]), "screen: 4 trials, the limits ask for 5"),
    "a trial too many": (
        lambda r: ([*r[0], replace(r[0][0], number=9, seed=9)], r[1]),
        "screen: 6 trials, the limits ask for 5",
    ),
    "no confirmation": (lambda r: (r[0], []), "confirm: 0 trials, the limits ask for 10"),
    "a cell missing": (_first(lambda t: _without(t, GOOD)), "suite/p1 (cold) is missing"),
    "a control missing": (_first(lambda t: _without(t, TWIN)), "twin) is missing"),
    "a cell unplanned": (
        lambda r: (
            r[0],
            [
                replace(t, cells={**t.cells, GOOD: r[0][0].cells[GOOD]}) if not t.number else t
                for t in r[1]
            ],
        ),
        "confirm-0.json: suite/p1 (cold) is not part of this stage's plan",
    ),
    "a cell that could not be timed": (
        _first(lambda t: _empty(t, GOOD, "head's output is wrong")),
        "was not timed: head's output is wrong",
    ),
    "pairs too few": (
        _first(lambda t: with_cell(t, GOOD, **_short(t.cells[GOOD]))),
        "has 19 pairs, the limits ask for 20",
    ),
    "another head": (
        _first(lambda t: replace(t, head=replace(t.head, manifest_sha256="c"))),
        "screen-0.json: head is Arm(",
    ),
    "arms swapped": (
        _first(lambda t: replace(t, head=t.base, base=t.head)),
        "screen-0.json: base is Arm(",
    ),
    "another GPU": (
        lambda r: (
            r[0],
            [replace(t, machine=replace(t.machine, uuid="GPU-2")) for t in r[1]],
        ),
        "uuid='GPU-2'",
    ),
    "another driver": (
        _first(lambda t: replace(t, machine=replace(t.machine, driver="570"))),
        "driver='570'",
    ),
    "a seed twice": (
        lambda r: ([r[0][0], replace(r[0][1], seed=r[0][0].seed), *r[0][2:]], r[1]),
        "is shared by screen-0.json, screen-1.json: one trial counted twice?",
    ),
    "a seed of the screen again": (
        lambda r: (r[0], [replace(r[1][0], seed=r[0][0].seed), *r[1][1:]]),
        "is shared by screen-0.json, confirm-0.json",
    ),
    "a number twice": (
        _first(lambda t: replace(t, number=1)),
        "number 1 of screen is shared by",
    ),
    "a stage mistaken": (
        _first(lambda t: replace(t, stage="calibrate")),
        "is a trial of stage 'calibrate', given as 'screen'",
    ),
    "confirmation that is not fresh": (
        lambda r: (r[0], [replace(t, started=t.started - timedelta(hours=1)) for t in r[1]]),
        "before the last screening one",
    ),
}


@pytest.mark.parametrize("case", GAPS)
def test_whatever_is_missing_fails_closed(case: str) -> None:
    change, message = GAPS[case]
    result = judged(change(run({BAD: 0.05})))
    assert (result.outcome, result.exit_code) == (Outcome.INCOMPLETE, 11)
    assert any(message in reason for reason in result.reasons), result.reasons
    json.dumps(result.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    "expected, message",
    [
        (replace(EXPECTED, cells=EXPECTED.judged), "no control is planned"),
        (replace(EXPECTED, cells=EXPECTED.controls), "there is nothing to judge"),
        (replace(EXPECTED, cells=(*EXPECTED.cells, GOOD)), "is planned 2 times"),
        (replace(EXPECTED, no_pair={GOOD: "x"}), "planned and stated to have no pair"),
    ],
)
def test_a_plan_that_cannot_judge_is_incomplete(expected: Expected, message: str) -> None:
    result = judged(run(), expected)
    assert result.outcome is Outcome.INCOMPLETE
    assert any(message in reason for reason in result.reasons)


def test_nothing_measured_is_not_green() -> None:
    assert judge([], [], EXPECTED, LIMITS).outcome is Outcome.INCOMPLETE


def test_a_cell_known_to_have_no_pair_is_listed_and_spoils_nothing() -> None:
    lone = CellKey("suite", "lone", "cold")
    expected = replace(EXPECTED, no_pair={lone: "base has no kernel for it"})
    result = judged(run(), expected)
    assert (result.outcome, verdicts(result)[lone]) == (Outcome.PASS, "no-pair")
    assert result.counts["no-pair"] == 1
    assert result.cells[-1].reason == "base has no kernel for it"


def test_a_cell_that_fails_unexpectedly_has_no_pair_and_stops_the_run() -> None:
    screen, confirm = run()
    result = judged(([_empty(t, GOOD, "refused") for t in screen], confirm))
    assert result.outcome is Outcome.INCOMPLETE
    assert verdicts(result)[GOOD] == "no-pair"


# --- invariance and independence --------------------------------------------------------------------------------------


def test_neither_the_order_of_trials_nor_of_cells_matters() -> None:
    generator = np.random.default_rng(5)
    screen, confirm = run({BAD: 0.03})

    def shuffled(trials: list[Trial]) -> list[Trial]:
        cells = list(trials[0].cells)
        mixed = [cells[i] for i in generator.permutation(len(cells))]
        trials = [trials[i] for i in generator.permutation(len(trials))]
        return [replace(t, cells={key: t.cells[key] for key in mixed}) for t in trials]

    assert judged((screen, confirm)) == judged((shuffled(screen), shuffled(confirm)))
    reordered = replace(EXPECTED, cells=EXPECTED.cells[::-1])
    one = {cell.key: cell for cell in judged((screen, confirm)).cells}
    other = {cell.key: cell for cell in judged((screen, confirm), reordered).cells}
    for key, cell in one.items():
        assert (cell.verdict, cell.bootstrap) == (other[key].verdict, other[key].bootstrap)
        assert cell.p == pytest.approx(other[key].p)
        assert cell.interval == pytest.approx(other[key].interval)


def test_pairs_of_one_process_are_not_counted_as_samples() -> None:
    """Offsets of processes make pooled pairs of identical arms differ 'significantly'; the gate stays green."""
    screen, confirm = run(seed=4, arm=0.006)
    pooled = [
        stats.ttest_1samp(np.concatenate([t.cells[key].log_ratios for t in screen]), 0).pvalue
        for key in EXPECTED.judged
    ]
    assert min(pooled) * len(pooled) < 0.001  # Bonferroni's, at a tenth of a percent
    assert "fail" not in verdicts(judged((screen, confirm))).values()


def test_a_regression_in_some_processes_is_not_hidden_by_the_pairs_of_the_others() -> None:
    """Head is 8% slower in two processes of five: the median over all pairs sees nothing."""
    screen, _ = run(arm=0.001, white=0.002)
    screen = [
        with_cell(t, BAD, head_ns=t.cells[BAD].head_ns * 1.08) if t.number < 2 else t
        for t in screen
    ]
    pooled = np.concatenate([trial.cells[BAD].log_ratios for trial in screen])
    assert np.median(pooled) < math.log1p(LIMITS.margin)
    assert BAD in to_confirm(screen, EXPECTED, LIMITS)


# --- the document -----------------------------------------------------------------------------------------------------


def test_documents_that_were_read_are_judged_the_same() -> None:
    screen, confirm = run({BAD: 0.03})
    through = [
        [read_trial(json.loads(json.dumps(document(t))), t.source) for t in trials]
        for trials in (screen, confirm)
    ]
    assert judge(*through, EXPECTED, LIMITS).as_json() == judged((screen, confirm)).as_json()


def test_the_result_is_a_document_that_says_how_it_came_about() -> None:
    screen, confirm = run({BAD: 0.03})
    result = json.loads(json.dumps(judged((screen, confirm)).as_json(), allow_nan=False))
    assert (result["schema"], result["kind"], result["exit_code"]) == (1, "gate", 9)
    assert result["outcome"] == "fail"
    assert result["limits"]["margin"] == LIMITS.margin
    assert result["machine"]["uuid"] == "GPU-1"
    assert result["stages"]["confirm"]["seeds"] == [trial.seed for trial in confirm]
    assert result["stages"]["screen"]["prior_deviation"] > 0
    assert result["stages"]["confirm"]["prior_df"] == 0  # each cell's own variance alone
    cell = result["cells"][0]
    assert cell["interval"][0] < cell["ratio"] < cell["interval"][1]
    assert cell["interval"][0] < 1.03 < cell["interval"][1]
    assert (cell["trials"], cell["pairs_kept"], cell["pairs_dropped"]) == (10, 200, 0)
    assert cell["detectable"] > 1 + LIMITS.margin
    assert len(result["controls"]) == 2 * len(EXPECTED.controls)
    assert all(control["p"] is not None for control in result["controls"])
