"""Trials in processes of their own: what they are told, and what becomes of one that fails."""

import random
from pathlib import Path

import pytest

from fa3_matrix import _json
from fa3_matrix.bench import machine
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.bench.trial_plan import Plan, PlannedCell, twins
from fa3_matrix.bench.trials import run_trials
from fa3_matrix.errors import BenchError

PROBLEM = "dense_bf16_d64_h1-1_b1_q70_k90_causal_s1"


@pytest.fixture
def plan(write_build, tmp_path) -> Plan:
    return Plan(
        base=write_build(tmp_path / "base"),
        base_name="base",
        heads={"head": write_build(tmp_path / "head")},
        cells=[PlannedCell("gate", PROBLEM), PlannedCell("gate", PROBLEM, "twin")],
        stage="screen",
        pairs=3,
    )


def test_a_plan_survives_its_file(plan, tmp_path):
    path = tmp_path / "plan.json"
    _json.write_atomic(path, plan.trial(4, 77).as_json())
    assert Plan.read(path) == plan.trial(4, 77)


def test_a_tenth_of_the_cells_has_a_twin_the_first_one_among_them():
    problems = [("gate", p) for p in suite_problems("gate")]
    planned = twins(problems)
    assert len(planned) == -(-len(problems) // 10)
    assert planned[0] == PlannedCell("gate", problems[0][1].id, "twin")
    assert {Problem.parse(cell.problem) for cell in planned} <= {p for _, p in problems}


@pytest.mark.skipif(not machine.why_no_gpu(), reason="there is a GPU: tests/gpu/test_trial.py")
def test_a_failed_trial_ends_the_run_and_says_why(plan):
    done = []
    with pytest.raises(BenchError, match=r"(?s)trial 0 of screen failed.*a trial needs a GPU"):
        run_trials(plan, 3, random.Random(1), done=done.append)
    assert not done


def test_no_trials(plan):
    assert run_trials(plan, 0, random.Random(1)) == []


def test_a_plan_that_is_none(tmp_path):
    path = Path(tmp_path, "plan.json")
    path.write_text('{"schema": 7}')
    with pytest.raises(Exception, match="schema is 7"):
        Plan.read(path)
