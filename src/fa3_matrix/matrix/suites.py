"""Suites of problems: stated compactly in ``ci/matrix.toml``, expanded here to one row each."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from fa3_matrix.matrix._toml import Table


@dataclass(frozen=True)
class ProblemRow:
    """One attention problem of a suite.

    A row of ``problems`` in the file holds these keys; a list-valued key multiplies the row:

    - ``dtype``: ``bf16`` or ``fp16``.
    - ``head_dim``: of q, k and v; a multiple of 8, at most 256.
    - ``heads_q``, or ``hidden`` (then heads_q = hidden / head_dim). ``heads_k``: default heads_q.
    - dense: ``seqlen_q``; ``seqlen_k`` (default seqlen_q); ``batch`` (default 1), or ``tokens``
      (then batch = tokens / seqlen_q).
    - varlen: ``lengths_q`` and ``lengths_k`` (default lengths_q), the length of each sequence,
      which makes ``cu_seqlens``; ``used_q`` and ``used_k``, that is ``seqused``, each at most its
      length. These lists are one value and do not multiply. Then batch = len(lengths_q), and
      seqlen_q and seqlen_k are the maxima, that is ``max_seqlen``.
    - a KV cache (``flash_attn_with_kvcache``): ``capacity`` in place of seqlen_k, and queries as of a
      dense row or ``lengths_q``; ``used_k``, the keys of each entry (default: the whole capacity);
      ``page_size``, which divides the capacity (default 0: no pages); ``new_rows``, how many of the
      used keys the call appends (default 0). Then seqlen_k is the capacity.
    - ``num_splits``: as the functions take it; default 1, of a cache 0, as theirs.
    - ``causal``: default false. ``softcap``: default 0.0, off.
    - ``window``: ``[left, right]`` or a list of such pairs, -1 for no limit; default ``[-1, -1]``.
      ``causal`` and ``window`` are FlashAttention's ``causal`` and ``window_size``: bottom-right
      aligned.
    """

    dtype: str
    head_dim: int
    batch: int
    seqlen_q: int
    seqlen_k: int
    heads_q: int
    heads_k: int
    causal: bool
    window: tuple[int, int]
    softcap: float
    lengths_q: tuple[int, ...] | None = None
    lengths_k: tuple[int, ...] | None = None
    used_q: tuple[int, ...] | None = None
    used_k: tuple[int, ...] | None = None
    is_cache: bool = False
    page_size: int = 0
    new_rows: int = 0
    num_splits: int = 1

    @property
    def varlen(self) -> bool:
        """Whether the problem is packed (``flash_attn_varlen_func``) rather than dense."""
        return self.lengths_k is not None


@dataclass(frozen=True)
class Suite:
    """``[suites.smoke]``: a named list of problems."""

    name: str
    description: str
    problems: tuple[ProblemRow, ...]


_SEQUENCE_KEYS = ("lengths_q", "lengths_k", "used_q", "used_k")
_DERIVED = ("is_cache",)
_KEYS = (
    *(f.name for f in fields(ProblemRow) if f.name not in _DERIVED),
    *("hidden", "tokens", "capacity"),
)
_CACHE_KEYS = ("page_size", "new_rows")


def read_suite(name: str, table: Table) -> Suite:
    """Read and expand ``[suites.<name>]``."""
    description = table.string("description")
    problems: list[ProblemRow] = []
    rows = table.tables("problems")
    if not rows:
        table.fail("a suite needs problems = [ {...}, ... ]")
    for row in rows:
        for problem in _expand(row):
            if problem in problems:
                row.fail(f"repeats a problem of this suite: {problem}")
            problems.append(problem)
    table.done()
    return Suite(name, description, tuple(problems))


def _expand(row: Table) -> Iterator[ProblemRow]:
    axes: list[list[tuple[str, Any]]] = []
    for key in row.names():
        if key not in _KEYS:
            row.fail(f"unknown key {key!r}; known here: {', '.join(_KEYS)}", key)
        axes.append([(key, value) for value in _values(row, key)])
    for combination in itertools.product(*axes):
        yield _problem(row, dict(combination))


def _values(row: Table, key: str) -> list[Any]:
    """The entries of one key, each checked for its type."""
    if key in _SEQUENCE_KEYS:
        lengths = row.take(key)
        if not isinstance(lengths, list) or not lengths or not all(map(_is_length, lengths)):
            row.fail(f"{key} = {lengths!r}: must be a non-empty list of lengths", key)
        return [tuple(lengths)]
    if key == "window":
        value = row.take(key)
        pairs = (
            value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
        )
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_side, pair)):
                row.fail(f"window = {value!r}: must be [left, right] or a list of such pairs", key)
        return [tuple(pair) for pair in pairs]
    if key == "dtype":
        return row.choices(key, ("bf16", "fp16"))
    if key == "causal":
        return row.list_of(key, bool, "true or false")
    if key == "softcap":
        return row.list_of(key, float, "a number with a decimal point")
    return row.list_of(key, int, "an integer")


def _is_length(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_side(value: object) -> bool:
    return type(value) is int and value >= -1


def _problem(row: Table, given: dict[str, Any]) -> ProblemRow:
    def need(key: str, why: str = "") -> Any:
        if key not in given:
            row.fail(f"missing key {key!r}{why}")
        return given[key]

    def quotient(whole: str, part: str, divisor: int) -> int:
        if divisor <= 0 or given[whole] % divisor:
            row.fail(f"{whole} = {given[whole]} is not a multiple of {part} = {divisor}", whole)
        return int(given[whole] // divisor)

    head_dim = need("head_dim")
    if not 8 <= head_dim <= 256 or head_dim % 8:
        row.fail(f"head_dim = {head_dim}: must be a multiple of 8, at most 256", "head_dim")
    if "hidden" in given and "heads_q" in given:
        row.fail("give hidden or heads_q, not both", "hidden")
    heads_q = (
        quotient("hidden", "head_dim", head_dim)
        if "hidden" in given
        else need("heads_q", " (or hidden)")
    )
    heads_k = given.get("heads_k", heads_q)
    if heads_q < 1 or heads_k < 1 or heads_q % heads_k:
        row.fail(f"heads_q = {heads_q} must be a positive multiple of heads_k = {heads_k}")
    common = {
        "dtype": need("dtype"),
        "head_dim": head_dim,
        "heads_q": heads_q,
        "heads_k": heads_k,
        "causal": given.get("causal", False),
        "window": given.get("window", (-1, -1)),
        "softcap": given.get("softcap", 0.0),
        "num_splits": given.get("num_splits", 0 if "capacity" in given else 1),
    }
    if common["num_splits"] < 0:
        row.fail(f"num_splits = {common['num_splits']}: must be at least 0", "num_splits")
    if "capacity" in given:
        return ProblemRow(**common, **_cache(row, given))
    for key in _CACHE_KEYS:
        if key in given:
            row.fail(f"{key} belongs to a cache's row, which states capacity", key)
    if "lengths_q" in given:
        return ProblemRow(**common, **_varlen(row, given))
    for key in _SEQUENCE_KEYS:
        if key in given:
            row.fail(f"{key} belongs to a varlen row, which states lengths_q", key)
    seqlen_q = need("seqlen_q", " (or lengths_q)")
    seqlen_k = given.get("seqlen_k", seqlen_q)
    if "tokens" in given and "batch" in given:
        row.fail("give tokens or batch, not both", "tokens")
    batch = quotient("tokens", "seqlen_q", seqlen_q) if "tokens" in given else given.get("batch", 1)
    if batch < 1 or not _is_length(seqlen_q) or not _is_length(seqlen_k):
        row.fail(f"batch = {batch} must be at least 1, seqlen {seqlen_q} and {seqlen_k} at least 0")
    return ProblemRow(**common, batch=batch, seqlen_q=seqlen_q, seqlen_k=seqlen_k)


def _cache(row: Table, given: dict[str, Any]) -> dict[str, Any]:
    for key in ("tokens", "seqlen_k", "lengths_k", "used_q"):
        if key in given:
            row.fail(f"{key} does not go with capacity, which makes k and v a cache", key)
    lengths_q: tuple[int, ...] | None = given.get("lengths_q")
    if (lengths_q is None) == ("seqlen_q" not in given):
        row.fail("a cache's row states seqlen_q or lengths_q")
    if lengths_q is not None and "batch" in given:
        row.fail("batch does not go with lengths_q, which states every length", "batch")
    capacity, page_size = given["capacity"], given.get("page_size", 0)
    if not _is_length(capacity) or page_size < 0 or (page_size and capacity % page_size):
        row.fail(f"capacity = {capacity}: must be a multiple of page_size = {page_size}")
    batch = given.get("batch", 1) if lengths_q is None else len(lengths_q)
    used_k: tuple[int, ...] = given.get("used_k", (capacity,) * batch)
    new_rows = given.get("new_rows", 0)
    if len(used_k) != batch or any(not new_rows <= used <= capacity for used in used_k):
        row.fail(
            f"used_k = {list(used_k)}: needs {batch} entries of at least new_rows = {new_rows}, "
            f"none above capacity = {capacity}"
        )
    return {
        "batch": batch,
        "seqlen_q": given["seqlen_q"] if lengths_q is None else max(lengths_q),
        "seqlen_k": capacity,
        "lengths_q": lengths_q,
        "used_k": used_k,
        "is_cache": True,
        "page_size": page_size,
        "new_rows": new_rows,
    }


def _varlen(row: Table, given: dict[str, Any]) -> dict[str, Any]:
    for key in ("batch", "tokens", "seqlen_q", "seqlen_k"):
        if key in given:
            row.fail(f"{key} does not go with lengths_q, which states every length", key)
    lengths_q: tuple[int, ...] = given["lengths_q"]
    lengths_k: tuple[int, ...] = given.get("lengths_k", lengths_q)
    if len(lengths_k) != len(lengths_q):
        row.fail(f"lengths_k has {len(lengths_k)} entries, lengths_q {len(lengths_q)}", "lengths_k")
    for key, lengths in (("used_q", lengths_q), ("used_k", lengths_k)):
        used = given.get(key)
        if used is not None and (
            len(used) != len(lengths) or any(u > n for u, n in zip(used, lengths, strict=True))
        ):
            row.fail(
                f"{key} = {list(used)}: needs {len(lengths)} entries, none above its length", key
            )
    return {
        "batch": len(lengths_q),
        "seqlen_q": max(lengths_q),
        "seqlen_k": max(lengths_k),
        "lengths_q": lengths_q,
        "lengths_k": lengths_k,
        "used_q": given.get("used_q"),
        "used_k": given.get("used_k"),
    }
