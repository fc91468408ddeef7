"""Where the PTX ISA manual says that elements lie: in a warp's registers, and in shared memory."""

import torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
POISON = -1  # every byte of shared memory before a test, and of what tests write to


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
