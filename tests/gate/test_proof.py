"""Runs drawn from calibrating trials: none is used twice, and what is put in is what is counted."""

from dataclasses import replace

import numpy as np
import pytest

from fa3_matrix.gate import proof
from fa3_matrix.gate.proof import Calibration, prove
from fa3_matrix.gate.trials import Arm, CellKey, Trial, TrialCell
from fa3_matrix.matrix import load

from .simulation import _EPOCH, BASE, MACHINE

LIMITS = replace(load().gate, screen_trials=3, confirm_trials=5, pairs=8)
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
    alike = prove([MEASURED], "same", 0, LIMITS, runs=40, seed=1)
    assert alike.false_fails.happened == 0
    assert str(alike.false_fails) == "0/40 (0.0% to 8.8%)"
    assert str(alike.found) == "-"
    slower = prove([MEASURED], "slow", 4, LIMITS, runs=40, seed=1)
    assert (slower.found.happened, slower.found.of) == (160, 160)
    assert slower.false_fails.happened == 0


def test_controls_are_never_slowed_so_that_they_void_nothing():
    everything = prove([MEASURED], "slow", len(KEYS) - 2, LIMITS, runs=10, seed=2)
    assert everything.found.happened == everything.found.of == 100
    assert everything.voids.happened == 0
    with pytest.raises(ValueError, match="larger than population"):
        prove([MEASURED], "slow", len(KEYS) - 1, LIMITS, runs=1, seed=2)


def test_a_run_is_of_one_calibration_and_each_has_its_share(monkeypatch):
    other = calibration(24, {"same": 0.0, "slow": 0.03})
    of = {id(t): name for name, c in (("12", MEASURED), ("24", other)) for t in c.trials["same"]}
    drawn = []
    original = proof._trial

    def watched(source, index, *rest):
        drawn.append(of[id(source.trials["same"][index])])
        return original(source, index, *rest)

    monkeypatch.setattr(proof, "_trial", watched)
    prove([MEASURED, other], "slow", 2, LIMITS, runs=60, seed=5)
    runs = [set(drawn[i : i + 8]) for i in range(0, len(drawn), 8)]
    assert all(len(run) == 1 for run in runs)
    assert 30 <= runs.count({"24"}) <= 50


def test_no_trial_is_used_twice_in_a_run(monkeypatch):
    used = []

    class Watched(proof.Stage):
        def __init__(self, name, trials, keys, limits):
            used.append((name, [trial.source for trial in trials]))
            super().__init__(name, trials, keys, limits)

    monkeypatch.setattr(proof, "Stage", Watched)
    prove([MEASURED], "slow", 4, LIMITS, runs=5, seed=3)
    screens = [sources for name, sources in used if name == "screen"]
    confirms = [sources for name, sources in used if name == "confirm"]
    assert len(screens) == len(confirms) == 5
    for screen, confirm in zip(screens, confirms, strict=True):
        assert len({*screen, *confirm}) == LIMITS.screen_trials + LIMITS.confirm_trials


def test_too_few_trials():
    with pytest.raises(ValueError, match="7 trials, a run takes 8: measure more"):
        prove([calibration(7, {"same": 0.0})], "same", 0, LIMITS, runs=1, seed=1)
