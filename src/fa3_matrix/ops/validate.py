"""The checks of FA3_VALIDATE=1: index tensors, read back from the GPU."""

import itertools
from typing import Any


def check_indices(
    q: Any,
    k: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    seqused_q: Any,
    seqused_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
) -> None:
    """Check what the kernel otherwise clamps. Waits for the GPU. Arguments as of ``flash_attn_varlen_func``.

    Raises:
        ValueError: the indices contradict each other, a tensor's rows or max_seqlen.
    """
    _check("q", q.shape[0], cu_seqlens_q, seqused_q, max_seqlen_q)
    _check("k", k.shape[0], cu_seqlens_k, seqused_k, max_seqlen_k)


def check_cache(
    q: Any,
    k_cache: Any,
    new_rows: int,
    cache_seqlens: Any,
    page_table: Any,
    cu_seqlens_q: Any,
    max_seqlen_q: int | None,
) -> None:
    """Check what the kernels otherwise clamp or drop. Waits for the GPU. Arguments as of ``flash_attn_with_kvcache``.

    Raises:
        ValueError: lengths, new rows included, don't fit the cache; a page is none of the cache's; as `check_indices`.
    """
    if cu_seqlens_q is not None and max_seqlen_q is not None:
        _check("q", q.shape[0], cu_seqlens_q, None, max_seqlen_q)
    first, page_size = k_cache.shape[0], k_cache.shape[1]
    batch, per_sequence = (first, 1) if page_table is None else page_table.shape
    capacity = per_sequence * page_size
    lengths = [capacity] * batch if cache_seqlens is None else cache_seqlens.tolist()
    if len(lengths) != batch:
        raise ValueError(f"cache_seqlens has {len(lengths)} entries, the cache {batch}")
    for at, length in enumerate(lengths):
        if not 0 <= length <= capacity - new_rows:
            new = f" and {new_rows} rows are appended" if new_rows else ""
            raise ValueError(f"cache_seqlens[{at}] is {length}{new}; the capacity is {capacity}")
    for at, pages in enumerate([] if page_table is None else page_table.tolist()):
        for page in pages[: -(-(lengths[at] + new_rows) // page_size)]:
            if not 0 <= page < first:
                raise ValueError(f"page_table[{at}] names page {page}; the cache has {first}")


def _check(name: str, rows: int, cu_seqlens: Any, seqused: Any, max_seqlen: int) -> None:
    starts = cu_seqlens.tolist()
    lengths = [end - start for start, end in itertools.pairwise(starts)]
    if starts[:1] != [0]:
        raise ValueError(f"cu_seqlens_{name} starts with {starts[:1]}; it must start with 0")
    for at, length in enumerate(lengths, start=1):
        if length < 0:
            raise ValueError(
                f"cu_seqlens_{name} decreases from {starts[at - 1]} to {starts[at]} at entry {at}"
            )
    if starts[-1] > rows:
        raise ValueError(f"cu_seqlens_{name} ends with {starts[-1]} but {name} has {rows} rows")
    if max(lengths, default=0) > max_seqlen:
        raise ValueError(
            f"max_seqlen_{name} is {max_seqlen} but the longest sequence has {max(lengths)} rows"
        )
    used = lengths if seqused is None else seqused.tolist()
    if len(used) != len(lengths):
        raise ValueError(f"seqused_{name} has {len(used)} entries, cu_seqlens_{name} {len(starts)}")
    for at, (count, length) in enumerate(zip(used, lengths, strict=True)):
        if not 0 <= count <= length:
            raise ValueError(f"seqused_{name}[{at}] is {count}; sequence {at} has {length} rows")
