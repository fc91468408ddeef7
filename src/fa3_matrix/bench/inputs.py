"""Makes the tensors of a problem, so that reading what must not be read shows in the result.

All memory around and between the elements of q, k and v holds NaN, as do rows that `used_q` and `used_k` leave out:
a kernel that lets such a value into its sums returns NaN, even where it multiplies it by a probability of 0. Of a
cache so do the rows that the call is to append; past an entry's keys its page table names pages of NaN, or none of the
cache.
"""

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch

from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.problems import SPARE_PAGES, Problem

TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# Elements of NaN before and after a tensor's storage: more than one tile of the widest head, 128 x 256.
GUARD = 2**16
# Between the index arrays, so that reading one entry too far yields a length no tensor has.
_SENTINEL = 2**31 - 1


@dataclass(frozen=True)
class Inputs:
    """q, k, v as the operators take them, k and v being the cache if there is one; other tensors None where not needed.

    k_new, v_new: (batch, new_rows, heads_k, head_dim), what the call is to append.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None
    seqused_q: torch.Tensor | None = None
    seqused_k: torch.Tensor | None = None
    cache_seqlens: torch.Tensor | None = None
    page_table: torch.Tensor | None = None
    k_new: torch.Tensor | None = None
    v_new: torch.Tensor | None = None


def make_inputs(
    problem: Problem,
    device: str | torch.device,
    *,
    guard: int = GUARD,
    unused: float = math.nan,
) -> Inputs:
    """Draws the inputs of `problem` by its seed.

    The same problem gives the same values on the same device. `guard` elements of NaN lie on both sides of each
    tensor; 0 makes each allocation end at its last element, where a memory checker sees the first byte read beyond.
    Rows that don't count hold `unused`.
    """
    generator = torch.Generator(device=device).manual_seed(problem.seed)
    indices = _indices(problem, device, guard)
    dtype = TORCH_DTYPES[problem.dtype]
    tensors: dict[str, Any] = {}
    for name, layout in zip("qkv", problem.layouts, strict=True):
        shape = problem.shape_q if name == "q" else problem.shape_k
        if name != "q" and problem.is_cache:
            # A cache is filled from keys in their order, so that their values don't depend on where they lie.
            shape = (problem.batch, problem.seqlen_k, *shape[-2:])
            layout = Layout()
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
        _forget_unused(name, tensors, indices, unused)
    if problem.is_cache:
        indices["page_table"] = _page_table(problem, device, guard)
        for name, layout in (("k", problem.layout_k), ("v", problem.layout_v)):
            keys = tensors[name]
            tensors[name] = _allocate(problem.shape_k, layout, dtype, device, guard)
            tensors[f"{name}_new"] = _fill_cache(
                problem, keys, tensors[name], indices, unused, guard
            )
    return Inputs(**tensors, **indices)


def fresh_cache(inputs: Inputs) -> Inputs:
    """`inputs` with copies of their k and v, and of all the memory around them."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        flat = _storage(tensor).clone()
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    return replace(inputs, k=copy(inputs.k), v=copy(inputs.v))


def appended(problem: Problem, inputs: Inputs) -> Inputs:
    """`inputs` with their caches as the call must leave them: themselves where it appends nothing."""
    if not problem.new_rows:
        return inputs
    after = fresh_cache(inputs)
    assert inputs.k_new is not None and inputs.v_new is not None
    entry, row, new = _new_positions(problem, inputs.k.device)
    at = _at(inputs.page_table, problem, entry, row)
    after.k[at] = inputs.k_new[entry, new]
    after.v[at] = inputs.v_new[entry, new]
    return after


def same_cache(a: Inputs, b: Inputs) -> bool:
    """Whether the caches of both, and the memory around them, are the same to the bit. Waits for the device."""
    return all(
        torch.equal(_storage(x).view(torch.int16), _storage(y).view(torch.int16))
        for x, y in ((a.k, b.k), (a.v, b.v))
    )


def _storage(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())


