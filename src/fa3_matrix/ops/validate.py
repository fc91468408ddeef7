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
