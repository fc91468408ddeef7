"""Single runs side by side, without a gate."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fa3_matrix.gate.estimates import compare
from fa3_matrix.gate.trials import Trial, TrialError

from .simulation import Simulator


@pytest.fixture
def trials() -> list[Trial]:
    simulator = Simulator(cells=3, twins=0)
    slow = {simulator.expected.cells[0]: np.log(1.1)}
    screen, _ = simulator.run(np.random.default_rng(1), slow)
    return screen


def test_one_trial_has_a_ratio_but_no_spread_between_processes(trials: list[Trial]) -> None:
    comparison = compare(trials[:1])
    cell = comparison.cells[0]
    assert cell.ratio == pytest.approx(1.1, rel=0.01)
    assert cell.interval is None
    assert cell.bootstrap is not None
    assert cell.base_us == pytest.approx(1000, rel=0.05)
    assert cell.head_us == pytest.approx(1100, rel=0.05)


def test_several_trials_have_an_interval_and_no_verdict(trials: list[Trial]) -> None:
    document = json.loads(json.dumps(compare(trials).as_json(), allow_nan=False))
    assert (document["schema"], document["kind"]) == (1, "comparison")
    low, high = document["cells"][0]["interval"]
    assert low < 1.1 < high
    assert "verdict" not in document["cells"][0]


def test_the_order_of_trials_does_not_matter(trials: list[Trial]) -> None:
    assert compare(trials).cells == compare(trials[::-1]).cells


def test_a_cell_that_no_trial_timed_is_listed_with_the_reason(trials: list[Trial]) -> None:
    key = next(iter(trials[0].cells))
    gone = [
        replace(t, cells={**t.cells, key: replace(t.cells[key], failed="refused")}) for t in trials
    ]
    comparison = compare(gone)
    assert [(row["problem"], row["reason"]) for row in comparison.not_timed] == [("p0", "refused")]
    assert len(comparison.cells) == 2


def test_a_cell_that_one_trial_lacks_has_no_interval(trials: list[Trial]) -> None:
    key = next(iter(trials[0].cells))
    some = replace(
        trials[0], cells={**trials[0].cells, key: replace(trials[0].cells[key], failed="refused")}
    )
    cells = {cell.key: cell for cell in compare([some, *trials[1:]]).cells}
    assert (cells[key].trials, cells[key].interval) == (4, None)


def test_other_arms_are_not_mixed(trials: list[Trial]) -> None:
    other = replace(trials[1], head=trials[1].base)
    with pytest.raises(TrialError, match=r"screen-1.json and screen-0.json compare different arms"):
        compare([trials[0], other])
    with pytest.raises(TrialError, match="no trial to compare"):
        compare([])
