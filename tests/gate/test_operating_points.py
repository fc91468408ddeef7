"""How often the gate errs on simulated runs. docs/gate.md has the table; here fewer runs bound the same promises.

Seeds are fixed; a count is held to the bound that a gate keeping its promise exceeds with probability 1e-3.
"""

import math

import numpy as np
from scipy import stats

from .simulation import Noise, Simulator, tally

RARE = 1e-3
SIMULATOR = Simulator(cells=40, twins=4)
LIMITS = SIMULATOR.limits


def most(runs: int, chance: float) -> int:
    """The count of ``runs`` that events of at most ``chance`` stay within."""
    return int(stats.binom.isf(RARE, runs, chance))


def least(of: int, chance: float) -> int:
    """The count that events of at least ``chance`` reach."""
    return int(stats.binom.ppf(RARE, of, chance))


def test_identical_arms_hardly_ever_fail_and_void_as_rarely_as_stated() -> None:
    """The margin makes a failure far rarer than alpha; none in 150 runs bounds it at 4.5% with 99.9%."""
    found = tally(SIMULATOR, 1, 150, 0, 1.0)
    assert found.false_fails == 0
    assert found.void <= most(found.runs, LIMITS.control_alpha)


def test_with_every_cell_at_the_margin_a_run_fails_as_often_as_stated() -> None:
    """The worst truth that may not fail, so alpha is used up: not more, and not next to nothing either."""
    runs = 200
    found = tally(SIMULATOR, 2, runs, 0, 1.0, others=1 + LIMITS.margin)
    assert least(runs, 0.01) < found.false_fails <= most(runs, LIMITS.alpha)


def test_a_cell_noisier_than_the_rest_is_confirmed_no_more_often_than_stated() -> None:
    """Flagged cells are flagged in part for their noise; the calm controls beside them lend it no certainty."""
    simulator = Simulator(cells=1, twins=20, noise=Noise(unequal=0.0))
    keys = simulator.expected.cells
    factors = {key: 1.0 if key.control else 2.0 for key in keys}
    slower = {keys[0]: math.log1p(LIMITS.margin)}
    generator = np.random.default_rng(1)
    runs = 300
    p = []
    for _ in range(runs):
        trials = simulator.trials(generator, "confirm", keys, factors, slower)
        p.append(simulator.stage(trials, keys).p(keys[0]))
    found = sum(each is not None and each <= LIMITS.alpha for each in p)
    assert least(runs, LIMITS.alpha) <= found <= most(runs, LIMITS.alpha)


def test_two_percent_is_caught_nine_times_in_ten() -> None:
    found = tally(SIMULATOR, 3, 40, 5, 1.02)
    assert found.caught >= least(found.slowed, 0.90)
    assert found.false_fails <= most(found.runs, LIMITS.alpha)


def test_five_percent_is_caught_and_never_passed() -> None:
    found = tally(SIMULATOR, 4, 40, 5, 1.05)
    assert found.caught >= least(found.slowed, 0.99)
    assert found.passed == 0
