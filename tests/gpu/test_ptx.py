"""Each wrapper of cpp/ptx, and the descriptors of cpp/sm90, against what the PTX ISA manual says of the instruction.

The kernels are in tests/cpp/ptx_*.cu. Where there is no toolkit, prebuilt fatbins serve: run
tests/cpp/test_ptx_compiles.py elsewhere and bring build/tests/ptx along. Numbers are small integers wherever sums are
compared: those are exact.
"""

import functools
import itertools
import math
import os
from dataclasses import dataclass

import pytest
import torch

from fa3_matrix import toolkits
from fa3_matrix.bench import machine
from fa3_matrix.bench.machine import REQUIRE_GPU
from fa3_matrix.errors import ToolkitError

from ..cpp import ptx_fatbins
from .cuda_driver import Library, TensorMap, tensor_map

pytestmark = pytest.mark.gpu

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
POISON = -1  # every byte of shared memory before a test, and of what tests write to


@pytest.fixture(autouse=True, scope="session")
def needs_gpu() -> None:
    """In place of the one in conftest.py, which asks for builds too."""
    if reason := machine.why_no_gpu():
        _cannot_run(reason)


@pytest.fixture(params=ptx_fatbins.TOOLKITS, scope="module")
def version(request: pytest.FixtureRequest) -> str:
    """The toolkit that compiled the kernels."""
    return request.param


@pytest.fixture
def ampere(version: str) -> Library:
    return _library(version, "ampere")


@pytest.fixture
def hopper(version: str) -> Library:
    return _library(version, "hopper")


@pytest.fixture
def wgmma(version: str) -> Library:
    return _library(version, "wgmma")


def _library(version: str, part: str) -> Library:
    here = torch.cuda.get_device_capability()
    # SASS runs within its major version, and the features of 90a on 9.0 alone.
    if here != (9, 0) and not (part == "ampere" and here[0] == 8):
        _cannot_run(f"no image of {part} for compute capability {here[0]}.{here[1]}")
    if not ptx_fatbins.is_current(version, part):
        try:
            toolkit = toolkits.find(version, provision=False)
        except ToolkitError as error:
            name = ptx_fatbins.fatbin(version, part).relative_to(ptx_fatbins.ROOT)
            _cannot_run(
                f"{name} is not of these sources, and there is nothing to build it: {error}"
            )
        ptx_fatbins.build(toolkit, part)
    return _load(version, part)


@functools.cache
def _load(version: str, part: str) -> Library:
    return Library(ptx_fatbins.fatbin(version, part).read_bytes())


def _cannot_run(reason: str) -> None:
    """Skip with a sentence; fail instead when FA3_REQUIRE_GPU=1."""
    if os.environ.get(REQUIRE_GPU) == "1":
        pytest.fail(f"{REQUIRE_GPU}=1, but {reason}")
    pytest.skip(reason)


