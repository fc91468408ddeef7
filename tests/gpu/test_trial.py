"""A trial on a GPU gives the document that the gate reads, and a copy of a build is as fast as the build."""

import random
import shutil
from pathlib import Path

import pytest

from fa3_matrix.bench.trial_plan import Plan, PlannedCell
from fa3_matrix.bench.trials import run_trials
from fa3_matrix.gate.trials import read_trial

pytestmark = pytest.mark.gpu

PROBLEMS = (
    "dense_bf16_d64_h16-16_b4_q512_k512_causal_s0",
    "cache_bf16_d64_h8-2_b4_q1_k2048_uk2000.1500.2047.1_p64_new1_s0",
)


def test_trials_of_a_build_and_its_copy(build: Path, tmp_path: Path):
    pytest.importorskip("scipy")
    copy = Path(shutil.copytree(build, tmp_path / "copy" / "fa3"))
    cells = [PlannedCell("smoke", problem) for problem in PROBLEMS]
    plan = Plan(
        base=build,
        base_name="base",
        heads={"head": copy},
        cells=[*cells, PlannedCell("smoke", PROBLEMS[0], "twin")],
        stage="screen",
        pairs=8,
    )
    trials = [
        read_trial(document, "trial") for (document,) in run_trials(plan, 2, random.Random(3))
    ]
    assert [trial.number for trial in trials] == [0, 1]
    assert trials[0].seed != trials[1].seed
    for trial in trials:
        assert {(key.problem, key.control) for key in trial.cells} == {
            *((problem, None) for problem in PROBLEMS),
            (PROBLEMS[0], "twin"),
        }
        for cell in trial.cells.values():
            assert cell.failed is None
            assert len(cell.base_ns) == 8
            assert set(cell.head_first.tolist()) == {True, False}
            # The code is the same; a tenth is far beyond what a process adds.
            assert abs(cell.statistic) < 0.1
