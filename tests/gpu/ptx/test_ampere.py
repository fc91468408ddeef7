"""Each wrapper of cpp/ptx that needs no more than Ampere against what the PTX ISA manual says of the instruction.

The kernels are in tests/cpp/ptx_ampere.cu. Numbers are small integers wherever sums are compared: those are exact.
"""

import math

import pytest
import torch

from ..cuda_driver import Library
from .layouts import DTYPES, POISON, fragments_a, fragments_b, fragments_d, poisoned, random, words

pytestmark = pytest.mark.gpu

# Approximations -----------------------------------------------------------------------------------


def launch_math(library: Library, name: str, x: torch.Tensor) -> torch.Tensor:
    y = poisoned(len(x), dtype=torch.float32)
    library.launch(f"math_{name}", x.cuda(), y, len(x), threads=256, blocks=-(-len(x) // 256))
    return y.cpu()


def all_magnitudes(low: float, high: float) -> torch.Tensor:
    """A million positive floats of every exponent in the range: bit patterns evenly apart, and the ends."""
    ends = torch.tensor([low, high], dtype=torch.float32).view(torch.int32).tolist()
    step = max((ends[1] - ends[0]) // 1_000_003, 1)
    bits = torch.arange(ends[0], ends[1] + 1, step, dtype=torch.int64)
    return torch.cat([bits, torch.tensor([ends[1]])]).to(torch.int32).view(torch.float32)


def ulps(actual: torch.Tensor, exact: torch.Tensor) -> int:
    """The largest distance from the correctly rounded value, in floats."""
    rounded = exact.to(torch.float32)
    distance = actual.view(torch.int32).long() - rounded.view(torch.int32).long()
    return int(distance.abs().max())


SUBNORMAL = 2.0**-130  # .ftz makes it a zero, of operands and of results
SPECIAL = {
    "exp2_approx": [
        (-math.inf, 0.0), (-200.0, 0.0), (-126.5, 0.0), (-0.0, 1.0), (0.0, 1.0), (SUBNORMAL, 1.0),
        (128.0, math.inf), (math.inf, math.inf), (math.nan, math.nan),
    ],
    "log2_approx": [
        (-math.inf, math.nan), (-1.0, math.nan), (-0.0, -math.inf), (0.0, -math.inf),
        (SUBNORMAL, -math.inf), (math.inf, math.inf), (math.nan, math.nan),
    ],
    "reciprocal_approx": [
        (-math.inf, -0.0), (-0.0, -math.inf), (0.0, math.inf), (-SUBNORMAL, -math.inf),
        (SUBNORMAL, math.inf), (2.0**127, 0.0), (-(2.0**127), -0.0), (math.inf, 0.0), (math.nan, math.nan),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(ampere: Library, name: str) -> None:
    x, expected = torch.tensor(SPECIAL[name], dtype=torch.float32).unbind(1)
    y = launch_math(ampere, name, x.contiguous())
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    numbers = ~expected.isnan()
    assert torch.equal(torch.signbit(y)[numbers], torch.signbit(expected)[numbers])


def test_exp2_is_within_2_ulp(ampere: Library) -> None:
    small = all_magnitudes(2.0**-126, 127.9999)
    x = torch.cat([small, -small[small <= 126]])
    assert ulps(launch_math(ampere, "exp2_approx", x), x.double().exp2()) <= 2


def test_reciprocal_is_within_1_ulp(ampere: Library) -> None:
    x = all_magnitudes(2.0**-126, 2.0**126)
    x = torch.cat([x, -x])
    assert ulps(launch_math(ampere, "reciprocal_approx", x), x.double().reciprocal()) <= 1


def test_log2_is_within_its_bounds(ampere: Library) -> None:
    """Of the absolute error between 0.5 and 2, of the relative error elsewhere: 2^-22 both."""
    near = all_magnitudes(0.5, 2.0)[1:-2]
    x = torch.cat([near, all_magnitudes(2.0**-126, 0.5), all_magnitudes(2.0, 3.4e38)])
    exact = x.double().log2()
    error = (launch_math(ampere, "log2_approx", x).double() - exact).abs()
    allowed = torch.where((x > 0.5) & (x < 2), torch.ones_like(exact), exact.abs()) * 2.0**-22
    assert bool((error <= allowed).all()), float((error / allowed).max())


@pytest.mark.parametrize("dtype, dropped_bits", [("bf16", 16), ("fp16", 13)])
def test_pack_rounds_to_nearest_even(ampere: Library, dtype: str, dropped_bits: int) -> None:
    """Ties and their neighbours under kept bits of both parities, overflow, infinities, NaN, as the CPU rounds."""
    half = 1 << (dropped_bits - 1)
    generator = torch.Generator().manual_seed(1)
    kept = torch.randint(0, 1 << 32, (20_000,), generator=generator) >> dropped_bits << dropped_bits
    tails = torch.tensor([0, 1, half - 1, half, half + 1, 2 * half - 1])
    bits = (kept[:, None] + tails).flatten()
    # Those within fp16's range, which few of all floats are in.
    bits = torch.cat([bits, bits & 0x807FFFFF | (100 + bits % 45) << 23])
    numbers = (
        torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32).view(torch.float32)
    )
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 65519.99, 65520.0, -65520.0, 3.4e38]
    low = torch.cat([numbers, torch.tensor(special)])
    high = low.flip(0)  # another number: the halves must not change places
    packed = poisoned(len(low))
    ampere.launch(
        f"pack_{dtype}", low.cuda(), high.cuda(), packed, len(low), threads=256,
        blocks=-(-len(low) // 256),
    )  # fmt: skip
    actual = packed.cpu().view(torch.int16).view(DTYPES[dtype]).view(-1, 2)
    expected = torch.stack([low, high], 1).to(DTYPES[dtype])
    assert torch.equal(actual.isnan(), expected.isnan())
    same = actual.view(torch.int16) == expected.view(torch.int16)
    assert bool((same | expected.isnan()).all())


# Order --------------------------------------------------------------------------------------------


def test_sums_in_place_and_the_branch_between_them(ampere: Library) -> None:
    a = 1 + torch.arange(32, dtype=torch.float32) * 2.0**-13
    b = 2 - a
    ends = torch.arange(32, dtype=torch.int32) % 4 == 1
    fma, total = poisoned(32, dtype=torch.float32), poisoned(32, dtype=torch.float32)
    ampere.launch(
        "in_order", a.cuda(), b.cuda(), torch.full((32,), -1.0).cuda(), ends.int().cuda(), fma, total, threads=32
    )  # fmt: skip
    assert torch.equal(fma.cpu().double(), a.double() * b.double() - 1), "rounded once"
    never = poisoned(32, dtype=torch.float32).cpu().view(torch.int32)
    assert torch.equal(
        total.cpu().view(torch.int32), torch.where(ends, never, (a + b).view(torch.int32))
    )


# Ampere's data movement and multiplication --------------------------------------------------------


def test_shared_loads_and_stores(ampere: Library) -> None:
    data = torch.arange(1, 129, dtype=torch.int32).view(32, 4).cuda()
    stored_16, loaded_16, stored_4 = (poisoned(32, 4) for _ in range(3))
    ampere.launch(
        "shared_accesses", data, stored_16, loaded_16, stored_4, threads=32, shared_bytes=3 * 512
    )
    assert torch.equal(stored_16, data)
    assert torch.equal(loaded_16, data)
    expected = torch.full_like(data, POISON)
    expected[:, 2] = data[:, 2]
    assert torch.equal(stored_4, expected)


def test_predicated_stores(ampere: Library) -> None:
    data = torch.arange(1, 65, dtype=torch.int32).view(32, 2).cuda()
    chosen = torch.arange(32, dtype=torch.int32).cuda() % 3
    out = poisoned(32, 2)
    single = poisoned(32)
    ampere.launch("global_stores", data, chosen, out, single, threads=32)
    assert torch.equal(out, torch.where(chosen[:, None] != 0, data, POISON))
    assert torch.equal(single, torch.where(chosen != 0, data[:, 0], POISON))


@pytest.mark.parametrize("form", ["plain", "transposed"])
def test_ldmatrix_fragments(ampere: Library, form: str) -> None:
    """Lane l receives elements 2(l%4) and 2(l%4)+1 of row l/4 of each matrix; lanes 8i.. name the rows of matrix i."""
    rows = torch.arange(256, dtype=torch.int16).view(32, 8)
    order = torch.randperm(32, generator=torch.Generator().manual_seed(2))
    matrices = rows[order].view(4, 8, 8)
    if form == "transposed":
        matrices = matrices.transpose(1, 2)
    expected = words(matrices.permute(1, 2, 0).reshape(8, 4, 2, 4).transpose(2, 3))
    actual = poisoned(32, 4)
    ampere.launch(
        f"ldmatrix_{form}", words(rows), order.to(torch.int32).cuda(), actual, threads=32,
        shared_bytes=512,
    )  # fmt: skip
    assert torch.equal(actual, expected.view(32, 4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mma_fragments(ampere: Library, dtype: str) -> None:
    a, b, c = random(16, 16, seed=1), random(16, 8, seed=2), random(16, 8, seed=3)
    d = poisoned(32, 4, dtype=torch.float32)
    ampere.launch(
        f"mma_{dtype}",
        words(fragments_a(a).to(DTYPES[dtype])),
        words(fragments_b(b).to(DTYPES[dtype])),
        fragments_d(c).float().cuda(),
        d,
        threads=32,
    )
    assert torch.equal(d.cpu(), fragments_d(a @ b + c).float())


@pytest.mark.parametrize("valid", ["all", "none", "some"])
def test_cp_async_copies_or_writes_zeros(ampere: Library, valid: str) -> None:
    """Source size 16 or 0; what a copy of size 0 names is never read, so its values must not arrive."""
    generator = torch.Generator().manual_seed(4)
    chosen = {"all": torch.ones(64), "none": torch.zeros(64)}.get(valid)
    if chosen is None:
        chosen = torch.randint(0, 2, (64,), generator=generator)
    chosen = chosen.to(torch.int32)
    data = torch.arange(1, 257, dtype=torch.int32).view(64, 4).cuda()
    addresses = data.data_ptr() + 16 * torch.randperm(64, generator=generator)
    actual = poisoned(64, 4)
    ampere.launch(
        "cp_async_groups", addresses.cuda(), chosen.cuda(), actual, threads=32, shared_bytes=1024
    )
    rows = (addresses - data.data_ptr()) // 16
    assert torch.equal(actual.cpu(), data.cpu()[rows] * chosen[:, None])


def test_special_registers(ampere: Library) -> None:
    threads = torch.arange(160, dtype=torch.int32, device="cuda")
    index, uniform = poisoned(160), poisoned(160)
    ampere.launch("special_registers", index, uniform, threads=160)
    assert torch.equal(index, threads)
    assert torch.equal(uniform, 1000 + threads // 32 * 32)