def _fill_cache(
    problem: Problem,
    keys: torch.Tensor,
    cache: torch.Tensor,
    indices: dict[str, torch.Tensor | None],
    unused: float,
    guard: int,
) -> torch.Tensor | None:
    """Puts those of `keys` (batch, capacity, heads_k, head_dim) that count into `cache`; returns the new rows."""
    device = cache.device
    cache.fill_(unused)
    table = indices["page_table"]
    lengths = problem.used_k or (problem.seqlen_k,) * problem.batch
    held = torch.tensor(lengths, dtype=torch.int64).to(device) - problem.new_rows
    position = torch.arange(problem.seqlen_k, device=device)
    entry, row = torch.nonzero(position < held[:, None], as_tuple=True)
    cache[_at(table, problem, entry, row)] = keys[entry, row]
    if not problem.new_rows:
        return None
    new = _allocate(problem.shape_new, problem.layout_new, cache.dtype, device, guard)
    new.fill_(torch.nan)
    entry, row, which = _new_positions(problem, device)
    new[entry, which] = keys[entry, row]
    return new


def _new_positions(
    problem: Problem, device: str | torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of each new row that has a place in its cache: its entry, its row there, and which new row of the entry it is."""
    begins = torch.tensor(problem.used_k, dtype=torch.int64)[:, None] - problem.new_rows
    rows = begins + torch.arange(problem.new_rows)
    entry, new = torch.nonzero((rows >= 0) & (rows < problem.seqlen_k), as_tuple=True)
    return entry.to(device), rows[entry, new].to(device), new.to(device)


def _at(
    table: torch.Tensor | None, problem: Problem, entry: torch.Tensor, row: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where in a cache that row of that entry is."""
    if table is None:
        return entry, row
    return table[entry, row // problem.page_size].long(), row % problem.page_size


def _page_table(problem: Problem, device: str | torch.device, guard: int) -> torch.Tensor | None:
    """(batch, pages_per_sequence): each used page once, in random order; past them pages of NaN, and nonsense."""
    if not problem.page_size:
        return None
    generator = torch.Generator().manual_seed(problem.seed)
    pages = torch.tensor(problem.used_pages(), dtype=torch.int64)
    per_sequence = problem.seqlen_k // problem.page_size
    count = problem.shape_k[0]
    spare = torch.randint(
        count - SPARE_PAGES, count, (problem.batch, per_sequence), generator=generator
    )
    nonsense = torch.tensor([-1, count, _SENTINEL, -_SENTINEL - 1])
    chosen = torch.randint(8, (problem.batch, per_sequence), generator=generator)
    table = torch.where(chosen < 4, nonsense[chosen % 4], spare)
    used = torch.arange(per_sequence) < pages[:, None]
    # Spare pages are the last ones here; the shuffle puts them anywhere.
    shuffled = torch.randperm(count, generator=generator)
    table[used] = torch.arange(count - SPARE_PAGES)
    inside = (table >= 0) & (table < count)
    table = torch.where(inside, shuffled[table.clamp(0, count - 1)], table).to(torch.int32)
    # A row of a wider table, which is how serving engines keep it.
    wide = torch.nn.functional.pad(table, (0, 3 if guard else 0), value=_SENTINEL).to(device)
    return wide[:, :per_sequence]


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


def _indices(
    problem: Problem, device: str | torch.device, guard: int
) -> dict[str, torch.Tensor | None]:
    arrays: dict[str, tuple[int, ...] | None] = {}
    if problem.lengths_q is not None:
        arrays["cu_seqlens_q"] = (0, *accumulate(problem.lengths_q))
    if problem.lengths_k is not None:
        arrays["cu_seqlens_k"] = (0, *accumulate(problem.lengths_k))
        arrays |= {"seqused_q": problem.used_q, "seqused_k": problem.used_k}
    elif problem.used_k is not None:
        arrays["cache_seqlens"] = tuple(used - problem.new_rows for used in problem.used_k)
    if not arrays:
        return {}
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
    name: str,
    tensors: dict[str, torch.Tensor],
    indices: dict[str, torch.Tensor | None],
    unused_value: float,
) -> None:
    used, begins = indices.get(f"seqused_{name}"), indices.get(f"cu_seqlens_{name}")
    if used is None or begins is None:
        return
    row = torch.arange(tensors[name].shape[0], device=used.device, dtype=torch.int32)
    sequence = torch.searchsorted(begins, row, right=True) - 1
    unused = (row - begins[sequence]) >= used[sequence]
    for tensor in [tensors["q"]] if name == "q" else [tensors["k"], tensors["v"]]:
        _once(tensor).masked_fill_(unused[:, None, None], unused_value)
