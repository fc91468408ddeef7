"""Interleaving, statistics and the clock that replays, with work that a CPU really does."""

import random
import time

import pytest

from fa3_matrix.bench import vclock
from fa3_matrix.bench.timing import (
    Arm,
    HostClock,
    Samples,
    interleave,
    launch_times,
)


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Recorder:
    """Arms that note when they are prepared and called."""

    def __init__(self, **seconds: float) -> None:
        self.log: list[tuple[str, str, int]] = []
        self.arms = [self._arm(name, value) for name, value in seconds.items()]

    def _arm(self, name: str, seconds: float) -> Arm:
        def call(i: int) -> None:
            self.log.append((name, "call", i))
            spin(seconds)

        return Arm(name, lambda: self.log.append((name, "prepare", 0)), call)


def timed(recorder: Recorder, **more) -> dict[str, Samples]:
    return interleave(recorder.arms, order=random.Random(0), clock=HostClock(), **more)


def test_a_slower_arm_measures_slower():
    recorder = Recorder(fast=1e-4, slow=3e-4)
    samples = timed(recorder, rounds=7, sample_seconds=1e-3)
    # Wide, for a busy machine; the arms themselves are a factor of 3 apart.
    assert 1e-4 <= samples["fast"].median < samples["slow"].median / 1.5
    assert samples["fast"].calls == samples["slow"].calls >= 2
    assert samples["fast"].mode == "launch"
    assert len(samples["fast"].seconds) == 7


def test_each_round_runs_every_arm_once_in_random_order():
    recorder = Recorder(a=2e-5, b=2e-5, c=2e-5)
    timed(recorder, rounds=12, sample_seconds=1e-4)
    prepared = [name for name, what, _ in recorder.log if what == "prepare"][3:]
    rounds = [tuple(prepared[i : i + 3]) for i in range(0, len(prepared), 3)]
    assert len(rounds) == 12
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) > 1


def test_calls_rotate_over_all_inputs():
    recorder = Recorder(a=1e-6)
    samples = timed(recorder, rounds=1, sample_seconds=1e-9, least_calls=5)
    assert samples["a"].calls == 5
    assert [i for _, what, i in recorder.log if what == "call"][-5:] == [0, 1, 2, 3, 4]


def test_launch_times_are_the_hosts_and_the_devices():
    class OfEachCall(HostClock):
        """A device on which every call takes a second."""

        def mark(self):
            return len([what for _, what, _ in recorder.log if what == "call"])

    recorder = Recorder(fast=1e-4, slow=3e-4)
    found = launch_times(recorder.arms, order=random.Random(0), clock=OfEachCall(), rounds=5)
    assert 1e-4 <= found["fast"].host < found["slow"].host < 1e-2
    assert {launch.idle for launch in found.values()} == {1}
    # Each in each round, behind a call of its own that is not timed.
    calls = [name for name, what, _ in recorder.log if what == "call"]
    rounds = [calls[i : i + 4] for i in range(0, len(calls), 4)]
    assert len(rounds) == 5
    assert {tuple(order) for order in rounds} == {
        ("fast", "fast", "slow", "slow"),
        ("slow", "slow", "fast", "fast"),
    }


def test_spread_is_the_interquartile_range_over_the_median():
    assert Samples([1.0, 2.0, 3.0, 4.0, 5.0], 1, "launch").spread == pytest.approx(2 / 3)
    assert Samples([1.0], 1, "launch").spread == 0


def test_no_time_is_made_up():
    vclock.feed([1.0])
    before = vclock.now()
    vclock.advance()
    assert vclock.now() - before == pytest.approx(1.0)
    with pytest.raises(IndexError):
        vclock.advance()
