"""The tests that ``python -m fa3_matrix.bench run`` hands to pytest: one for each build and problem.

They need `fa3_matrix.bench.plugin`, which names the builds and problems.
"""

from typing import Any

import pytest

from fa3_matrix.bench import vclock
from fa3_matrix.bench.performance import Performance
from fa3_matrix.bench.plugin import PERFORMANCE
from fa3_matrix.bench.problems import Problem


@pytest.fixture
def performance(pytestconfig: pytest.Config) -> Performance:
    """What the plugin was given."""
    return pytestconfig.stash[PERFORMANCE]


def test_forward(
    benchmark: Any, performance: Performance, cell: str, suite: str, problem: Problem
) -> None:
    """Device time of the forward pass."""
    benchmark.group = f"{suite}: {problem.label}"
    measured = performance.measurement(cell, problem)
    row = performance.row(cell, suite, problem)
    benchmark.extra_info.update({"cell": cell, **row})
    vclock.feed(measured.samples.seconds)
    benchmark.pedantic(vclock.advance, rounds=len(measured.samples.seconds), iterations=1)
    # A replay that lost a sample would report times that nobody measured.
    assert benchmark.stats.stats.median == pytest.approx(measured.samples.median)
