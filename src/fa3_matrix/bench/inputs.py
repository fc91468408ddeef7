"""Makes the tensors of a problem, so that reading what must not be read shows in the result.

All memory around and between the elements of q, k and v holds NaN, as do rows that `used_q` and `used_k` leave out:
a kernel that lets such a value into its sums returns NaN, even where it multiplies it by a probability of 0.
"""

from dataclasses import dataclass
from itertools import accumulate

import torch

from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.problems import Problem

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# Elements of NaN before and after a tensor's storage: more than one tile of the widest head, 128 x 256.
GUARD = 2**16
# Between the index arrays, so that reading one entry too far yields a length no tensor has.
_SENTINEL = 2**31 - 1


@dataclass(frozen=True)
class Inputs:
    """q, k, v as the operators take them; int32 index tensors of a varlen problem, else None."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None
    seqused_q: torch.Tensor | None = None
    seqused_k: torch.Tensor | None = None


def make_inputs(problem: Problem, device: str | torch.device, *, guard: int = GUARD) -> Inputs:
    """Draws the inputs of `problem` by its seed.

    The same problem gives the same values on the same device. `guard` elements of NaN lie on both sides of each
    tensor; 0 makes each allocation end at its last element, where a memory checker sees the first byte read beyond.
    """
    generator = torch.Generator(device=device).manual_seed(problem.seed)
    indices = _indices(problem, device, guard)
    dtype = TORCH_DTYPES[problem.dtype]
    tensors = {}
    for name, shape, layout in (
        ("q", problem.shape_q, problem.layout_q),
        ("k", problem.shape_k, problem.layout_k),
        ("v", problem.shape_k, problem.layout_v),
    ):
        tensor = _allocate(shape, layout, dtype, device, guard)
        _once(tensor).normal_(generator=generator)
        tensors[name] = tensor
    if problem.values == "sharp":
        _once(tensors["q"]).mul_(4)
    elif problem.values == "rising" and tensors["k"].numel():
        rows = tensors["k"].shape[-3]
        ramp = torch.linspace(0.1, 3, rows, device=device, dtype=dtype)
        _once(tensors["k"]).mul_(ramp[:, None, None])
    for name in ("q", "k"):
        _forget_unused(name, tensors, indices)
    return Inputs(**tensors, **indices)


def _allocate(
    shape: tuple[int, ...],
    layout: Layout,
    dtype: torch.dtype,
    device: str | torch.device,
    guard: int,
) -> torch.Tensor:
    # Storage offsets count from an aligned base, so the guard must keep the alignment that the layout states.
    before = -(-guard // 64) * 64 + layout.offset
    storage = torch.full(
        (before + layout.extent(shape) + guard,), torch.nan, dtype=dtype, device=device
    )
    return storage.as_strided(shape, layout.strides(shape), before)


def _once(tensor: torch.Tensor) -> torch.Tensor:
    """A view of `tensor` that holds each element of memory once: expanded dimensions cut to their first index."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _indices(problem: Problem, device: str | torch.device, guard: int) -> dict[str, torch.Tensor]:
    if problem.lengths_q is None or problem.lengths_k is None:
        return {}
    arrays = {
        "cu_seqlens_q": (0, *accumulate(problem.lengths_q)),
        "cu_seqlens_k": (0, *accumulate(problem.lengths_k)),
        "seqused_q": problem.used_q,
        "seqused_k": problem.used_k,
    }
    if not guard:
        return {
            name: torch.tensor(array, dtype=torch.int32).to(device)
            for name, array in arrays.items()
            if array is not None
        }
    flat = [_SENTINEL]
    begins = {}
    for name, array in arrays.items():
        if array is not None:
            begins[name] = (len(flat), len(array))
            flat += [*array, _SENTINEL]
    # One copy to the device for all of them.
    buffer = torch.tensor(flat, dtype=torch.int32).to(device)
    return {name: buffer[begin : begin + count] for name, (begin, count) in begins.items()}


def _forget_unused(
    name: str, tensors: dict[str, torch.Tensor], indices: dict[str, torch.Tensor]
) -> None:
    used = indices.get(f"seqused_{name}")
    if used is None:
        return
    begins = indices[f"cu_seqlens_{name}"]
    row = torch.arange(tensors[name].shape[0], device=used.device, dtype=torch.int32)
    sequence = torch.searchsorted(begins, row, right=True) - 1
    unused = (row - begins[sequence]) >= used[sequence]
    for tensor in [tensors["q"]] if name == "q" else [tensors["k"], tensors["v"]]:
        _once(tensor).masked_fill_(unused[:, None, None], torch.nan)
