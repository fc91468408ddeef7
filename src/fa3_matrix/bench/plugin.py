"""Gives `fa3_matrix.bench.cases` its builds and problems, and pytest-benchmark's JSON the GPU."""

from typing import Any

import pytest

from fa3_matrix.bench import machine
from fa3_matrix.bench.performance import Performance

PERFORMANCE = pytest.StashKey[Performance]()


class PerformancePlugin:
    """Registered by ``python -m fa3_matrix.bench run``, which reads the times from `performance` afterwards."""

    def __init__(self, performance: Performance) -> None:
        self._performance = performance

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[PERFORMANCE] = self._performance

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each problem and build, builds of a problem side by side."""
        cases = [
            pytest.param(cell, suite, problem, id=f"{cell}-{suite}-{problem.id}")
            for suite, problems in self._performance.suites.items()
            for problem in problems
            for cell in self._performance.builds
        ]
        metafunc.parametrize("cell, suite, problem", cases)

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_machine_info(
        self,
        config: pytest.Config,  # noqa: ARG002 (the hook's)
        machine_info: dict[str, Any],
    ) -> None:
        """pytest-benchmark knows the CPU only."""
        here = machine.describe()
        machine_info["gpu"] = {key: here.get(key) for key in ("gpu", "driver", "uuid", "torch")}
