"""Runs drawn from calibrating trials: none is used twice, and what is put in is what is counted."""

import numpy as np
import pytest

from fa3_matrix.gate import proof
from fa3_matrix.gate.proof import Calibration, prove
from fa3_matrix.gate.trials import Arm, CellKey, Trial, TrialCell
from fa3_matrix.matrix import GateLimits

from .simulation import _EPOCH, BASE, MACHINE

LIMITS = GateLimits(screen_trials=3, confirm_trials=5, pairs=8)
KEYS = [CellKey("gate", f"p{i:02}", "cold") for i in range(12)]


def calibration(processes: int, heads: dict[str, float]) -> Calibration:
    draw = np.random.default_rng(4)

    def trial(head: str, longer: float, number: int) -> Trial:
        def cell(key: CellKey) -> TrialCell:
            base, slow = np.exp(draw.normal([[0.0], [longer]], 0.003, (2, 8)))
            first = np.arange(8) % 2 == 0
            return TrialCell(key, str(key), None, first, base, slow, (None,) * 8)

        return Trial(
            f"{number}",
            "calibrate",
            number,
            number,
            _EPOCH,
            BASE,
            Arm(head, "cell", "c" * 64),
            MACHINE,
            {key: cell(key) for key in KEYS},
        )

    return Calibration(
        {head: [trial(head, x, n) for n in range(processes)] for head, x in heads.items()}
    )


MEASURED = calibration(12, {"same": 0.0, "slow": 0.03})


def test_the_same_build_passes_and_a_slower_one_is_found():
    alike = prove(MEASURED, "same", 0, LIMITS, runs=40, seed=1)
    assert alike.false_fails.happened == 0
    assert str(alike.false_fails) == "0/40 (0.0% to 8.8%)"
    assert str(alike.found) == "-"
    slower = prove(MEASURED, "slow", 4, LIMITS, runs=40, seed=1)
    assert (slower.found.happened, slower.found.of) == (160, 160)
    assert slower.false_fails.happened == 0


def test_controls_are_never_slowed_so_that_they_void_nothing():
    everything = prove(MEASURED, "slow", len(KEYS) - 2, LIMITS, runs=10, seed=2)
    assert everything.found.happened == everything.found.of == 100
    assert everything.voids.happened == 0
    with pytest.raises(ValueError, match="larger than population"):
        prove(MEASURED, "slow", len(KEYS) - 1, LIMITS, runs=1, seed=2)


def test_no_trial_is_used_twice_in_a_run(monkeypatch):
    used = []

    class Watched(proof.Stage):
        def __init__(self, name, trials, keys, limits):
            used.append((name, [trial.source for trial in trials]))
            super().__init__(name, trials, keys, limits)

    monkeypatch.setattr(proof, "Stage", Watched)
    prove(MEASURED, "slow", 4, LIMITS, runs=5, seed=3)
    screens = [sources for name, sources in used if name == "screen"]
    confirms = [sources for name, sources in used if name == "confirm"]
    assert len(screens) == len(confirms) == 5
    for screen, confirm in zip(screens, confirms, strict=True):
        assert len({*screen, *confirm}) == LIMITS.screen_trials + LIMITS.confirm_trials


def test_too_few_trials():
    with pytest.raises(ValueError, match="7 trials, a run takes 8: measure more"):
        prove(calibration(7, {"same": 0.0}), "same", 0, LIMITS, runs=1, seed=1)
