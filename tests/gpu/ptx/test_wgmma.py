"""wgmma, and the descriptors of cpp/sm90, against what the PTX ISA manual says of the instruction.

The kernels are in tests/cpp/ptx_wgmma.cu. Numbers are small integers wherever sums are compared: those are exact.
"""

import math
from dataclasses import dataclass

import pytest
import torch

from ..cuda_driver import Library
from .layouts import (
    DTYPES,
    fragments_a,
    fragments_d,
    in_shared_memory,
    panel_columns,
    poisoned,
    random,
    words,
)

pytestmark = pytest.mark.gpu


def test_descriptor_bits(wgmma: Library) -> None:
    """PTX ISA, "Matrix Descriptor Format", of tiles of 80 rows by 128 columns (128 bytes) and by 96 (64 bytes)."""
    tile, rows = 0x2C400, 80  # more than 16 bits of address
    out = poisoned(20).view(torch.int64)
    wgmma.launch("descriptors", tile, out, threads=32)
    actual = out.view(2, 5).tolist()
    for bits, (row_bytes, swizzle) in zip(actual, [(128, 1), (64, 2)], strict=True):
        panel_bytes = rows * row_bytes
        offsets = [0, 32, panel_bytes, 0, 16 * row_bytes]
        leading = [None, None, None, panel_bytes, panel_bytes]  # K-major: unused with a swizzle
        for value, offset, leading_bytes in zip(bits, offsets, leading, strict=True):
            assert value & 0x3FFF == (tile + offset & 0x3FFFF) >> 4
            assert leading_bytes is None or value >> 16 & 0x3FFF == leading_bytes >> 4
            assert value >> 32 & 0x3FFF == 8 * row_bytes >> 4
            assert value >> 49 & 7 == 0, "the patterns start at multiples of 1024: no base offset"
            assert value >> 62 & 3 == swizzle


@dataclass(frozen=True)
class Wgmma:
    """A kernel of tests/cpp/ptx_wgmma.cu."""

    dtype: str
    source: str
    major: str
    n: int
    k: int

    def __str__(self) -> str:
        return f"wgmma_{self.dtype}_{self.source}_{self.major}_n{self.n}_k{self.k}"


ODD, EVEN = range(16, 257, 32), range(32, 257, 32)
WGMMA = [
    *(Wgmma("bf16", "Shared", "K", n, 128) for n in (*ODD, *EVEN)),
    *(Wgmma("fp16", "Shared", "K", n, 96) for n in (*ODD, *EVEN)),
    *(Wgmma("bf16", "Registers", "MN", n, 128) for n in EVEN),
    *(Wgmma("fp16", "Registers", "MN", n, 80) for n in EVEN),
    *(Wgmma("bf16", "Registers", "K", n, 64) for n in ODD),
    *(Wgmma("fp16", "Registers", "K", n, 96) for n in ODD),
    Wgmma("bf16", "Shared", "MN", 64, 64),
    Wgmma("fp16", "Shared", "MN", 96, 64),
]


def shared_words(tile: torch.Tensor, dtype: str) -> torch.Tensor:
    """The tile's bytes in shared memory."""
    return words(in_shared_memory(tile.to(DTYPES[dtype]), panel_columns(tile.shape[1])))


@pytest.mark.parametrize("case", WGMMA, ids=str)
def test_wgmma(wgmma: Library, case: Wgmma) -> None:
    a, b = random(128, case.k, seed=1), random(case.k, case.n, seed=2)
    c = random(128, case.n, seed=3)
    # In shared memory B is N rows of K, or K rows of N.
    tile_b = shared_words(b.T.contiguous() if case.major == "K" else b, case.dtype)
    nothing = poisoned(4)
    if case.source == "Shared":
        operands = (shared_words(a, case.dtype), nothing, tile_b)
    else:
        operands = (nothing, words(fragments_a(a).to(DTYPES[case.dtype])), tile_b)
    shared_bytes = 1024 + 2 * case.k * (case.n + (128 if case.source == "Shared" else 0))
    # Only the form with A in shared memory can leave out what the accumulators held: here, NaN.
    for accumulate in (0, 1) if case.source == "Shared" else (1,):
        start = c if accumulate else torch.full_like(c, math.nan)
        d = poisoned(256, case.n // 2, dtype=torch.float32)
        wgmma.launch(
            str(case), *operands, fragments_d(start).float().cuda(), d, accumulate, threads=256,
            shared_bytes=shared_bytes,
        )  # fmt: skip
        expected = a @ b + c if accumulate else a @ b
        assert torch.equal(d.cpu(), fragments_d(expected).float()), f"accumulate={accumulate}"


def test_wgmma_groups_finish_in_order(wgmma: Library) -> None:
    q, k, v, p = (
        random(128, 64, seed=1),
        random(128, 64, seed=2),
        random(128, 64, seed=3),
        random(128, 128),
    )
    s, o = poisoned(256, 64, dtype=torch.float32), poisoned(256, 32, dtype=torch.float32)
    kv = torch.cat([shared_words(k, "bf16"), shared_words(v, "bf16")])
    wgmma.launch(
        "wgmma_two_groups", shared_words(q, "bf16"), kv, words(fragments_a(p).bfloat16()), s, o,
        threads=256, shared_bytes=3 * 128 * 128 + 1024,
    )  # fmt: skip
    assert torch.equal(s.cpu(), fragments_d(q @ k.T).float())
    assert torch.equal(o.cpu(), fragments_d(p @ v).float())


def test_chosen_accumulators_are_cleared(wgmma: Library) -> None:
    values = torch.tensor([math.nan, math.inf, -3.0, 0.5]).repeat(8).cuda()
    chosen = torch.arange(32, dtype=torch.int32).cuda() % 3
    expected = torch.where(chosen != 0, 0.0, values)
    wgmma.launch("clear_chosen", chosen, values, threads=32)
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
