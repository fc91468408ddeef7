"""The tests that ``python -m fa3_matrix.bench run`` hands to pytest: one for each arm and problem that it has timed."""

import pytest

from fa3_matrix.bench.measure import Measurement
from fa3_matrix.bench.performance import Performance
from fa3_matrix.bench.plugin import DeviceBenchmark
from fa3_matrix.bench.problems import Problem

PERFORMANCE = pytest.StashKey[Performance]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize(
        "arm, suite, problem, measured",
        [
            pytest.param(*entry, id="-".join((entry[0], entry[1], entry[2].id)))
            for entry in metafunc.config.stash[PERFORMANCE].entries()
        ],
    )


def test_forward(
    device_benchmark: DeviceBenchmark,
    pytestconfig: pytest.Config,
    arm: str,
    suite: str,
    problem: Problem,
    measured: Measurement,
) -> None:
    """Device time of the forward pass."""
    benchmark = device_benchmark.benchmark
    benchmark.group = f"{suite}: {problem.label}"
    row = pytestconfig.stash[PERFORMANCE].row(arm, suite, problem, measured)
    benchmark.extra_info.update({"cell": arm, **row})
    device_benchmark.replay(measured.samples.seconds)
