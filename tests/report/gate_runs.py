"""Judged runs as the gate's runner leaves them: simulated trials of real problems, and what the gate says of them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from fa3_matrix import _json
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.gate.completeness import Expected
from fa3_matrix.gate.estimates import compare
from fa3_matrix.gate.trials import CellKey, Trial, read_trial
from fa3_matrix.gate.verdict import judge
from fa3_matrix.report import model
from fa3_matrix.report.inputs import Inputs, Json

from ..gate.simulation import BASE, HEAD, Simulator, document
from .conftest import BuildFolder, load_matrix

PROBLEMS = {problem.id: problem for problem in suite_problems("gate", load_matrix())}
CELLS = [CellKey("gate", problem, "cold") for problem in PROBLEMS]
LONE = CELLS.pop(2)
TWINS = [key._replace(control="twin") for key in CELLS[::6]]
SLOW, NOISY, *_ = CELLS
NO_KERNEL = "base has no kernel for it"


@dataclass(frozen=True)
class Suite(Simulator):
    """Of the suite `gate`'s problems, one of which has no pair, with twins."""

    @property
    def expected(self) -> Expected:
        return Expected(BASE, HEAD, (*CELLS, *TWINS), {LONE: NO_KERNEL})


def _dropping(trial: Trial, key: CellKey) -> Trial:
    if key not in trial.cells:
        return trial
    dropped = ("throttled",) * 8 + (None,) * 12
    return replace(trial, cells={**trial.cells, key: replace(trial.cells[key], dropped=dropped)})


@cache
def _run(outcome: str) -> str:
    slower = {"fail": {SLOW: 0.04}, "void": {SLOW: 0.04, TWINS[0]: 0.04}}.get(outcome, {})
    suite = Suite(cells=0, twins=0)
    effects = {key: math.log1p(share) for key, share in slower.items()}
    screen, confirm = suite.run(np.random.default_rng(2), effects)
    if outcome in ("fail", "inconclusive"):
        screen, confirm = ([_dropping(trial, NOISY) for trial in ts] for ts in (screen, confirm))
    if outcome == "incomplete":
        screen, confirm = screen[:3], []
    result = judge(screen, confirm, suite.expected, suite.limits).as_json()
    assert result["outcome"] == outcome
    trials = [document(trial) for trial in (*screen, *confirm)]
    for cells in (result["cells"], result["controls"], *(trial["cells"] for trial in trials)):
        for cell in cells:
            cell["label"] = PROBLEMS[cell["problem"]].label
    return json.dumps([result, trials])


def run(outcome: str) -> tuple[Json, list[Json]]:
    """The gate's document with that outcome, and those of its trials: copies, to be changed at will.

    "fail": `SLOW` fails, `NOISY` is inconclusive.
    """
    result, trials = json.loads(_run(outcome))
    return result, trials


def compared() -> Json:
    """What `gate compare` leaves of two trials: a document without verdicts."""
    return compare([read_trial(trial, "trials.json") for trial in run("pass")[1][:2]]).as_json()


def assembled(
    gate: Json | None,
    trials: list[Json] | None = None,
    static_gate: Json | None = None,
    manifest_sha256: Mapping[str, str] | None = None,
) -> Json:
    """The report's data of these documents alone."""
    inputs = Inputs(
        manifests={},
        manifest_sha256=dict(manifest_sha256 or {}),
        timings={},
        comparisons={},
        results={},
        peers=None,
        gate=gate,
        trials=trials,
        static_gate=static_gate,
        comparison=None,
        migrate=None,
        behaviour=None,
        history=Path("no such folder"),
    )
    return model.assemble(load_matrix(), inputs)


def write(build: BuildFolder, gate: Json, trials: list[Json]) -> None:
    _json.write_atomic(build.path / "results" / "gate.json", gate)
    _json.write_atomic(build.path / "results" / "trials.json", {"trials": trials})


def cell_of(cells: list[Json], key: CellKey) -> Json:
    """The entry of one cell in a document's list."""
    return next(
        cell
        for cell in cells
        if CellKey(cell["suite"], cell["problem"], cell["mode"], cell["control"]) == key
    )
