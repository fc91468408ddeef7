"""A trial document reads as it was written; whatever is wrong with one is an error that names the entry."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fa3_matrix.gate.trials import CellKey, Trial, TrialError, by_cell, read_trial

from .simulation import MACHINE, Simulator, document

Document = dict[str, Any]


@pytest.fixture
def trials() -> list[Trial]:
    screen, _ = Simulator(cells=3, twins=1).run(np.random.default_rng(1), {})
    return screen


@pytest.fixture
def written(trials: list[Trial]) -> Document:
    parsed: Document = json.loads(json.dumps(document(trials[0])))
    return parsed


def test_what_is_written_is_read(trials: list[Trial], written: Document) -> None:
    trial = read_trial(written, "x.json")
    assert (trial.machine, trial.base, trial.head) == (MACHINE, trials[0].base, trials[0].head)
    assert (trial.seed, trial.number, trial.stage) == (trials[0].seed, 0, "screen")
    assert list(trial.cells) == list(trials[0].cells)
    for key, cell in trial.cells.items():
        assert cell.statistic == trials[0].cells[key].statistic
        assert cell.order_effect == trials[0].cells[key].order_effect


def test_the_statistic_is_the_median_over_kept_pairs(written: Document) -> None:
    pairs = written["cells"][0]["pairs"]
    pairs["base_ns"] = [100] * 20
    pairs["head_ns"] = [110] * 9 + [400] * 2 + [90] * 9
    pairs["dropped"] = [None] * 9 + ["throttled", "foreign process"] + [None] * 9
    pairs["head_ns"][0] = 10**9
    pairs["dropped"][17] = "throttled"  # leaves 9 above and 8 below
    cell = next(iter(read_trial(written, "x.json").cells.values()))
    assert cell.statistic == pytest.approx(math.log(1.1))
    assert cell.drop_reasons == {"throttled": 2, "foreign process": 1}
    assert len(cell.log_ratios) == 17


def test_the_order_effect_sees_an_arm_slowed_by_coming_first(written: Document) -> None:
    pairs = written["cells"][0]["pairs"]
    first = np.array(pairs["first"])
    pairs["base_ns"] = np.where(first == "base", 102.0, 100.0).tolist()
    pairs["head_ns"] = np.where(first == "head", 102.0, 100.0).tolist()
    cell = next(iter(read_trial(written, "x.json").cells.values()))
    assert cell.order_effect == pytest.approx(2 * math.log(1.02))


def test_no_kept_pair_has_no_statistic(written: Document) -> None:
    written["cells"][0]["pairs"]["dropped"] = ["throttled"] * 20
    cell = next(iter(read_trial(written, "x.json").cells.values()))
    assert math.isnan(cell.statistic)


def test_a_failed_cell_needs_no_pairs(written: Document) -> None:
    written["cells"][0] |= {"failed": "refused", "pairs": None}
    cell = next(iter(read_trial(written, "x.json").cells.values()))
    assert (cell.failed, len(cell.dropped)) == ("refused", 0)


def test_cells_are_grouped_over_trials(trials: list[Trial]) -> None:
    cells = by_cell(trials)
    assert [len(each) for each in cells.values()] == [5] * 4
    assert CellKey("suite", "p0", "cold", "twin") in cells


def _pairs(doc: Document) -> Document:
    pairs: Document = doc["cells"][1]["pairs"]
    return pairs


BREAKS: dict[str, tuple[Callable[[Document], object], str]] = {
    "schema": (lambda d: d.update(schema=2), "x.json: schema = 2: must be one of 1"),
    "kind": (lambda d: d.update(kind="report"), "kind = 'report': must be one of trial"),
    "stage": (lambda d: d.update(stage="again"), "stage = 'again': must be one of screen, confirm"),
    "seed missing": (lambda d: d.pop("seed"), "x.json: seed is missing"),
    "seed as text": (lambda d: d.update(seed="1"), "seed = '1': must be of type int"),
    "number as truth": (lambda d: d.update(number=True), "number = True: must be of type int"),
    "time": (lambda d: d.update(started="today"), "started must be a time such as"),
    "local time": (lambda d: d.update(started="2030-01-31T22:00:00"), "must state its offset"),
    "load order": (lambda d: d.update(load_order=["base"]), "load_order must hold both"),
    "arm missing": (lambda d: d["arms"].pop("head"), "x.json: arms: head is missing"),
    "gpu without uuid": (lambda d: d["gpu"].update(uuid=""), "x.json: gpu: uuid is empty"),
    "cell that is no object": (lambda d: d["cells"].append(3), "cells[4]: must be an object"),
    "cell twice": (
        lambda d: d["cells"].append(d["cells"][0]),
        "cells holds suite/p0 (cold) twice",
    ),
    "control": (
        lambda d: d["cells"][1].update(control="sibling"),
        "x.json: cells[1]: control = 'sibling': must be one of None, twin, same-sass",
    ),
    "no pairs": (
        lambda d: _pairs(d).update({key: [] for key in _pairs(d)}),
        "cells[1]: pairs: first holds no pair",
    ),
    "column too short": (
        lambda d: _pairs(d)["head_ns"].pop(),
        "cells[1]: pairs: head_ns has 19 entries, first has 20",
    ),
    "time of zero": (lambda d: _pairs(d)["base_ns"].__setitem__(3, 0), "finite times above 0"),
    "time missing": (lambda d: _pairs(d)["base_ns"].__setitem__(3, None), "base_ns holds None"),
    "infinite time": (
        lambda d: _pairs(d)["base_ns"].__setitem__(3, math.inf),
        "finite times above 0",
    ),
    "NaN": (lambda d: _pairs(d)["base_ns"].__setitem__(3, math.nan), "finite times above 0"),
    "order": (
        lambda d: _pairs(d)["first"].__setitem__(0, "tail"),
        "first holds 'tail': must be among base, head",
    ),
    "dropped without a cause": (
        lambda d: _pairs(d)["dropped"].__setitem__(0, True),
        "dropped holds True",
    ),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_broken_document_names_the_entry(written: Document, case: str) -> None:
    change, message = BREAKS[case]
    change(written)
    with pytest.raises(TrialError) as caught:
        read_trial(written, "x.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.json")
