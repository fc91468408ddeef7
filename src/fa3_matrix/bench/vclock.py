"""A clock that replays device times into pytest-benchmark, which takes the difference of two readings of its timer.

``@pytest.mark.benchmark(timer=vclock.now)`` makes it read this clock, and `advance` as the benchmarked function lets
the next recorded time pass; `fa3_matrix.bench.plugin` does both. So its statistics and JSON are of device times that
were measured interleaved with other arms, which a function that is called many times in a row cannot give it.
"""

from collections import deque
from collections.abc import Iterable

_time = 0.0
_pending: deque[float] = deque()


def now() -> float:
    """Seconds on this clock."""
    return _time


def feed(seconds: Iterable[float]) -> None:
    """Replaces what is left to replay."""
    _pending.clear()
    _pending.extend(seconds)


def advance() -> None:
    """Lets the next fed time pass. Raises IndexError when there is none left: a time must not be made up."""
    global _time
    _time += _pending.popleft()
