"""Memory that one call allocates beyond its inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from fa3_matrix.bench.results import Document


class Allocator(Protocol):
    """Counts what is allocated, in bytes."""

    def reset_peak(self) -> None:
        """The peak is what is held now."""

    def held(self) -> int: ...

    def peak(self) -> int: ...


class CudaAllocator:
    """What is asked of PyTorch's: that it rounds up, and how its cache is cut, is not the call's."""

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def held(self) -> int:
        return int(torch.cuda.memory_stats()["requested_bytes.all.current"])

    def peak(self) -> int:
        return int(torch.cuda.memory_stats()["requested_bytes.all.peak"])


@dataclass(frozen=True)
class Footprint:
    """`peak_bytes` of a call, and `output_bytes`, what it still holds when it has returned."""

    peak_bytes: int
    output_bytes: int

    @property
    def workspace_bytes(self) -> int:
        """What is free again when the call has returned."""
        return self.peak_bytes - self.output_bytes

    def as_json(self) -> Document:
        return {
            "peak_bytes": self.peak_bytes,
            "output_bytes": self.output_bytes,
            "workspace_bytes": self.workspace_bytes,
        }


def footprint(call: Callable[[], object], allocator: Allocator) -> Footprint:
    """Of `call`, which must have run before: what is allocated once for all calls is not its own."""
    allocator.reset_peak()
    before = allocator.held()
    outputs = call()
    result = Footprint(allocator.peak() - before, allocator.held() - before)
    del outputs
    return result
