"""Each of Hopper's wrappers of cpp/ptx but wgmma against what the PTX ISA manual says of the instruction.

The kernels are in tests/cpp/ptx_hopper.cu. Numbers are small integers wherever sums are compared: those are exact.
"""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch

from ..cuda_driver import Library, TensorMap, tensor_map
from .layouts import POISON, in_shared_memory, poisoned, words

pytestmark = pytest.mark.gpu


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
