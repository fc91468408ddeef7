"""Which kernel a call uses and why no other: the host library's choice, stated in Python and in words."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fa3_matrix.matrix.model import LAYOUTS, MAX_LOG2_SEQLEN, Layout, Mask, Serves
from fa3_matrix.matrix.selection import log2_seqlen, mask_of, query_rows
from fa3_matrix.matrix.target import ComputeCapability
from fa3_matrix.ops import builds as _builds
from fa3_matrix.ops import library
from fa3_matrix.ops.builds import Build, BuildLike, Variant

MAX_HEAD_DIM = 256
_DTYPES = {"bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16"}


class Problem(NamedTuple):
    """What the choice depends on. For varlen, seqlens are the stated maxima.

    ``layout`` is how q, k and v lie in memory: see :class:`fa3_matrix.matrix.Serves`; ``group`` query heads share a
    K/V head.
    """

    dtype: str
    head_dim: int
    mask: Mask
    seqlen_q: int
    seqlen_k: int
    layout: Layout = "aligned"
    group: int = 1

    def __str__(self) -> str:
        return (
            f"{self.dtype}, head_dim {self.head_dim}, {self.mask} mask, {self.layout}, "
            f"seqlen_q {self.seqlen_q}, seqlen_k {self.seqlen_k}, group {self.group}"
        )


@dataclass(frozen=True)
class Rejection:
    """Why a build (``variant`` None) or one of its variants is not used."""

    build: str
    variant: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.variant or self.build}: {self.reason}"


@dataclass(frozen=True)
class Decision:
    """The cell and variant that a call uses, both None when nothing serves it, and what was rejected."""

    problem: Problem
    compute_capability: ComputeCapability
    build: Build | None
    variant: Variant | None
    rejected: tuple[Rejection, ...]

    @property
    def cell(self) -> str | None:
        """Name of the cell or twin used."""
        return self.build.cell if self.build else None

    def __str__(self) -> str:
        if self.build and self.variant:
            chosen = f"{self.variant.name} of build {self.build.cell} ({self.build.path})"
        else:
            chosen = "nothing serves it"
        lines = [f"{self.problem} on compute capability {self.compute_capability}: {chosen}"]
        return "\n".join(lines + [f"  rejected {rejection}" for rejection in self.rejected])


def explain(
    *,
    seqlen_q: int,
    seqlen_k: int,
    head_dim: int,
    dtype: object = "bf16",
    group: int = 1,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    layout: str = "aligned",
    compute_capability: tuple[int, int] | str | None = None,
    builds: Sequence[BuildLike] | None = None,
) -> Decision:
    """Say which build and variant a call would use, and why every other is rejected.

    Args:
        seqlen_q, seqlen_k: lengths, or for varlen max_seqlen_q and max_seqlen_k.
        head_dim: multiple of 8, at most 256.
        dtype: ``"bf16"``, ``"fp16"``, or a torch dtype.
        group: query heads that share a K/V head, heads_q // heads_k.
        causal, window_size: as in :func:`fa3_matrix.flash_attn_func`.
        layout: see :class:`fa3_matrix.matrix.Serves`; contiguous tensors are ``"aligned"``.
        compute_capability: ``(9, 0)`` or ``"9.0"``; default: that of the current CUDA device. Given, no GPU is needed.
        builds: default: those in use.

    Raises:
        ValueError: an argument that no call may have.
        DriverError: no ``compute_capability`` given and there is no GPU.
    """
    problem = problem_of(
        dtype=dtype,
        head_dim=head_dim,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        group=group,
        causal=causal,
        window_size=window_size,
        layout=layout,
    )
    capability = _capability(compute_capability)
    used: Sequence[Build] = _builds.active_builds() if builds is None else _builds.resolve(builds)
    chosen: tuple[Build, Variant] | None = None
    rejected: list[Rejection] = []
    for build in used:
        if not build.runs_on(capability):
            low, high = build.capability_range
            runs = f"only on {low}" if low == high else f"on {low} to {high}"
            rejected.append(
                Rejection(build.cell, None, f"{build.target} runs {runs}, this GPU is {capability}")
            )
        elif chosen:
            rejected.append(
                Rejection(build.cell, None, f"{chosen[0].cell} serves the call and comes first")
            )
        else:
            variant, others = choose(build, problem)
            rejected += others
            if variant:
                chosen = build, variant
    build_used, variant_used = chosen or (None, None)
    return Decision(problem, capability, build_used, variant_used, tuple(rejected))


def problem_of(
    *,
    dtype: object,
    head_dim: int,
    seqlen_q: int,
    seqlen_k: int,
    group: int = 1,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    layout: str = "aligned",
) -> Problem:
    """The class of a dense call, as the host library sees it.

    Raises:
        ValueError: an argument that no call may have.
    """
    name = _DTYPES.get(str(dtype).removeprefix("torch."))
    if name is None:
        raise ValueError(f"dtype is {dtype}; bf16 and fp16 are supported")
    if not 8 <= head_dim <= MAX_HEAD_DIM or head_dim % 8:
        raise ValueError(
            f"head_dim is {head_dim}; multiples of 8 from 8 to {MAX_HEAD_DIM} are supported"
        )
    if seqlen_q < 0 or seqlen_k < 0:
        raise ValueError(f"seqlen_q is {seqlen_q}, seqlen_k is {seqlen_k}; lengths are at least 0")
    if group < 1:
        raise ValueError(f"group is {group}; at least one query head uses a K/V head")
    for known in LAYOUTS:
        if layout == known:
            mask = mask_of(causal, window_size, seqlen_q, seqlen_k)
            return Problem(name, head_dim, mask, seqlen_q, seqlen_k, known, group)
    raise ValueError(f"layout is {layout!r}; {', '.join(LAYOUTS)} exist")


def choose(build: Build, problem: Problem) -> tuple[Variant | None, list[Rejection]]:
    """The variant of a build that serves a problem, and why each other does not."""
    fitting = [
        v.head_dim
        for v in build.variants
        if v.dtype == problem.dtype and v.head_dim >= problem.head_dim and not v.candidate
    ]
    chosen: Variant | None = None
    rejected: list[Rejection] = []
    for variant in build.variants:
        reason = _reason_against(variant, problem, min(fitting, default=None))
        if reason:
            rejected.append(Rejection(build.cell, variant.name, reason))
        else:
            chosen = variant
    return chosen, rejected


def _reason_against(variant: Variant, problem: Problem, head_dim: int | None) -> str | None:
    if variant.candidate:
        return f"it is a candidate: {variant.candidate}"
    if variant.dtype != problem.dtype:
        return f"it is for {variant.dtype}"
    if variant.head_dim < problem.head_dim:
        return f"it is compiled for head_dim {variant.head_dim}, too small"
    if variant.head_dim != head_dim:
        return f"it is compiled for head_dim {variant.head_dim}, and {head_dim} suffices"
    asked = list(filter(None, (_lacking(serves, problem) for serves in variant.serves)))
    if len(asked) < len(variant.serves):
        return None
    return f"it serves {' or '.join(dict.fromkeys(asked))}"


def _lacking(serves: Serves, problem: Problem) -> str | None:
    """What the set asks of a problem that this one is not."""
    if problem.mask not in serves.masks:
        return f"only the masks {', '.join(serves.masks)}"
    if problem.layout not in serves.layouts:
        return f"{' and '.join(serves.layouts)} tensors only"
    for name, seqlen, (low, high) in (
        ("query rows", query_rows(problem.seqlen_q, problem.group), serves.log2_seqlen_q),
        ("seqlen_k", problem.seqlen_k, serves.log2_seqlen_k),
    ):
        if not low <= log2_seqlen(seqlen) <= high:
            return f"{name} {_lengths(low, high)}"
    return None


def _lengths(low: int, high: int) -> str:
    first = 0 if low == 0 else 2 ** (low - 1) + 1
    return f"from {first}" if high == MAX_LOG2_SEQLEN else f"from {first} to {2**high}"


def _capability(stated: tuple[int, int] | str | None) -> ComputeCapability:
    if isinstance(stated, str):
        return ComputeCapability.parse(stated)
    if stated is not None:
        return ComputeCapability(*stated)
    torch = sys.modules.get("torch")
    device = torch.cuda.current_device() if torch and torch.cuda.is_initialized() else 0
    return ComputeCapability(*library.device_capability(device))
