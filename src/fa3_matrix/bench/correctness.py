"""Runs problems on kernels and judges each result; any callable of the right shape is a kernel."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import torch

from fa3_matrix.bench import inputs as inputs_module
from fa3_matrix.bench.criterion import Checked, Verdict, judge
from fa3_matrix.bench.inputs import (
    TORCH_DTYPES,
    Inputs,
    appended,
    fresh_cache,
    make_inputs,
    same_cache,
)
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.reference import Window, attention, full_precision_products

# (problem, inputs) -> (out, lse)
Kernel = Callable[[Problem, Inputs], tuple[torch.Tensor, torch.Tensor]]

# The caching allocator gives a freed block to the next request of its size, so the second call gets the outputs of
# the first. A first call that splits a larger block can spoil that once.
_POISON_ATTEMPTS = 3


@dataclass(frozen=True)
class Failure:
    """A problem that did not pass, and why."""

    problem: Problem
    reason: str
    verdict: Verdict | None = None


@dataclass
class Tally:
    """What became of one kernel's problems."""

    requested: int
    passed: int = 0
    failures: list[Failure] = field(default_factory=list)
    worst: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Of each ratio of `Verdict`: the largest one met, infinity for NaN, and the id of its problem."""
    variants: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def run(self) -> int:
        return self.passed + len(self.failures)

    @property
    def not_run(self) -> int:
        return self.requested - self.run

    def add(self, problem: Problem, verdict: Verdict) -> None:
        if verdict.passed:
            self.passed += 1
        else:
            self.failures.append(Failure(problem, verdict.reason(), verdict))
        for name in ("ratio", "rms_ratio", "lse_ratio"):
            value = getattr(verdict, name)
            value = math.inf if math.isnan(value) else value
            if name not in self.worst or value > self.worst[name][0]:
                self.worst[name] = (value, problem.id)


class DeviceFault(Exception):
    """The GPU refuses all further work of this process: what comes after cannot be judged."""


def run(
    problems: Sequence[Problem],
    kernels: Mapping[str, Kernel],
    device: str | torch.device,
    *,
    guard: int = inputs_module.GUARD,
    reference_device: str | torch.device | None = None,
    poison: bool = True,
    variant_of: Callable[[str, Problem], str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Tally]:
    """Judges every kernel on every problem; inputs and references are made once a problem and shared.

    Args:
        guard: see `make_inputs`.
        reference_device: where references are computed, if not on `device`: under compute-sanitizer the CPU is faster.
        poison: call each kernel so that its outputs lie in memory full of NaN. Needs the caching allocator.
        variant_of: (kernel name, problem) -> the variant that it uses, for the tally's coverage.
        progress: called with the number of problems done.

    Returns:
        A tally for each kernel. After a device fault the rest is counted as not run.
    """
    tallies = {name: Tally(len(problems)) for name in kernels}
    call = _call_poisoned if poison else _call
    # A fault is stated by the last failure; what is left then shows as not run.
    with full_precision_products(), torch.no_grad(), suppress(DeviceFault):
        for done, problem in enumerate(problems):
            _run_one(problem, kernels, tallies, call, device, guard, reference_device or device)
            if variant_of:
                for name in kernels:
                    tallies[name].variants[variant_of(name, problem)] += 1
            if progress:
                progress(done + 1)
    return tallies


def _run_one(
    problem: Problem,
    kernels: Mapping[str, Kernel],
    tallies: Mapping[str, Tally],
    call: "_Call",
    device: str | torch.device,
    guard: int,
    reference_device: str | torch.device,
) -> None:
    inputs = make_inputs(problem, device, guard=guard)
    after = appended(problem, inputs)
    window = Window(problem, _to(after, reference_device))
    padded = window.padded()
    exact = Checked(*attention(problem, padded, torch.float32))
    math_path = Checked(*attention(problem, padded, TORCH_DTYPES[problem.dtype]))
    for name, kernel in kernels.items():
        begin = time.monotonic()
        try:
            given = fresh_cache(inputs) if problem.new_rows else inputs
            out, lse = call(problem, kernel, given)
            got = Checked(
                window.queries(out.to(reference_device)), window.lse(lse.to(reference_device))
            )
            verdict = judge(problem, padded.rows, got, exact, math_path)
            if not window.whole and bool(torch.isnan(out).any()):
                verdict = Verdict(float("nan"), verdict.rms_ratio, verdict.lse_ratio)
            if problem.new_rows and not same_cache(given, after):
                raise ValueError(
                    "the caches don't hold the new rows where they belong, and the rest as before"
                )
            tallies[name].add(problem, verdict)
        except Exception as error:
            # Whatever a kernel raises on a legal problem is a failure of that problem, and is reported as one.
            tallies[name].failures.append(Failure(problem, f"{type(error).__name__}: {error}"))
            _raise_if_faulted(device)
        tallies[name].seconds += time.monotonic() - begin


_Call = Callable[[Problem, Kernel, Inputs], tuple[torch.Tensor, torch.Tensor]]


def _call(problem: Problem, kernel: Kernel, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = kernel(problem, inputs)
    _check_form(problem, out, lse)
    return out, lse


def _call_poisoned(
    problem: Problem, kernel: Kernel, inputs: Inputs
) -> tuple[torch.Tensor, torch.Tensor]:
    """Calls `kernel` so that its outputs lie in memory full of NaN.

    The operator allocates its outputs itself. So it is called once, its outputs are overwritten with NaN and freed,
    and it is called again: the allocator hands out the same blocks, which is verified by their addresses.
    """
    out, lse = _call(problem, kernel, inputs)
    for _ in range(_POISON_ATTEMPTS):
        poisoned = {out.data_ptr(), lse.data_ptr()}
        out.fill_(torch.nan)
        lse.fill_(torch.nan)
        del out, lse
        out, lse = kernel(problem, inputs)
        if {out.data_ptr(), lse.data_ptr()} <= poisoned or out.device.type == "cpu":
            return out, lse
    raise RuntimeError(
        "the allocator never gave the outputs the poisoned memory: set no allocator options here"
    )


def _check_form(problem: Problem, out: torch.Tensor, lse: torch.Tensor) -> None:
    lse_shape = (
        (problem.heads_q, problem.shape_q[0])
        if problem.is_packed
        else (problem.batch, problem.heads_q, problem.seqlen_q)
    )
    for name, tensor, shape, dtype in (
        ("out", out, problem.shape_q, TORCH_DTYPES[problem.dtype]),
        ("lse", lse, lse_shape, torch.float32),
    ):
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise ValueError(
                f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, should be {dtype} of {shape}"
            )


def _to(inputs: Inputs, device: str | torch.device) -> Inputs:
    moved = {name: None if t is None else t.to(device) for name, t in vars(inputs).items()}
    return Inputs(**moved)


def _raise_if_faulted(device: str | torch.device) -> None:
    if torch.device(device).type != "cuda":
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise DeviceFault(str(error)) from error