def poisoned(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Device memory that a kernel is to overwrite, with the poison in it."""
    return torch.full(shape, POISON, dtype=torch.int32, device="cuda").view(dtype)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Integers from -4 to 4 on the CPU, as doubles."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).double()


def words(x: torch.Tensor) -> torch.Tensor:
    """Neighbours of a 16-bit tensor's last dimension as 32-bit words, the first in the low half, on the device."""
    return x.contiguous().view(torch.int32).cuda()


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


def test_stmatrix_is_the_way_back_of_ldmatrix(hopper: Library) -> None:
    rows = torch.arange(256, dtype=torch.int16).view(32, 8)
    order = torch.randperm(32, generator=torch.Generator().manual_seed(2))
    fragments = words(rows.view(4, 8, 4, 2).permute(1, 2, 0, 3))
    lines = poisoned(32, 4)
    hopper.launch(
        "stmatrix", fragments, order.to(torch.int32).cuda(), lines, threads=32, shared_bytes=512
    )
    expected = torch.empty_like(rows)
    expected[order] = rows
    assert torch.equal(lines.cpu().view(torch.int16), expected)


def lanes() -> tuple[torch.Tensor, torch.Tensor]:
    """g = lane / 4 and t = lane % 4, as columns: the letters of the manual's fragment figures."""
    lane = torch.arange(32)[:, None]
    return lane // 4, lane % 4


def fragments_a(a: torch.Tensor) -> torch.Tensor:
    """Fragments of the left operand (16 w rows, 16 s columns): 32 w lanes by 4 s registers by 2 elements."""
    g, t = lanes()
    i = torch.arange(8)  # two elements in each of four registers
    warp = torch.arange(a.shape[0] // 16)[:, None, None, None]
    step = torch.arange(a.shape[1] // 16)[:, None]
    row = g + i // 2 % 2 * 8
    column = 2 * t + i % 2 + i // 4 * 8
    picked = a[16 * warp + row[:, None, :], 16 * step + column[:, None, :]]
    return picked.reshape(len(warp) * 32, -1, 2)


def fragments_b(b: torch.Tensor) -> torch.Tensor:
    """Fragments of the right operand (16 rows, 8 columns): 32 lanes by 2 registers by 2 elements."""
    g, t = lanes()
    i = torch.arange(4)
    return b[2 * t + i % 2 + i // 2 * 8, g].view(32, 2, 2)


def fragments_d(d: torch.Tensor) -> torch.Tensor:
    """Accumulators (16 w rows, 8 n columns): 32 w lanes by 4 n."""
    g, t = lanes()
    i = torch.arange(d.shape[1] // 2)
    warp = torch.arange(d.shape[0] // 16)[:, None, None]
    picked = d[16 * warp + g + i // 2 % 2 * 8, i // 4 * 8 + 2 * t + i % 2]
    return picked.reshape(-1, len(i))


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


# Barriers and registers of Hopper -----------------------------------------------------------------


def test_mbarrier_phases(hopper: Library) -> None:
    """Nobody passes a phase before its last arrival, whichever warp that is and whatever the parity."""
    phases = 33
    seen = poisoned(phases, 128)
    hopper.launch("mbarrier_ring", seen, phases, threads=160, shared_bytes=1024 + 512)
    expected = torch.arange(phases * 128, dtype=torch.int32, device="cuda")
    assert torch.equal(seen, expected.view(phases, 128))


@pytest.mark.parametrize("first", [1, 8, 14])
def test_named_barriers(hopper: Library, first: int) -> None:
    rounds = 32
    seen = poisoned(rounds, 64)
    hopper.launch("named_barriers", seen, first, rounds, threads=96, shared_bytes=256)
    expected = torch.arange(rounds * 64, dtype=torch.int32, device="cuda")
    assert torch.equal(seen, expected.view(rounds, 64))


def test_a_grid_that_starts_early_waits_for_the_one_before(hopper: Library) -> None:
    links = 40
    values = torch.arange(128, dtype=torch.int32, device="cuda")
    times = torch.zeros(links, 2, dtype=torch.int64, device="cuda")
    expected = values.long().cpu()
    for link in range(links):
        hopper.launch("chained", values, times[link], threads=128, early=True)
        expected = (3 * expected + 1) % 2**32
    assert torch.equal(values.long().cpu() % 2**32, expected)
    begins, ends = times[1:, 0], times[:-1, 1]
    assert bool((begins < ends).any())  # or else nothing has been shown


def test_setmaxnreg(hopper: Library) -> None:
    values = torch.arange(200 * 256, dtype=torch.float32, device="cuda")
    out = poisoned(200 * 256 + 128, dtype=torch.float32)
    hopper.launch("setmaxnreg", values, out, threads=384)
    assert torch.equal(out[: 200 * 256], values.view(200, 256).flip(0).flatten())
    assert torch.equal(out[200 * 256 :], values[:128])


# TMA ----------------------------------------------------------------------------------------------

# PTX ISA, "Swizzling Modes", of rows of 128 and of 64 bytes: which 16-byte cell lies at each place of a line of
# 128 bytes; the lines repeat.
SWIZZLE = {
    128: (
        (0, 1, 2, 3, 4, 5, 6, 7),
        (1, 0, 3, 2, 5, 4, 7, 6),
        (2, 3, 0, 1, 6, 7, 4, 5),
        (3, 2, 1, 0, 7, 6, 5, 4),
        (4, 5, 6, 7, 0, 1, 2, 3),
        (5, 4, 7, 6, 1, 0, 3, 2),
        (6, 7, 4, 5, 2, 3, 0, 1),
        (7, 6, 5, 4, 3, 2, 1, 0),
    ),
    64: (
        (0, 1, 2, 3, 4, 5, 6, 7),
        (1, 0, 3, 2, 5, 4, 7, 6),
        (2, 3, 0, 1, 6, 7, 4, 5),
        (3, 2, 1, 0, 7, 6, 5, 4),
    ),
}


def panel_columns(columns: int) -> int:
    """Of the swizzle that a tile has: 128 bytes where it can."""
    return 64 if columns % 64 == 0 else 32


def in_shared_memory(tile: torch.Tensor, panel: int) -> torch.Tensor:
    """A tile of 16-bit elements as it lies in shared memory: swizzled panels of columns, one after the other."""
    rows, columns = tile.shape
    lines = tile.view(rows, columns // panel, panel).transpose(0, 1).reshape(-1, 8, 8)
    table = torch.tensor(SWIZZLE[2 * panel])
    assert rows * panel * 2 % (128 * len(table)) == 0  # every panel starts the pattern anew
    cells = table[torch.arange(len(lines)) % len(table)]
    return lines.gather(1, cells[:, :, None].expand_as(lines))


@dataclass(frozen=True)
class Box:
    """A load of boxes side by side from a (batch, head, row, column) tensor; coordinates as `tma_load` takes them."""

    name: str
    columns: int
    start: tuple[int, int, int, int]  # column, row, head, batch
    panel: int = 64
    box_rows: int = 64
    boxes: int = 1
    rows: int = 200

    def __str__(self) -> str:
        return f"{self.name}-{2 * self.panel}B"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the tensor as the interface has it: (batch, row, head, column)."""
        return 2, self.rows, 3, self.columns

    def overlap(self) -> tuple[tuple[slice, slice], tuple[int | slice, ...]]:
        """Where the boxes and the tensor meet: in the boxes, and in the (batch, head, row, column) tensor."""
        column, row, head, entry = self.start
        batch, rows, heads, columns = self.shape
        first, last = max(row, 0), min(row + self.box_rows, rows)
        end = min(column + self.boxes * self.panel, columns)
        if head >= heads or entry >= batch or first >= last or column >= end:
            return (slice(0), slice(0)), (0, 0, slice(0), slice(0))
        in_box = (slice(first - row, last - row), slice(0, end - column))
        return in_box, (entry, head, slice(first, last), slice(column, end))


BOXES = [
    *(
        Box(name, columns, start, panel)
        for panel, (name, columns, start) in itertools.product(
            (64, 32),
            [
                ("inside", 128, (0, 0, 0, 0)),
                ("offset", 128, (64, 67, 2, 1)),
                ("last-rows", 128, (0, 150, 1, 1)),
                ("row-past-the-end", 128, (0, 200, 1, 0)),
                ("row-far-past-the-end", 128, (0, 2**30, 1, 0)),
                ("before-the-first-row", 128, (0, -5, 1, 1)),
                ("column-past-the-end", 128, (128, 0, 0, 0)),
                ("narrower-than-a-box", 24, (0, 10, 2, 1)),
                ("head-past-the-end", 128, (0, 0, 3, 0)),
                ("batch-past-the-end", 128, (0, 0, 0, 2)),
            ],
        )
    ),
    Box("two-panels", 128, (0, 100, 1, 1), 64, 128, 2),
    Box("three-panels", 96, (0, 100, 1, 1), 32, 128, 3),
    Box("head-dim-72-of-128", 72, (0, 100, 1, 1), 64, 80, 2),
    Box("head-dim-72-of-96", 72, (0, 190, 2, 1), 32, 80, 3),
    Box("one-row", 64, (0, 0, 0, 1), 64, 128, 1, rows=1),
    Box("tallest", 64, (0, 0, 0, 1), 64, 256, 1, rows=300),
]


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_tma_boxes_byte_for_byte(hopper: Library, box: Box) -> None:
    # As the interface has it: (batch, row, head, column). No element is 0 or the poison.
    numbers = (torch.arange(math.prod(box.shape)) % 32749 + 1).to(torch.int16)
    expected = torch.zeros(box.box_rows, box.boxes * box.panel, dtype=torch.int16)
    in_box, in_tensor = box.overlap()
    expected[in_box] = numbers.view(box.shape).transpose(1, 2)[in_tensor]

    box_bytes = 2 * box.box_rows * box.panel
    actual = poisoned((box.boxes * box_bytes + 1024) // 4)
    device_x = numbers.cuda().view(box.shape).transpose(1, 2)
    mapped: TensorMap = tensor_map(device_x, box.panel, box.box_rows)
    hopper.launch(
        "tma_boxes", mapped, actual, *box.start, box.boxes, box.panel, box_bytes, threads=160,
        shared_bytes=2048 + box.boxes * box_bytes,
    )  # fmt: skip
    guard = actual[-256:]
    assert torch.equal(
        actual[:-256].cpu().view(torch.int16), in_shared_memory(expected, box.panel).flatten()
    )
    assert bool((guard == POISON).all()), "TMA wrote past the boxes"


# The hardware takes no negative coordinate here, and the kernels have none.
@pytest.mark.parametrize("box", [box for box in BOXES if min(box.start) >= 0], ids=str)
def test_tma_stores_what_lies_inside_the_tensor(hopper: Library, box: Box) -> None:
    count = box.box_rows * box.boxes * box.panel
    tile = (torch.arange(count) % 32749 + 1).to(torch.int16).view(box.box_rows, -1)
    expected = torch.full(box.shape, POISON, dtype=torch.int16).transpose(1, 2)
    in_box, in_tensor = box.overlap()
    expected[in_tensor] = tile[in_box]

    actual = poisoned(math.prod(box.shape) // 2).view(torch.int16).view(box.shape).transpose(1, 2)
    swizzled = in_shared_memory(tile, box.panel).flatten()
    hopper.launch(
        "tma_stores", tensor_map(actual, box.panel, box.box_rows), words(swizzled), *box.start,
        box.boxes, box.panel, 2 * box.box_rows * box.panel, 37, threads=64,
        shared_bytes=1024 + 2 * count,
    )  # fmt: skip
    assert torch.equal(actual.cpu(), expected)


# wgmma --------------------------------------------------------------------------------------------


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
