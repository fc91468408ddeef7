"""Every build against fp32 references: random problems, then the cases that broke other libraries."""

from pathlib import Path

import pytest

from fa3_matrix.bench.builds import BuildArm
from fa3_matrix.bench.correctness import run
from fa3_matrix.bench.correctness_command import command_for
from fa3_matrix.bench.fixed_problems import fixed_problems
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems

pytestmark = pytest.mark.gpu


def check(build: Path, problems: list[Problem]) -> None:
    tally = run(problems, {"build": BuildArm.open(build).kernel()}, "cuda")["build"]
    lines = [
        f"{failure.reason}\n    {command_for(build, failure.problem)}" for failure in tally.failures
    ]
    assert not lines, "\n".join([f"{len(lines)} of {tally.run} failed:", *lines])
    assert tally.passed == len(problems)


def test_random_problems(build: Path, chunk: range, request: pytest.FixtureRequest):
    seed = request.config.getoption("--fa3-seed", default=0)
    check(build, random_problems(seed, chunk.stop)[chunk.start :])


@pytest.mark.parametrize("name", fixed_problems())
def test_fixed_case(build: Path, name: str):
    check(build, [fixed_problems()[name]])
