"""A pytest plugin, loaded wherever fa3-matrix is installed: device times as pytest-benchmark's.

It does nothing until a test asks for `device_benchmark`: only then is torch imported and the GPU looked at.
"""

import math
import os
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from fa3_matrix.bench import ROUNDS, vclock
from fa3_matrix.errors import BenchError

if TYPE_CHECKING:
    from fa3_matrix.bench.timing import Clock, Samples

# Of the builds that are timed, by cell; where it is not set, those that calls may use count.
MANIFESTS = pytest.StashKey[dict[str, str]]()
_HAS_DEVICE_TIMES = pytest.StashKey[bool]()


class DeviceBenchmark:
    """What the fixture `device_benchmark` gives a test.

    `benchmark` is pytest-benchmark's own fixture, for its ``extra_info`` and ``group``.
    """

    def __init__(self, benchmark: Any) -> None:
        self.benchmark = benchmark

    def __call__(
        self, call: Callable[[], object], *, rounds: int = ROUNDS, clock: "Clock | None" = None
    ) -> "Samples":
        """Times what ``call()`` enqueues on the current stream; skips the test where there is no GPU.

        Args:
            rounds: samples, each of as many calls as take about 3 ms.
            clock: default: CUDA events; `fa3_matrix.bench.timing.HostClock` for work that is done on return.
        """
        if clock is None:
            _need_gpu()
        import random

        from fa3_matrix.bench.timing import Arm, CudaClock, interleave

        samples = interleave(
            [Arm("call", lambda: None, lambda _: call())],
            rounds=rounds,
            order=random.Random(0),
            clock=clock or CudaClock(),
        )["call"]
        self.benchmark.extra_info.update(mode=samples.mode, calls=samples.calls)
        self.replay(samples.seconds)
        return samples

    def replay(self, seconds: Sequence[float]) -> None:
        """Makes `seconds`, one entry a round, the times of this test."""
        vclock.feed(seconds)
        self.benchmark.pedantic(vclock.advance, rounds=len(seconds), iterations=1)
        # None where benchmarks are disabled, as by pytest-xdist.
        taken = self.benchmark.stats and self.benchmark.stats.stats.median
        if taken is not None and not math.isclose(taken, statistics.median(seconds)):
            raise BenchError(
                f"pytest-benchmark's median is {taken} s, that of the device times "
                f"{statistics.median(seconds)} s: another timer than fa3_matrix.bench.vclock.now was read"
            )


@pytest.fixture
def device_benchmark(benchmark: Any) -> DeviceBenchmark:
    """Device times, interleaved or of one call, in pytest-benchmark's statistics and JSON."""
    return DeviceBenchmark(benchmark)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that ask for `device_benchmark` are read by the clock that it replays device times on."""
    if "device_benchmark" not in getattr(item, "fixturenames", ()):
        return
    marker = item.get_closest_marker("benchmark")
    stated = marker.kwargs if marker else {}
    item.add_marker(pytest.mark.benchmark(**{**stated, "timer": vclock.now}), append=False)
    item.config.stash[_HAS_DEVICE_TIMES] = True


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Names the GPU, which pytest-benchmark does not know, and the builds."""
    if not config.stash.get(_HAS_DEVICE_TIMES, False):
        return
    from fa3_matrix.bench import machine
    from fa3_matrix.bench.results import manifest_sha256
    from fa3_matrix.ops.builds import available_builds

    here = machine.describe()
    machine_info["gpu"] = {
        key: here.get(key) for key in ("gpu", "driver", "uuid", "torch", "clocks")
    }
    machine_info["manifests"] = config.stash.get(MANIFESTS, None) or {
        build.cell: manifest_sha256(build.path) for build in available_builds()
    }


def _need_gpu() -> None:
    from fa3_matrix.bench import machine

    reason = machine.why_no_gpu()
    if reason and os.environ.get(machine.REQUIRE_GPU) == "1":
        pytest.fail(f"{machine.REQUIRE_GPU}=1, but {reason}")
    if reason:
        pytest.skip(reason)
