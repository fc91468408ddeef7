"""Device time of several arms, measured interleaved: in each round every arm once, in random order.

Clocks, temperature and other tenants then touch all arms alike; block order (all of one arm, then all of the next)
turns such drift into a difference between arms.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from fa3_matrix.bench.results import first_line

# A sample holds as many calls as take about this long, so that the clock's grid (0.5 us) and the gap before the first
# kernel stay far below a percent.
SAMPLE_SECONDS = 3e-3
# Below this a call's host time may exceed its device time, and launches would be timed instead of kernels.
GRAPH_BELOW_SECONDS = 150e-6
_MOST_CALLS = 400
_LAUNCH_ROUNDS = 25
# Past any L2, so that filling it takes the memory's time; as often as takes a GPU of 4 TB/s above a millisecond.
_FILLED_BYTES = 2**28
_FILLS = 20


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
    """Marks in the order of the work, and what else the kind of device decides."""

    def mark(self) -> Any: ...

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two marks that have been reached."""

    def wait(self) -> None:
        """Until all work so far is done."""

    def occupy(self) -> None:
        """Keep the device busy for about a millisecond, in which the host can enqueue more."""

    def capture(self, body: Callable[[], object]) -> Callable[[], object]:
        """What enqueues again what `body` enqueues. Raises RuntimeError when that cannot be captured."""


class CudaClock:
    """CUDA events on the current stream; captures are CUDA graphs."""

    def __init__(self) -> None:
        self._filled: torch.Tensor | None = None

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) * 1e-3

    def wait(self) -> None:
        torch.cuda.synchronize()

    def occupy(self) -> None:
        if self._filled is None:
            self._filled = torch.empty(_FILLED_BYTES, dtype=torch.uint8, device="cuda")
        for _ in range(_FILLS):
            self._filled.zero_()

    def capture(self, body: Callable[[], object]) -> Callable[[], object]:
        graph = torch.cuda.CUDAGraph()
        try:
            # The outer one gives the current stream back, which a capture that fails does not.
            with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
                body()
        except RuntimeError as error:
            # Ending a broken capture fails as well; what broke it says why.
            raise RuntimeError(first_line(error.__context__ or error)) from error
        return partial(torch.cuda.CUDAGraph.replay, graph)


class HostClock:
    """For work that is done when the call returns."""

    def mark(self) -> Any:
        return time.perf_counter()

    def seconds(self, begin: Any, end: Any) -> float:
        return float(end - begin)

    def wait(self) -> None:
        return

    def occupy(self) -> None:
        return

    def capture(self, body: Callable[[], object]) -> Callable[[], object]:
        return body


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
    _bodies: dict[str, Callable[[], object]]

    @classmethod
    def of(
        cls,
        arms: Sequence[Arm],
        clock: Clock,
        sample_seconds: float,
        least_calls: int = 1,
        graph_below_seconds: float = GRAPH_BELOW_SECONDS,
    ) -> "Work":
        """As many calls as take the fastest arm about `sample_seconds`; see `interleave`.

        Short ones in graphs, unless an arm cannot be captured: a comparison of one's graph with another's launches
        would be of neither.
        """
        fastest = min(_estimate(arm, clock, least_calls) for arm in arms)
        calls = max(least_calls, min(round(sample_seconds / fastest), _MOST_CALLS), 1)
        bodies: dict[str, Callable[[], object]] = {arm.name: _launches(arm, calls) for arm in arms}
        if isinstance(clock, CudaClock) and fastest < graph_below_seconds:
            with suppress(RuntimeError):
                graphs = {}
                for arm in arms:
                    arm.prepare()
                    graphs[arm.name] = clock.capture(bodies[arm.name])
                return cls(calls, "graph", graphs)
        return cls(calls, "launch", bodies)

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
    graph_below_seconds: float = GRAPH_BELOW_SECONDS,
) -> dict[str, Samples]:
    """Samples of each arm, all of the same number of calls.

    Args:
        order: shuffles the arms of a round.
        least_calls: of a sample; give the number of inputs that `Arm.call` rotates among.
        graph_below_seconds: of the fastest arm's call; see `Work.of`.
    """
    work = Work.of(arms, clock, sample_seconds, least_calls, graph_below_seconds)
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


@dataclass(frozen=True)
class Launch:
    """One call on an idle device, medians in seconds.

    Args:
        host: what a caller waits for before it can go on.
        idle: by the device, from just before to just after the call: its launch and its work.
    """

    host: float
    idle: float


def launch_times(
    arms: Sequence[Arm], *, order: random.Random, clock: Clock, rounds: int = _LAUNCH_ROUNDS
) -> dict[str, Launch]:
    """Of each arm one call a round, in random order: a host has its slow spells too, and a device its power cap."""
    host: dict[str, list[float]] = {arm.name: [] for arm in arms}
    idle: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for _ in range(rounds):
        for arm in order.sample(list(arms), len(arms)):
            arm.prepare()
            # Untimed: what an arm looks up again when another one was in use.
            arm.call(-1)
            clock.wait()
            begin = clock.mark()
            called = time.perf_counter()
            arm.call(0)
            returned = time.perf_counter()
            end = clock.mark()
            clock.wait()
            host[arm.name].append(returned - called)
            idle[arm.name].append(clock.seconds(begin, end))
    return {
        arm.name: Launch(statistics.median(host[arm.name]), statistics.median(idle[arm.name]))
        for arm in arms
    }


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
