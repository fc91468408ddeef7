"""Device time of several arms, measured interleaved: in each round every arm once, in random order.

Clocks, temperature and other tenants then touch all arms alike; block order (all of one arm, then all of the next)
turns such drift into a difference between arms.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

# A sample holds as many calls as take about this long, so that the clock's grid (0.5 us) and the gap before the first
# kernel stay far below a percent.
SAMPLE_SECONDS = 3e-3
# Below this a call's host time may exceed its device time, and launches would be timed instead of kernels.
GRAPH_BELOW_SECONDS = 150e-6
_MOST_CALLS = 400


@dataclass(frozen=True)
class Arm:
    """Something to time.

    Args:
        name: of a build or a peer.
        prepare: makes this arm the one that `call` uses; runs before each sample, outside the timed window.
        call: enqueues the work once. Its argument counts calls, to rotate among inputs.
    """

    name: str
    prepare: Callable[[], None]
    call: Callable[[int], object]


class Clock(Protocol):
    """Marks in the order of the work."""

    def mark(self) -> Any: ...

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two marks that have been reached."""

    def wait(self) -> None:
        """Until all work so far is done."""


class CudaClock:
    """CUDA events on the current stream."""

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) * 1e-3

    def wait(self) -> None:
        torch.cuda.synchronize()


class HostClock:
    """For work that is done when the call returns."""

    def mark(self) -> Any:
        return time.perf_counter()

    def seconds(self, begin: Any, end: Any) -> float:
        return float(end - begin)

    def wait(self) -> None:
        return


@dataclass(frozen=True)
class Samples:
    """Seconds a call, one entry a round, of `calls` calls in one "graph" or as many "launch"es."""

    seconds: list[float]
    calls: int
    mode: str

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Interquartile range over the median; 0 of a single sample."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / self.median


@dataclass(frozen=True)
class Work:
    """What one sample of each arm runs: `calls` calls in one "graph" or as many "launch"es."""

    calls: int
    mode: str
    _bodies: dict[str, Callable[[], None]]

    @classmethod
    def of(
        cls, arms: Sequence[Arm], clock: Clock, sample_seconds: float, least_calls: int = 1
    ) -> "Work":
        """As many calls as take the fastest arm about `sample_seconds`; see `interleave`."""
        fastest = min(_estimate(arm, clock, least_calls) for arm in arms)
        calls = max(least_calls, min(round(sample_seconds / fastest), _MOST_CALLS), 1)
        graphs = isinstance(clock, CudaClock) and fastest < GRAPH_BELOW_SECONDS
        make = _graph if graphs else _launches
        bodies = {arm.name: make(arm, calls) for arm in arms}
        return cls(calls, "graph" if graphs else "launch", bodies)

    def sample(self, arm: Arm, clock: Clock) -> tuple[Any, Any]:
        """Enqueue a sample; return its marks."""
        arm.prepare()
        # Untimed: while it runs the host enqueues the timed work, which then starts without a gap. Of the inputs that
        # come last, so that the first timed ones aren't in the cache.
        arm.call(-1)
        begin = clock.mark()
        self._bodies[arm.name]()
        return begin, clock.mark()


def interleave(
    arms: Sequence[Arm],
    *,
    rounds: int,
    order: random.Random,
    clock: Clock,
    sample_seconds: float = SAMPLE_SECONDS,
    least_calls: int = 1,
) -> dict[str, Samples]:
    """Samples of each arm, all of the same number of calls.

    Args:
        order: shuffles the arms of a round.
        least_calls: of a sample; give the number of inputs that `Arm.call` rotates among.
    """
    work = Work.of(arms, clock, sample_seconds, least_calls)
    marks: dict[str, list[tuple[Any, Any]]] = {arm.name: [] for arm in arms}
    for _ in range(rounds):
        for arm in order.sample(list(arms), len(arms)):
            marks[arm.name].append(work.sample(arm, clock))
        # Bounds the work in flight.
        clock.wait()
    return {
        name: Samples([clock.seconds(*pair) / work.calls for pair in pairs], work.calls, work.mode)
        for name, pairs in marks.items()
    }


def launch_seconds(arm: Arm, clock: Clock, repeats: int = 9) -> float:
    """Median host time of one call on an idle device: what a caller waits for before it can go on."""
    arm.prepare()
    arm.call(0)
    times = []
    for i in range(repeats):
        clock.wait()
        begin = time.perf_counter()
        arm.call(i)
        times.append(time.perf_counter() - begin)
    clock.wait()
    return statistics.median(times)


def _estimate(arm: Arm, clock: Clock, calls: int) -> float:
    """Seconds a call, after a first round that loads kernels and touches every input."""
    arm.prepare()
    for i in range(calls):
        arm.call(i)
    begin = clock.mark()
    for i in range(calls):
        arm.call(i)
    end = clock.mark()
    clock.wait()
    return max(clock.seconds(begin, end) / calls, 1e-7)


def _launches(arm: Arm, calls: int) -> Callable[[], None]:
    def body() -> None:
        for i in range(calls):
            arm.call(i)

    return body


def _graph(arm: Arm, calls: int) -> Callable[[], None]:
    arm.prepare()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            arm.call(i)
    return lambda: graph.replay()
