"""Times builds and, beside them, PyTorch's own FlashAttention-2 on one problem, after checking each one's output."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from fa3_matrix.bench import machine
from fa3_matrix.bench.builds import BuildArm, call_interface
from fa3_matrix.bench.correctness import Kernel
from fa3_matrix.bench.criterion import Checked, judge
from fa3_matrix.bench.inputs import TORCH_DTYPES, Inputs, make_inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.reference import Window, attention, full_precision_products
from fa3_matrix.bench.timing import Arm, Clock, CudaClock, Samples, interleave, launch_seconds
from fa3_matrix.errors import BenchError

PEER = "sdpa_flash"
ROUNDS = 15
# Calls rotate among inputs that together exceed the L2 by this factor, so that each call finds a cold cache.
_L2_FACTOR = 3
_MOST_INPUTS = 64


@dataclass(frozen=True)
class Measurement:
    """One arm on one problem."""

    samples: Samples
    launch_seconds: float
    sm_mhz: int | None


class Contender:
    """A build, or the peer: how it is called, and what makes it the one in use."""

    def __init__(self, name: str, kernel: Kernel, arm: BuildArm | None) -> None:
        self.name = name
        self.kernel = kernel
        self.build = arm

    @classmethod
    def of_build(cls, arm: BuildArm) -> "Contender":
        return cls(arm.name, arm.kernel(), arm)

    @classmethod
    def peer(cls) -> "Contender":
        return cls(PEER, sdpa_flash, None)

    def timed(self, problem: Problem, inputs: Sequence[Inputs]) -> Arm:
        def call(i: int) -> object:
            return (call_interface if self.build else self.kernel)(problem, inputs[i % len(inputs)])

        return Arm(self.name, self.build.use if self.build else _nothing, call)


def _nothing() -> None:
    """The peer needs no preparation."""


def peer_takes(problem: Problem) -> bool:
    """Whether PyTorch's flash backend computes the same: dense, no window or softcap, causal only when square.

    ``is_causal`` aligns the mask to the top left.
    """
    return not (
        problem.is_varlen
        or problem.window != (-1, -1)
        or problem.softcap
        or (problem.causal and problem.seqlen_q != problem.seqlen_k)
    )


def sdpa_flash(problem: Problem, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """``SDPBackend.FLASH_ATTENTION`` on the same tensors, without copies; it returns no lse: an empty tensor."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(
            inputs.q.transpose(1, 2),
            inputs.k.transpose(1, 2),
            inputs.v.transpose(1, 2),
            is_causal=problem.causal,
            scale=problem.softmax_scale,
            enable_gqa=problem.heads_q != problem.heads_k,
        )
    return out.transpose(1, 2), out.new_empty(0)


def measure(
    problem: Problem,
    contenders: Sequence[Contender],
    *,
    rounds: int,
    order: random.Random,
    device: str = "cuda",
    clock: Clock | None = None,
) -> dict[str, Measurement]:
    """Times every contender on `problem`, interleaved.

    Raises BenchError when one's output is wrong: the time of a wrong result means nothing.
    """
    clock = clock or CudaClock()
    with torch.no_grad():
        inputs = rotating_inputs(problem, device)
        check(problem, contenders, inputs[0])
        arms = [contender.timed(problem, inputs) for contender in contenders]
        samples = interleave(arms, rounds=rounds, order=order, clock=clock, least_calls=len(inputs))
        sm_mhz = machine.sm_clock_mhz()
        return {
            arm.name: Measurement(samples[arm.name], launch_seconds(arm, clock), sm_mhz)
            for arm in arms
        }


def rotating_inputs(problem: Problem, device: str) -> list[Inputs]:
    """Inputs of different values, together a few times the device's L2; on a CPU one."""
    if device == "cpu":
        return [make_inputs(problem, device, guard=0)]
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    count = -(-_L2_FACTOR * cache // max(problem.min_bytes(), 1))
    count = max(2, min(count, _MOST_INPUTS))
    return [
        make_inputs(replace(problem, seed=problem.seed + i), device, guard=0) for i in range(count)
    ]


def check(problem: Problem, contenders: Sequence[Contender], inputs: Inputs) -> None:
    """Holds each contender's output on `inputs` against the fp32 reference. Raises BenchError."""
    window = Window(problem, inputs)
    padded = window.padded()
    with full_precision_products():
        exact = Checked(*attention(problem, padded, torch.float32))
        math_path = Checked(*attention(problem, padded, TORCH_DTYPES[problem.dtype]))
    for contender in contenders:
        out, lse = contender.kernel(problem, inputs)
        got = Checked(window.queries(out), window.lse(lse) if lse.numel() else exact.lse)
        verdict = judge(problem, padded.rows, got, exact, math_path)
        if not verdict.passed:
            raise BenchError(
                f"{contender.name} is wrong on {problem.id} ({verdict.reason()}), so it is not timed"
            )
