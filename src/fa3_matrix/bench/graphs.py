"""Whether a call can be captured in a CUDA graph, and how evenly the graph replays."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from fa3_matrix.bench.results import Document, first_line
from fa3_matrix.bench.timing import Arm, Clock

# One in a thousand decides the p99.9.
REPLAYS = 1000
# The host enqueues these while the device is kept busy, so that none waits for the host.
_BATCH = 50


@dataclass(frozen=True)
class Replays:
    """Seconds of each replay of a graph of one call, or the `error` that kept it from being captured."""

    seconds: list[float]
    error: str = ""

    def as_json(self) -> Document:
        """Percentiles in microseconds; null where nothing was captured."""
        if self.error:
            p50 = p99 = p999 = None
        else:
            permille = [
                s * 1e6 for s in statistics.quantiles(self.seconds, n=1000, method="inclusive")
            ]
            p50, p99, p999 = permille[499], permille[989], permille[998]
        return {
            "error": self.error,
            "replays": len(self.seconds),
            "p50_us": p50,
            "p99_us": p99,
            "p999_us": p999,
        }


def replay_times(
    arms: Sequence[Arm], *, order: random.Random, clock: Clock, count: int = REPLAYS
) -> dict[str, Replays]:
    """Times `count` replays of each arm's first call one by one, arms taking turns in random order.

    A time is the device's from one replay's end to the next one's, on the same inputs, back to back.
    """
    result: dict[str, Replays] = {}
    graphs: dict[str, Callable[[], object]] = {}
    for arm in arms:
        arm.prepare()
        try:
            graphs[arm.name] = clock.capture(partial(arm.call, 0))
        except RuntimeError as error:
            result[arm.name] = Replays([], first_line(error))
        else:
            result[arm.name] = Replays([])
    for begin in range(0, count, _BATCH):
        for name in order.sample(list(graphs), len(graphs)):
            batch = min(_BATCH, count - begin)
            result[name].seconds.extend(_batch(graphs[name], clock, batch))
    return result


def _batch(replay: Callable[[], object], clock: Clock, count: int) -> list[float]:
    clock.occupy()
    # Untimed: what keeps the device busy has emptied its cache.
    replay()
    marks = [clock.mark()]
    for _ in range(count):
        replay()
        marks.append(clock.mark())
    clock.wait()
    return [clock.seconds(*pair) for pair in pairwise(marks)]
