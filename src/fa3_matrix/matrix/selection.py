"""Which variant serves a problem: a table indexed by problem class.

A class is (head_dim, dtype, mask, layout, log2 of query rows, log2 of seqlen_k): the smallest compiled
head_dim that holds the problem's, and ceil(log2(length)) clipped to 0..16. The host library indexes
the same table; the ``serves`` of a manifest's variants are its source there.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fa3_matrix.matrix.model import (
    DTYPES,
    LAYOUTS,
    MASKS,
    MAX_LOG2_SEQLEN,
    Dtype,
    Layout,
    Mask,
    Matrix,
    Variant,
)

PACKED_ROWS = 64


class ProblemClass(NamedTuple):
    """The index of the selection table."""

    head_dim: int
    dtype: Dtype
    mask: Mask
    layout: Layout
    log2_seqlen_q: int
    log2_seqlen_k: int

    def __str__(self) -> str:
        return (
            f"head_dim {self.head_dim}, {self.dtype}, {self.mask} mask, {self.layout}, "
            f"log2 seqlen_q {self.log2_seqlen_q}, log2 seqlen_k {self.log2_seqlen_k}"
        )


def log2_seqlen(seqlen: int) -> int:
    """ceil(log2(seqlen)), clipped to 0..16: 0 and 1 give 0, 64 gives 6, 65 gives 7.

    Raises:
        ValueError: ``seqlen`` is negative.
    """
    if seqlen < 0:
        raise ValueError(f"seqlen is {seqlen}; it must be at least 0")
    return min(max(seqlen - 1, 0).bit_length(), MAX_LOG2_SEQLEN)


def query_rows(seqlen_q: int, group: int) -> int:
    """What chooses by the length of queries: the rows of a tile.

    Up to 64 queries come with the ``group`` of query heads that share a K/V head, as far as 64 rows: kernels for few
    queries pack them into one tile. More queries count alone.
    """
    return seqlen_q if seqlen_q > PACKED_ROWS else min(seqlen_q * group, PACKED_ROWS)


def mask_of(causal: bool, window: tuple[int, int], seqlen_q: int, seqlen_k: int) -> Mask:
    """The mask class of a call.

    ``causal`` sets the right limit to 0, and a limit that masks nothing counts as none; both as in
    FlashAttention. A limit on the left, or one on the right that looks ahead, is ``local``; a right
    limit of 0 alone is ``causal``; none is ``full``.
    """
    left, right = window[0], 0 if causal else window[1]
    # Row i sees keys i + seqlen_k - seqlen_q - left to i + seqlen_k - seqlen_q + right.
    limits_left = 0 <= left < seqlen_k - 1
    limits_right = 0 <= right < seqlen_q - 1
    if limits_left or (limits_right and right > 0):
        return "local"
    return "causal" if limits_right else "full"


def problem_class(
    head_dims: Iterable[int],
    *,
    head_dim: int,
    dtype: Dtype,
    seqlen_q: int,
    seqlen_k: int,
    group: int = 1,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    layout: Layout = "aligned",
) -> ProblemClass:
    """The class of a problem among the compiled ``head_dims``; ``group`` query heads share a K/V head.

    Raises:
        ValueError: ``head_dim`` is larger than every compiled one, or a length is negative.
    """
    compiled = sorted(head_dims)
    fitting = next((d for d in compiled if d >= head_dim), None)
    if fitting is None:
        raise ValueError(f"head_dim is {head_dim}; the compiled ones are {compiled}")
    mask = mask_of(causal, window, seqlen_q, seqlen_k)
    rows = log2_seqlen(query_rows(seqlen_q, group))
    return ProblemClass(fitting, dtype, mask, layout, rows, log2_seqlen(seqlen_k))


def served(variant: Variant) -> Iterable[ProblemClass]:
    """Every class that a variant serves; a candidate serves none."""
    if variant.candidate:
        return
    for serves in variant.serves:
        for index in itertools.product(
            serves.masks,
            serves.layouts,
            _inclusive(serves.log2_seqlen_q),
            _inclusive(serves.log2_seqlen_k),
        ):
            yield ProblemClass(variant.head_dim, variant.dtype, *index)


def classes(variants: Sequence[Variant]) -> Iterable[ProblemClass]:
    """Every class that must be served: whatever a problem of a compiled head_dim may be."""
    lengths = range(MAX_LOG2_SEQLEN + 1)
    head_dims = sorted({v.head_dim for v in variants})
    for index in itertools.product(head_dims, DTYPES, MASKS, LAYOUTS, lengths, lengths):
        yield ProblemClass(*index)


def table(matrix: Matrix, arch: str) -> dict[ProblemClass, Variant]:
    """The selection table of an arch: each class and the one variant that serves it."""
    return {index: v for v in matrix.variants(arch) for index in served(v)}


def _inclusive(bounds: tuple[int, int]) -> range:
    return range(bounds[0], bounds[1] + 1)
