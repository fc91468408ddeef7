"""A problem: one attention call, stated completely, with an id from which it can be made again.

Needs neither torch nor a GPU.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from fa3_matrix.bench.layout import Layout
from fa3_matrix.matrix.model import DTYPES, Mask
from fa3_matrix.matrix.model import Layout as LayoutClass
from fa3_matrix.matrix.selection import mask_of

Values = Literal["normal", "sharp", "rising"]
# A part of an id: what it is about, then its value. Longer names first where one begins another.
_PART = re.compile(
    r"(bf16|fp16|causal|sharp|rising|L[qkv]=|slack|scale|splits|new|cap|uq|uk|[bdhkpqsw])(.*)"
)
_NAMES = {
    "b": "batch",
    "q": "seqlen_q",
    "k": "seqlen_k",
    "d": "head_dim",
    "p": "page_size",
    "s": "seed",
    "new": "new_rows",
    "splits": "num_splits",
    "slack": "slack",
    "cap": "softcap",
    "scale": "scale",
}
ITEM_BYTES = 2
# Of a cache in pages, which no keys are in: what a page table may name past an entry's keys.
SPARE_PAGES = 3


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One call of ``flash_attn_func``, ``flash_attn_varlen_func`` or ``flash_attn_with_kvcache``.

    Dense; varlen when `lengths_k` is given; against a cache when `is_cache`. `Problem.varlen` and `Problem.kvcache`
    make the latter two.

    Args:
        batch, seqlen_q, seqlen_k: dense sizes; of packed sequences they are derived. Of a cache seqlen_k is the
            capacity: of the rows, or of an entry's pages together.
        heads_q, heads_k: heads_q is a multiple of heads_k.
        head_dim: multiple of 8, at most 256.
        causal, window: as in FlashAttention-3; window is (left, right), -1 means no limit; bottom-right aligned.
        softcap: 0 is off.
        scale: softmax scale; None is 1/sqrt(head_dim).
        lengths_q, lengths_k: of each sequence, for varlen. A cache may have packed queries, lengths_q alone.
        used_q, used_k: optional shorter lengths that count (``seqused_q``, ``seqused_k``). Of a cache used_k is
            ``cache_seqlens`` + new_rows, even below 0 or beyond the capacity, to which the call clamps it.
        slack: added to the true maximum length to make ``max_seqlen_q`` and, for varlen, ``max_seqlen_k``.
        is_cache: k and v are a cache.
        page_size: of a cache in pages, shuffled; 0: it is contiguous.
        new_rows: the last of each entry's used keys, which the call itself appends to the cache.
        num_splits: as the functions take it; 1 does not split the keys.
        values: what the inputs hold. "normal": N(0, 1). "sharp": q four times that, so that few keys win.
            "rising": keys grow along the sequence, so that the running maximum of the softmax keeps moving.
        layout_q, layout_k, layout_v: see `Layout`.
        seed: of the inputs' values.
    """

    dtype: str
    heads_q: int
    heads_k: int
    head_dim: int
    batch: int
    seqlen_q: int
    seqlen_k: int
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    scale: float | None = None
    lengths_q: tuple[int, ...] | None = None
    lengths_k: tuple[int, ...] | None = None
    used_q: tuple[int, ...] | None = None
    used_k: tuple[int, ...] | None = None
    slack: int = 0
    is_cache: bool = False
    page_size: int = 0
    new_rows: int = 0
    num_splits: int = 1
    values: Values = "normal"
    layout_q: Layout = field(default_factory=Layout)
    layout_k: Layout = field(default_factory=Layout)
    layout_v: Layout = field(default_factory=Layout)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {DTYPES}, got {self.dtype!r}")
        if self.head_dim % 8 or not 8 <= self.head_dim <= 256:
            raise ValueError(f"head_dim must be a multiple of 8 from 8 to 256, got {self.head_dim}")
        if self.heads_k < 1 or self.heads_q % self.heads_k:
            raise ValueError(f"heads_q={self.heads_q} is not a multiple of heads_k={self.heads_k}")
        if self.is_cache:
            self._check_cache()
        else:
            self._check_packed()
        for name, layout in zip("qkv", self.layouts, strict=True):
            lengths = self.lengths_q if name == "q" else self.lengths_k
            dims = 3 if lengths is None else 2
            if len(layout.order) != dims:
                raise ValueError(f"layout_{name}={layout} must order {dims} dimensions")

    def _check_packed(self) -> None:
        if self.page_size or self.new_rows:
            raise ValueError("page_size and new_rows are a cache's")
        if (self.lengths_q is None) != (self.lengths_k is None):
            raise ValueError("lengths_q and lengths_k must be given together")
        for name in ("q", "k"):
            used, lengths = getattr(self, f"used_{name}"), getattr(self, f"lengths_{name}")
            if used is not None and (
                lengths is None
                or len(used) != len(lengths)
                or any(not 0 <= u <= n for u, n in zip(used, lengths, strict=True))
            ):
                raise ValueError(f"used_{name}={used} does not fit lengths_{name}={lengths}")

    def _check_cache(self) -> None:
        if self.lengths_k is not None or self.used_q is not None:
            raise ValueError("a cache has neither lengths_k nor used_q")
        if self.page_size < 0 or (self.page_size and self.seqlen_k % self.page_size):
            raise ValueError(f"seqlen_k={self.seqlen_k} is no multiple of {self.page_size=}")
        if self.used_k is None and self.new_rows:
            raise ValueError("new_rows are appended to known lengths: used_k is needed")
        if self.used_k is not None and len(self.used_k) != self.batch:
            raise ValueError(f"used_k has {len(self.used_k)} entries, batch is {self.batch}")
        if self.slack and self.lengths_q is None:
            raise ValueError("slack needs packed queries")
        if self.layout_k.expand or self.layout_v.expand:
            raise ValueError("a cache is written to: none of it may be expanded")

    @classmethod
    def varlen(
        cls, *, lengths_q: Sequence[int], lengths_k: Sequence[int], **more: Any
    ) -> "Problem":
        """A packed problem; batch and maximum lengths follow from `lengths_q` and `lengths_k`."""
        if len(lengths_q) != len(lengths_k):
            raise ValueError(f"{len(lengths_q)} query but {len(lengths_k)} key sequences")
        for name in ("layout_q", "layout_k", "layout_v"):
            more.setdefault(name, Layout("sh"))
        return cls(
            lengths_q=tuple(lengths_q),
            lengths_k=tuple(lengths_k),
            batch=len(lengths_q),
            seqlen_q=max(lengths_q, default=0),
            seqlen_k=max(lengths_k, default=0),
            **more,
        )

    @classmethod
    def kvcache(
        cls,
        *,
        lengths_q: Sequence[int] | None = None,
        used_k: Sequence[int] | None = None,
        **more: Any,
    ) -> "Problem":
        """A cache; batch follows from `lengths_q` or `used_k`, and seqlen_q from `lengths_q`."""
        if lengths_q is not None:
            more.setdefault("layout_q", Layout("sh"))
            more.update(lengths_q=tuple(lengths_q), batch=len(lengths_q))
            more.update(seqlen_q=max(lengths_q, default=0))
        if used_k is not None:
            more.setdefault("batch", len(used_k))
            more.update(used_k=tuple(used_k))
        return cls(is_cache=True, **more)

    @property
    def is_packed(self) -> bool:
        """Whether q, and so out, are sequences one after another."""
        return self.lengths_q is not None

    @property
    def is_varlen(self) -> bool:
        return self.lengths_k is not None

    @property
    def max_seqlen_q(self) -> int:
        """As the call states it; of dense queries their number."""
        return self.seqlen_q + self.slack

    @property
    def max_seqlen_k(self) -> int:
        """As the call states it; of a cache the capacity, of dense keys their number."""
        return self.seqlen_k if self.is_cache else self.seqlen_k + self.slack

    @property
    def layouts(self) -> tuple[Layout, Layout, Layout]:
        return (self.layout_q, self.layout_k, self.layout_v)

    @property
    def softmax_scale(self) -> float:
        return float(self.head_dim**-0.5) if self.scale is None else self.scale

    @property
    def group(self) -> int:
        """Query heads that share a K/V head."""
        return self.heads_q // self.heads_k

    @property
    def effective_window(self) -> tuple[int, int]:
        """(left, right) with causal folded in, as FlashAttention-3 does: causal sets right to 0."""
        return (self.window[0], 0 if self.causal else self.window[1])

    @property
    def mask(self) -> Mask:
        """Class of the mask, by which a variant is selected."""
        return mask_of(self.causal, self.window, self.seqlen_q, self.seqlen_k)

    @property
    def layout(self) -> LayoutClass:
        """Class of the tensors' layouts, by which a variant is selected."""
        shapes = (self.shape_q, self.shape_k, self.shape_k)
        described = all(map(Layout.suits_tma, self.layouts, shapes))
        if not self.page_size:
            return "aligned" if described else "unaligned"
        suits_blocks = self.page_size in (8, 16, 32, 64) or self.page_size % 128 == 0
        return "paged_aligned" if described and suits_blocks else "paged"

    @property
    def shape_q(self) -> tuple[int, ...]:
        rows = self._rows(self.lengths_q, self.seqlen_q)
        return (*rows, self.heads_q, self.head_dim)

    @property
    def shape_k(self) -> tuple[int, ...]:
        """Of k and v, or of each cache: (pages, page_size, heads_k, head_dim) of one in pages."""
        rows = (
            (sum(self.used_pages()) + SPARE_PAGES, self.page_size)
            if self.page_size
            else self._rows(self.lengths_k, self.seqlen_k)
        )
        return (*rows, self.heads_k, self.head_dim)

    @property
    def shape_new(self) -> tuple[int, ...]:
        """Of the rows that the call appends."""
        return (self.batch, self.new_rows, self.heads_k, self.head_dim)

    @property
    def layout_new(self) -> Layout:
        """Of the rows that the call appends: aligned as the queries are."""
        return Layout(pad=self.layout_q.pad, offset=self.layout_q.offset)

    def used_pages(self) -> list[int]:
        """Pages of each entry that hold keys that count."""
        return [-(-keys // self.page_size) for _, keys in self.pairs()]

    def _rows(self, lengths: tuple[int, ...] | None, seqlen: int) -> tuple[int, ...]:
        return (self.batch, seqlen) if lengths is None else (sum(lengths),)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """(query, key) length of each sequence that counts, `used_q` and `used_k` applied."""
        queries = self.lengths_q if self.used_q is None else self.used_q
        keys = self.lengths_k if self.used_k is None else self.used_k
        for i in range(self.batch):
            sq = self.seqlen_q if queries is None else queries[i]
            sk = self.seqlen_k if keys is None else keys[i]
            yield sq, min(max(sk, 0), self.seqlen_k)

    @property
    def scores(self) -> int:
        """Elements of the padded score matrix: what a reference has to hold."""
        return self.batch * self.heads_q * self.seqlen_q * self.seqlen_k

    def flops(self) -> float:
        """4 * heads * head_dim * (visible pairs); full and square causal problems by the papers' convention.

        That convention counts 4*b*h*s*s*d and halves it for causal, diagonal included.
        """
        total = sum(
            _visible(sq, sk, self.effective_window) * len(list(group))
            for (sq, sk), group in groupby(sorted(self.pairs()))
        )
        return 4.0 * self.heads_q * self.head_dim * total

    def min_bytes(self) -> int:
        """Bytes that must move: q, k, v read once, out, the fp32 lse and rows of the cache written once."""
        rows_q = sum(q for q, _ in self.pairs())
        rows_k = sum(k for _, k in self.pairs())
        rows_k += self.batch * self.new_rows
        values = 2 * rows_q * self.heads_q + 2 * rows_k * self.heads_k
        return values * self.head_dim * ITEM_BYTES + rows_q * self.heads_q * 4

    @property
    def label(self) -> str:
        """Short, for tables: what tells the problems of a suite apart; `id` states everything."""
        heads = (
            str(self.heads_q) if self.heads_q == self.heads_k else f"{self.heads_q}/{self.heads_k}"
        )
        parts = [self.dtype, f"d{self.head_dim}", f"b{self.batch}", f"h{heads}"]
        keys = max((keys for _, keys in self.pairs()), default=0)
        parts.append(f"q{'<=' if self.is_packed else ''}{self.seqlen_q}")
        parts.append(f"k{'<=' if self.is_varlen or self.used_k is not None else ''}{keys}")
        if self.is_cache:
            parts.append(f"pages of {self.page_size}" if self.page_size else "cache")
        parts += [f"new {self.new_rows}"] if self.new_rows else []
        parts += ["causal"] if self.causal else []
        parts += [f"window {self.window[0]},{self.window[1]}"] if self.window != (-1, -1) else []
        parts += [f"softcap {self.softcap:g}"] if self.softcap else []
        return " ".join([*parts, *([f"splits {self.num_splits}"] if self.num_splits > 1 else [])])

    @property
    def id(self) -> str:
        """States the whole problem in shell-safe characters; `Problem.parse` reads it back."""
        parts = [self._kind, self.dtype, f"d{self.head_dim}", f"h{self.heads_q}-{self.heads_k}"]
        if self.lengths_q is not None:
            parts.append(f"q{_join(self.lengths_q)}")
        else:
            parts += [f"b{self.batch}", f"q{self.seqlen_q}"]
        keys = (self.seqlen_k,) if self.lengths_k is None else self.lengths_k
        parts.append(f"k{_join(keys)}")
        parts += [f"uq{_join(self.used_q)}"] if self.used_q is not None else []
        parts += [f"uk{_join(self.used_k)}"] if self.used_k is not None else []
        parts += [f"slack{self.slack}"] if self.slack else []
        parts += [f"p{self.page_size}"] if self.page_size else []
        parts += [f"new{self.new_rows}"] if self.new_rows else []
        parts += [f"splits{self.num_splits}"] if self.num_splits != 1 else []
        parts += ["causal"] if self.causal else []
        parts += [f"w{self.window[0]},{self.window[1]}"] if self.window != (-1, -1) else []
        parts += [f"cap{self.softcap!r}"] if self.softcap else []
        parts += [f"scale{self.scale!r}"] if self.scale is not None else []
        parts += [self.values] if self.values != "normal" else []
        parts += [
            f"L{name}={layout}"
            for name, layout in zip("qkv", self.layouts, strict=True)
            if str(layout) not in ("sh", "bsh")
        ]
        return "_".join([*parts, f"s{self.seed}"])

    @property
    def _kind(self) -> str:
        return "cache" if self.is_cache else "varlen" if self.is_varlen else "dense"

    @classmethod
    def parse(cls, text: str) -> "Problem":
        """Inverse of `id`. Raises ValueError that names the part it cannot read."""
        head, *parts = text.split("_")
        makers: dict[str, Callable[..., Problem]] = {
            "dense": cls,
            "varlen": cls.varlen,
            "cache": cls.kvcache,
        }
        if head not in makers:
            raise ValueError(f"problem id {text!r} starts with none of {', '.join(makers)}")
        packed_q = not any(re.fullmatch(r"b\d+", part) for part in parts)
        packed = {"q": packed_q and head != "dense", "k": head == "varlen"}
        keys: dict[str, Any] = {}
        for part in parts:
            try:
                keys.update(_parse_part(part, packed))
            except ValueError as error:
                raise ValueError(f"problem id {text!r}: cannot read {part!r} ({error})") from None
        try:
            return makers[head](**keys)
        except TypeError as error:
            raise ValueError(f"problem id {text!r} is incomplete: {error}") from None

    def __str__(self) -> str:
        return self.id


def _visible(seqlen_q: int, seqlen_k: int, window: tuple[int, int]) -> float:
    """Unmasked (query, key) pairs of one sequence, by the papers' convention where there is one."""
    left, right = window
    if left < 0 and right < 0:
        return seqlen_q * seqlen_k
    if left < 0 and right == 0 and seqlen_q == seqlen_k:
        return seqlen_q * seqlen_k / 2
    total = 0
    for row in range(seqlen_q):
        diagonal = row + seqlen_k - seqlen_q
        first = 0 if left < 0 else max(diagonal - left, 0)
        last = seqlen_k - 1 if right < 0 else min(diagonal + right, seqlen_k - 1)
        total += max(last - first + 1, 0)
    return total


def _join(lengths: Sequence[int]) -> str:
    """Run-length coded: (3, 0, 0, 0) is "3.0x3"."""
    runs = [(value, len(list(group))) for value, group in groupby(lengths)]
    return ".".join(f"{value}x{count}" if count > 1 else str(value) for value, count in runs)


def _split(text: str) -> tuple[int, ...]:
    lengths: list[int] = []
    for run in text.split(".") if text else []:
        value, _, count = run.partition("x")
        lengths += [int(value)] * int(count or 1)
    return tuple(lengths)


def _parse_part(part: str, packed: Mapping[str, bool]) -> dict[str, Any]:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError("unknown part")
    key, value = match.groups()
    match key:
        case "bf16" | "fp16":
            return {"dtype": key}
        case "causal":
            return {"causal": True}
        case "sharp" | "rising":
            return {"values": key}
        case "Lq=" | "Lk=" | "Lv=":
            return {f"layout_{key[1]}": Layout.parse(value)}
        case "h":
            heads_q, heads_k = value.split("-")
            return {"heads_q": int(heads_q), "heads_k": int(heads_k)}
        case "w":
            left, right = value.split(",")
            return {"window": (int(left), int(right))}
        case "q" | "k" if packed[key]:
            return {f"lengths_{key}": _split(value)}
        case "uq" | "uk":
            return {f"used_{key[1]}": _split(value)}
        case "cap" | "scale":
            return {_NAMES[key]: float(value)}
        case _:
            return {_NAMES[key]: int(value)}
