"""Where a tensor lies in memory: order of its dimensions, padding, offset, broadcasting."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TEXT = re.compile(r"([bsh]+)(?:\+p(\d+))?(?:\+o(\d+))?(?:\+j(\d+))?(?:\+e([bh]))?")


@dataclass(frozen=True)
class Layout:
    """Physical layout of a (batch, seqlen, heads, head_dim) or (total, heads, head_dim) tensor.

    The last dimension is always contiguous, as the operators demand.

    Args:
        order: the outer dimensions from slowest to fastest: a permutation of "bsh", or of "sh" for packed sequences.
        pad: elements left free after each row of head_dim.
        offset: elements between the start of the storage and the first element; 1 makes 16-byte copies illegal.
        jump: elements added to the stride of the slowest dimension; 2**31 takes it past 32-bit offsets.
        expand: "b" or "h": this dimension has stride 0 and every index of it is the same memory; "" for none.
    """

    order: str = "bsh"
    pad: int = 0
    offset: int = 0
    jump: int = 0
    expand: str = ""

    def __post_init__(self) -> None:
        if sorted(self.order) not in (["b", "h", "s"], ["h", "s"]):
            raise ValueError(f"order must be a permutation of 'bsh' or of 'sh', got {self.order!r}")
        if self.expand and self.expand not in self.order:
            raise ValueError(f"expand={self.expand!r} is not a dimension of order={self.order!r}")

    def __str__(self) -> str:
        parts = [("p", self.pad), ("o", self.offset), ("j", self.jump), ("e", self.expand)]
        return self.order + "".join(f"+{letter}{value}" for letter, value in parts if value)

    @classmethod
    def parse(cls, text: str) -> "Layout":
        """Inverse of ``str``. Raises ValueError for anything else."""
        match = _TEXT.fullmatch(text)
        if not match:
            raise ValueError(f"layout {text!r} is not like 'bsh', 'bhs+p8+o1' or 'bsh+eh'")
        order, pad, offset, jump, expand = match.groups()
        return cls(order, int(pad or 0), int(offset or 0), int(jump or 0), expand or "")

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Element strides of a tensor of this `shape`, the last dimension included."""
        names = "bsh"[-len(shape) + 1 :]
        sizes = dict(zip(names, shape, strict=False))
        strides: dict[str, int] = {}
        step = shape[-1] + self.pad
        for index, name in enumerate(reversed(self.order)):
            slowest = index == len(self.order) - 1
            if name == self.expand:
                strides[name] = 0
                continue
            strides[name] = step + (self.jump if slowest else 0)
            step *= max(sizes[name], 1)
        return (*(strides[name] for name in names), 1)

    def suits_tma(self, shape: Sequence[int]) -> bool:
        """Whether a TMA map can describe a tensor of this `shape` and of two-byte elements."""
        outer = zip(shape[:-1], self.strides(shape)[:-1], strict=True)
        steps = [stride for size, stride in outer if size > 1]
        return self.offset % 8 == 0 and all(0 < s < 2**39 and s % 8 == 0 for s in steps)

    def extent(self, shape: Sequence[int]) -> int:
        """Elements from the first to the last one of a tensor of this `shape`, both included."""
        if 0 in shape:
            return 0
        return 1 + sum(
            (size - 1) * stride for size, stride in zip(shape, self.strides(shape), strict=True)
        )
