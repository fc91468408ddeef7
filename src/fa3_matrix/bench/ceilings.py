"""What this GPU reaches here and now: a large matrix product and a large copy, measured in the run that they judge.

A kernel's share of a data sheet's numbers tells of clocks and power caps too; its share of these does not.
"""

import random
from dataclasses import asdict, dataclass

import torch

from fa3_matrix.bench import ROUNDS
from fa3_matrix.bench.results import Document
from fa3_matrix.bench.timing import Arm, Clock, CudaClock, interleave

# Large enough for every SM to be busy all the time, and for L2 to hold none of the copy.
_GEMM_SIZE = 8192
_COPIED_BYTES = 2**30


@dataclass(frozen=True)
class Ceilings:
    """TFLOP/s of the product and GB/s of the copy; `gemm` and `copy` say of what."""

    gemm_tflops: float
    copy_gb_per_s: float
    gemm: str
    copy: str

    def as_json(self) -> Document:
        return asdict(self)


def measure_ceilings(
    order: random.Random,
    device: str = "cuda",
    clock: Clock | None = None,
    *,
    size: int = _GEMM_SIZE,
    copied_bytes: int = _COPIED_BYTES,
) -> Ceilings:
    """Medians over samples of both, interleaved: ``torch.matmul`` of random bf16 squares, and ``Tensor.copy_``."""
    generator = torch.Generator(device=device).manual_seed(0)
    a, b = (
        torch.empty(size, size, dtype=torch.bfloat16, device=device).normal_(generator=generator)
        for _ in range(2)
    )
    product = torch.empty_like(a)
    source = torch.empty(copied_bytes, dtype=torch.uint8, device=device).random_(
        generator=generator
    )
    target = torch.empty_like(source)
    samples = interleave(
        [
            Arm("gemm", lambda: None, lambda _: torch.matmul(a, b, out=product)),
            Arm("copy", lambda: None, lambda _: target.copy_(source)),
        ],
        rounds=ROUNDS,
        order=order,
        clock=clock or CudaClock(),
    )
    return Ceilings(
        gemm_tflops=2 * size**3 / samples["gemm"].median * 1e-12,
        # Each byte is read and written.
        copy_gb_per_s=2 * copied_bytes / samples["copy"].median * 1e-9,
        gemm=f"{size} x {size} x {size}, bf16",
        copy=f"{2 * copied_bytes / 1e9:.2f} GB read and written",
    )
