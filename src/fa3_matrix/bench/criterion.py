"""When a result counts as right: docs/correctness.md says why these bounds.

For the output, twice: for the largest absolute error and for the root mean square of all errors,

    error(kernel) <= 2 * error(same-dtype math path) + EPSILON_ROUNDINGS * u * magnitude(reference)

with u the unit roundoff of the dtype (2**-8 for bf16, 2**-11 for fp16) and magnitude the largest, or the root mean
square, of the reference. For the lse, which is fp32 throughout,

    |error| <= LSE_ABSOLUTE + LSE_RELATIVE * max |lse| + softcap * TANH_RELATIVE,

and -inf exactly where it belongs.
"""

import math
from dataclasses import dataclass

import torch

from fa3_matrix.bench.problems import Problem

UNIT_ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11}
EPSILON_ROUNDINGS = 1.0
LSE_ABSOLUTE = 2e-4
LSE_RELATIVE = 1e-5
# tanh.approx.f32 of the PTX ISA: largest relative error 2**-11. Off by default: softcap is 0.
TANH_RELATIVE = 2.0**-11


@dataclass(frozen=True)
class Verdict:
    """Errors over what is allowed: at most 1 is a pass, NaN never is. 0 where nothing was to be compared."""

    ratio: float
    rms_ratio: float
    lse_ratio: float

    @property
    def passed(self) -> bool:
        # `not (x > 1)` would let NaN through.
        return self.ratio <= 1 and self.rms_ratio <= 1 and self.lse_ratio <= 1

    def reason(self) -> str:
        """One sentence: what is out of bounds; empty for a pass."""
        parts = {
            "largest output error": self.ratio,
            "rms output error": self.rms_ratio,
            "lse error": self.lse_ratio,
        }
        return ", ".join(
            f"{name} is {value:.3g}x what is allowed"
            if math.isfinite(value)
            else f"{name} is not a number"
            for name, value in parts.items()
            if not value <= 1
        )


@dataclass(frozen=True)
class Checked:
    """What is compared: (batch, seqlen_q, heads, head_dim) outputs and (batch, seqlen_q, heads) fp32 lse."""

    out: torch.Tensor
    lse: torch.Tensor


def judge(
    problem: Problem, rows: torch.Tensor, got: Checked, exact: Checked, math_path: Checked
) -> Verdict:
    """Compares `got` with the fp32 reference `exact`, by the error of the same-dtype `math_path`.

    rows: (batch, seqlen_q) bool, true where a query counts. Waits for the device once.
    """
    if got.out.numel() == 0 or rows.numel() == 0:
        return Verdict(0.0, 0.0, 0.0)
    u = UNIT_ROUNDOFF[problem.dtype]
    here = rows[:, :, None, None]
    count = (rows.sum() * got.out.shape[2] * got.out.shape[3]).clamp(min=1)
    reference = torch.where(here, exact.out, 0)
    error = torch.where(here, got.out.float() - reference, 0)
    allowed = torch.where(here, math_path.out.float() - reference, 0)

    def rms(tensor: torch.Tensor) -> torch.Tensor:
        return (tensor.double().square().sum() / count).sqrt()

    # A denormal-sized floor, so that 0 / 0 (all-zero reference, exact result) is 0 and not NaN.
    floor = 1e-30
    epsilon = EPSILON_ROUNDINGS * u
    bound = 2 * allowed.abs().max() + epsilon * reference.abs().max() + floor
    rms_bound = 2 * rms(allowed) + epsilon * rms(reference) + floor
    ratios = torch.stack(
        [
            error.abs().max().double() / bound.double(),
            rms(error) / rms_bound,
            _lse_ratio(problem, rows[:, :, None], got.lse, exact.lse),
        ]
    ).tolist()
    return Verdict(*ratios)


def _lse_ratio(
    problem: Problem, here: torch.Tensor, got: torch.Tensor, exact: torch.Tensor
) -> torch.Tensor:
    minus_infinity = exact == -torch.inf
    size = torch.where(minus_infinity | ~here, 0, exact).abs().max()
    bound = LSE_ABSOLUTE + LSE_RELATIVE * size + problem.softcap * TANH_RELATIVE
    error = torch.where(
        minus_infinity, torch.where(got == -torch.inf, 0.0, torch.inf), (got - exact).abs()
    )
    return torch.where(here, error, 0).max().double() / bound.double()
