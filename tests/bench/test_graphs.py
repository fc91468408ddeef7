"""Replays: percentiles, turns, and what could not be captured; a clock that calls again stands for a CUDA graph."""

import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.bench.graphs import Replays, replay_times
from fa3_matrix.bench.timing import Arm, HostClock


class Counted(HostClock):
    """Time passes with each replay, a second at a time, and ten while the device is kept busy."""

    def __init__(self) -> None:
        self.seconds_passed = 0.0
        self.captured: list[object] = []

    def mark(self) -> float:
        return self.seconds_passed

    def occupy(self) -> None:
        self.seconds_passed += 10

    def capture(self, body):
        self.captured.append(body)
        body()

        def replay() -> None:
            self.seconds_passed += 1

        return replay


def arm(name: str, call=lambda _: None) -> Arm:
    return Arm(name, lambda: None, call)


@pytest.mark.parametrize("count", [1, 50, 120])
def test_each_replay_is_timed_alone(count: int):
    clock = Counted()
    times = replay_times([arm("a"), arm("b")], order=random.Random(0), clock=clock, count=count)
    assert {name: replays.seconds for name, replays in times.items()} == {
        "a": [1.0] * count,
        "b": [1.0] * count,
    }
    assert len(clock.captured) == 2


def test_what_cannot_be_captured_says_why_and_keeps_no_other():
    def refuses(_: int) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nC++ trace")

    arms = [arm("bad", refuses), arm("good")]
    times = replay_times(arms, order=random.Random(0), clock=Counted(), count=10)
    assert times["bad"].as_json() == {
        "error": "operation not permitted when stream is capturing",
        "replays": 0,
        "p50_us": None,
        "p99_us": None,
        "p999_us": None,
    }
    assert len(times["good"].seconds) == 10


def test_percentiles():
    stated = Replays([i * 1e-6 for i in range(1, 1002)]).as_json()
    assert (stated["error"], stated["replays"]) == ("", 1001)
    assert stated["p50_us"] == pytest.approx(501)
    assert stated["p99_us"] == pytest.approx(991)
    assert stated["p999_us"] == pytest.approx(1000)


@given(st.lists(st.floats(1e-7, 1e-2), min_size=2, max_size=50))
def test_percentiles_are_ordered_and_of_the_sample(seconds: list[float]):
    stated = Replays(seconds).as_json()
    low, high = min(seconds) * 1e6, max(seconds) * 1e6
    ordered = [low, stated["p50_us"], stated["p99_us"], stated["p999_us"], high]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(ordered))
    assert stated["p50_us"] == pytest.approx(statistics.median(seconds) * 1e6)
