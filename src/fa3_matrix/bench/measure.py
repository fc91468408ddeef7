"""Times builds and peers on one problem, interleaved, after checking each one's output."""

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from fa3_matrix.bench import machine
from fa3_matrix.bench.builds import BuildArm, call_interface, plain_call
from fa3_matrix.bench.criterion import Checked, judge
from fa3_matrix.bench.footprint import CudaAllocator, Footprint, footprint
from fa3_matrix.bench.graphs import Replays, replay_times
from fa3_matrix.bench.inputs import TORCH_DTYPES, Inputs, appended, fresh_cache, make_inputs
from fa3_matrix.bench.peers import Peer
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.reference import Window, attention, full_precision_products
from fa3_matrix.bench.results import first_line
from fa3_matrix.bench.timing import (
    Arm,
    Clock,
    CudaClock,
    Launch,
    Samples,
    interleave,
    launch_times,
)
from fa3_matrix.errors import Fa3Error

if TYPE_CHECKING:
    from fa3_matrix.bench.peers import Call

# Calls rotate among inputs that together exceed the L2 by this factor, so that each call finds a cold cache.
_L2_FACTOR = 3
_MOST_INPUTS = 64
# Some peers' calls take the host 100 us, and 250 in its slow spells: as launches these would be all that is timed.
_GRAPH_BELOW_SECONDS = 500e-6


@dataclass(frozen=True)
class Measurement:
    """One arm on one problem; see the classes of the fields.

    memory is None off the GPU, replays where none were asked for.
    """

    samples: Samples
    launch: Launch
    sm_mhz: int | None
    memory: Footprint | None = None
    replays: Replays | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of the arms of one problem, by name."""

    timed: Mapping[str, Measurement]
    not_timed: Mapping[str, str]
    """Why, in a few words: the call was refused, or its output is wrong."""


def _nothing() -> None:
    """A peer needs no preparation."""


@dataclass(frozen=True)
class Contender:
    """A build or a peer: the call that it makes of a problem and inputs, and what makes it the one in use.

    `plain` is the call as most callers write it, where that is not the same: what a launch costs and allocates is its.
    """

    name: str
    prepare: "Callable[[Problem, Inputs], Call]"
    use: Callable[[], None] = _nothing
    plain: "Callable[[Problem, Inputs], Callable[[], object]] | None" = None

    @classmethod
    def of_build(cls, arm: BuildArm) -> "Contender":
        return cls(
            arm.name,
            lambda problem, inputs: partial(call_interface, problem, inputs),
            arm.use,
            plain_call,
        )

    @classmethod
    def of_peer(cls, peer: Peer) -> "Contender":
        return cls(peer.name, peer.prepare)

    def timed(self, problem: Problem, inputs: Sequence[Inputs]) -> Arm:
        return self._rotating(self.prepare, problem, inputs)

    def launched(self, problem: Problem, inputs: Sequence[Inputs]) -> Arm:
        """As `timed`, of the plain call."""
        return self._rotating(self.plain or self.prepare, problem, inputs)

    def _rotating(
        self,
        prepare: "Callable[[Problem, Inputs], Callable[[], object]]",
        problem: Problem,
        inputs: Sequence[Inputs],
    ) -> Arm:
        calls = [prepare(problem, each) for each in inputs]
        return Arm(self.name, self.use, lambda i: calls[i % len(calls)]())


def measure(
    problem: Problem,
    contenders: Sequence[Contender],
    *,
    rounds: int,
    order: random.Random,
    device: str = "cuda",
    clock: Clock | None = None,
    replays: int = 0,
) -> Outcome:
    """Times the contenders on `problem`, interleaved, but for those that `check` finds fault with.

    With `replays` each one's CUDA graph is replayed that often too.
    """
    clock = clock or CudaClock()
    with torch.no_grad():
        inputs = rotating_inputs(problem, device)
        faults = check(problem, contenders, inputs[0])
        faultless = [c for c in contenders if c.name not in faults]
        if not faultless:
            return Outcome({}, faults)
        arms = [c.timed(problem, inputs) for c in faultless]
        plain = {c.name: c.launched(problem, inputs) for c in faultless}
        samples = interleave(
            arms,
            rounds=rounds,
            order=order,
            clock=clock,
            least_calls=len(inputs),
            graph_below_seconds=_GRAPH_BELOW_SECONDS,
        )
        sm_mhz = machine.sm_clock_mhz()
        replayed = replay_times(arms, order=order, clock=clock, count=replays) if replays else {}
        launches = launch_times(list(plain.values()), order=order, clock=clock)
        timed = {
            name: Measurement(
                samples[name],
                launches[name],
                sm_mhz,
                # Behind the launches: what a first call allocates for all is not a call's own.
                footprint(partial(arm.call, 0), CudaAllocator()) if device == "cuda" else None,
                replayed.get(name),
            )
            for name, arm in plain.items()
        }
        return Outcome(timed, faults)


def rotating_inputs(problem: Problem, device: str) -> list[Inputs]:
    """Inputs of different values, together a few times the device's L2; on a CPU one.

    Rows that don't count hold 0: correctness is where builds meet NaN there, and a peer may read it.
    """
    if device == "cpu":
        return [make_inputs(problem, device, guard=0, unused=0)]
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    count = -(-_L2_FACTOR * cache // max(problem.min_bytes(), 1))
    count = max(2, min(count, _MOST_INPUTS))
    return [
        make_inputs(replace(problem, seed=problem.seed + i), device, guard=0, unused=0)
        for i in range(count)
    ]


def check(
    problem: Problem, contenders: Sequence[Contender], inputs: Inputs, *, most: int | None = None
) -> dict[str, str]:
    """Holds each contender's output on `inputs` against the fp32 reference; says what is wrong, by name.

    Of a problem with more than `most` scores a part is held (default: as for correctness). The time of a wrong result
    means nothing, and one that refuses the problem has none.
    """
    after = appended(problem, inputs)
    window = Window(problem, after, most) if most else Window(problem, after)
    padded = window.padded()
    with full_precision_products():
        exact = Checked(*attention(problem, padded, torch.float32))
        math_path = Checked(*attention(problem, padded, TORCH_DTYPES[problem.dtype]))
    faults = {}
    for contender in contenders:
        contender.use()
        with _all_warnings() as warned:
            try:
                given = fresh_cache(inputs) if problem.new_rows else inputs
                out, lse = contender.prepare(problem, given)()
            except (Fa3Error, RuntimeError, TypeError, ValueError) as error:
                faults[contender.name] = f"refuses: {_refusal(error, warned)}"
                continue
        got = Checked(window.queries(out), exact.lse if lse is None else window.lse(lse))
        verdict = judge(problem, padded.rows, got, exact, math_path)
        if not verdict.passed:
            faults[contender.name] = f"its output is wrong: {verdict.reason()}"
    return faults


@contextmanager
def _all_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """What is warned of within, the second time as the first: torch has a rule of its own for that."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield warned
    finally:
        torch.set_warn_always(always)


def _refusal(error: Exception, warned: Sequence[warnings.WarningMessage]) -> str:
    """The first line of `error`, and what torch warned of: its SDPA gives the reason only there.

    It also warns of the backends that were switched off on purpose; that is left out.
    """
    lines = [first_line(error)]
    for warning in warned:
        text = str(warning.message).partition(" (Triggered internally")[0]
        if not text.endswith("because:") and "runtime disabled" not in text and text not in lines:
            lines.append(text)
    return "; ".join(lines)
