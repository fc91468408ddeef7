"""Random problems in which every feature turns up in a stated share of the draws.

Features are dealt from shuffled decks instead of being drawn independently: after each pass through a deck every card
has come up exactly as often as it is in it, so that n problems cover what docs/correctness.md promises for any seed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.problems import Problem

T = TypeVar("T")

# Most problems are small, because a bug shows at the edges of a tile, not in its repetition; 2**23 scores are 32 MB
# in fp32, which a GPU's reference passes over in well under a millisecond.
MAX_SCORES = 2**23
MAX_SCORES_REDUCED = 2**16
# Rows of head_dim in one tensor: where there are few queries the scores alone would allow gigabytes of keys.
MAX_ROWS = 2**17

# Names of length ranges; tiles are 64 or 128 rows, so their multiples and neighbours have a card of their own.
LENGTHS = {
    "zero": (0, 0),
    "one": (1, 1),
    "tiny": (2, 16),
    "small": (17, 64),
    "medium": (65, 400),
    "large": (401, 1500),
    "long": (1501, 4300),
}
_LENGTH_CARDS = (
    ["zero", "one", "one", "tiny", "tiny", "small", "small", "edge", "edge", "edge"]
    + ["medium"] * 5
    + ["large"] * 3
    + ["long"] * 2
)
_SEQUENCE_CARDS = [
    "zero",
    "zero",
    "one",
    "one",
    "tiny",
    "small",
    "edge",
    "medium",
    "medium",
    "large",
]
_COMPILED_HEAD_DIMS = (64, 96, 128, 192, 256)
HEAD_DIMS = tuple(range(8, 257, 8))
HEADS = (
    (1, 1),
    (2, 2),
    (4, 4),
    (5, 5),
    (2, 1),
    (4, 1),
    (4, 2),
    (6, 2),
    (8, 1),
    (8, 2),
    (9, 3),
    (12, 1),
    (16, 4),
)
MASKS = ("full", "causal", "both", "left", "right", "causal+left", "full", "causal")
SOFTCAPS = (0.0, 0.0, 0.0, 15.0, 0.0, 0.0, 50.0, 2.0)
SCALES = (None, None, None, None, None, 0.25, 0.02, 1.0)
USED = ("", "", "k", "q", "qk", "k")
# Of a cache. Queries: most calls add one or a few.
_CACHE_QUERY_CARDS = [
    "one",
    "one",
    "one",
    "tiny",
    "tiny",
    "small",
    "edge",
    "medium",
    "medium",
    "large",
]
_CAPACITY_CARDS = ["tiny", "small", "edge", "edge", "medium", "medium", "large", "large", "long"]
CACHE_HEADS = (*HEADS, (7, 1), (14, 2), (16, 2), (32, 4), (64, 8), (71, 1))
PAGE_SIZES = (0, 0, 0, 0, 1, 3, 7, 16, 16, 48, 64, 64, 128, 256)
NEW_ROWS = (0, 0, 0, 0, 1, 1, 4, 17, 70, -1)  # -1: as many as queries
USED_KEYS = ("between",) * 6 + ("full", "full", "zero", "one", "edge", "edge", "beyond", "negative")
SPLITS = {"dense": (1, 1, 1, 1, 1, 1, 0, 3), "cache": (0, 0, 0, 1, 1, 2, 7, 64)}
SPLITS["varlen"] = SPLITS["dense"]
LAYOUTS = ("plain", "plain", "plain", "strided", "strided", "odd", "odd", "expanded")


class _Dealer:
    """Draws from decks by ``random.Random.random`` alone, whose sequence Python promises not to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._decks: dict[str, _Deck[Any]] = {}

    def below(self, n: int) -> int:
        return int(self._random.random() * n)

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def deal(self, name: str, cards: Sequence[T]) -> T:
        """The next card of the deck called `name`, which is reshuffled whenever it runs out."""
        deck: _Deck[T] = self._decks.setdefault(name, _Deck(cards))
        return deck.draw(self)


class _Deck(Generic[T]):
    def __init__(self, cards: Sequence[T]) -> None:
        self._cards = list(cards)
        self._left: list[T] = []

    def draw(self, dealer: _Dealer) -> T:
        if not self._left:
            self._left = list(self._cards)
            for i in range(len(self._left) - 1, 0, -1):
                j = dealer.below(i + 1)
                self._left[i], self._left[j] = self._left[j], self._left[i]
        return self._left.pop()


def random_problems(seed: int, n: int, *, reduced: bool = False) -> list[Problem]:
    """The first `n` problems of the endless list that `seed` names; a longer list begins with a shorter one.

    Args:
        reduced: small problems only, for compute-sanitizer, under which a kernel runs a hundred times slower.
    """
    dealer = _Dealer(seed)
    return [_problem(dealer, reduced) for _ in range(n)]


def _problem(dealer: _Dealer, reduced: bool) -> Problem:
    keys: dict[str, Any] = {
        "dtype": dealer.deal("dtype", ("bf16", "fp16")),
        "head_dim": dealer.deal("head_dim", HEAD_DIMS + 3 * _COMPILED_HEAD_DIMS),
        "softcap": dealer.deal("softcap", SOFTCAPS),
        "scale": dealer.deal("scale", SCALES),
        "values": dealer.deal("values", ("normal", "normal", "sharp", "rising")),
    }
    heads = dealer.deal("heads", HEADS)
    most = MAX_SCORES_REDUCED if reduced else MAX_SCORES
    kind = dealer.deal("kind", ("dense", "varlen", "cache"))
    if kind == "cache":
        heads = dealer.deal("cache_heads", CACHE_HEADS)
        sizes = _cache_sizes(dealer, heads, most, reduced)
    else:
        sizes = (_varlen_sizes if kind == "varlen" else _dense_sizes)(
            dealer, heads[0], most, reduced
        )
        heads = _fewer_heads(dealer, heads, sizes, most)
    keys.update(sizes, heads_q=heads[0], heads_k=heads[1])
    keys["num_splits"] = dealer.deal(f"{kind}_splits", SPLITS[kind])
    longest_q = sizes["seqlen_q"] if "seqlen_q" in sizes else max(sizes["lengths_q"])
    longest_k = sizes["seqlen_k"] if "seqlen_k" in sizes else max(sizes["lengths_k"])
    packed = {"q": "lengths_q" in sizes, "k": "lengths_k" in sizes, "v": "lengths_k" in sizes}
    keys.update(_mask(dealer, longest_q, longest_k), **_layouts(dealer, packed, kind == "cache"))
    keys["seed"] = dealer.below(2**31)
    makers: dict[str, Callable[..., Problem]] = {
        "dense": Problem,
        "varlen": Problem.varlen,
        "cache": Problem.kvcache,
    }
    return makers[kind](**keys)


def _length(dealer: _Dealer, card: str, reduced: bool) -> int:
    if reduced and card in ("large", "long"):
        card = "medium"
    if card == "edge":
        return 64 * dealer.between(1, 3 if reduced else 8) + dealer.between(-1, 1)
    return dealer.between(*LENGTHS[card])


def _dense_sizes(dealer: _Dealer, heads: int, most: int, reduced: bool) -> dict[str, Any]:
    seqlen_q = _length(dealer, dealer.deal("seqlen_q", _LENGTH_CARDS), reduced)
    seqlen_k = _length(dealer, dealer.deal("seqlen_k", _LENGTH_CARDS), reduced)
    match dealer.deal("relation", ("free", "free", "equal", "near")):
        case "equal":
            seqlen_k = seqlen_q
        case "near":
            seqlen_k = max(seqlen_q + dealer.between(-3, 3), 0)
    while seqlen_q * seqlen_k > most:
        seqlen_q, seqlen_k = (
            (seqlen_q // 2, seqlen_k) if seqlen_q > seqlen_k else (seqlen_q, seqlen_k // 2)
        )
    batch = dealer.deal("batch", (1, 1, 2, 2, 3, 5, 17))
    room = most // max(seqlen_q * seqlen_k * heads, 1)
    return {"batch": max(min(batch, room), 1), "seqlen_q": seqlen_q, "seqlen_k": seqlen_k}


def _varlen_sizes(dealer: _Dealer, heads: int, most: int, reduced: bool) -> dict[str, Any]:
    batch = dealer.deal("sequences", (1, 2, 3, 4, 5, 7, 9, 33))
    lengths_q, lengths_k = [], []
    for _ in range(batch):
        lengths_q.append(_length(dealer, dealer.deal("length_q", _SEQUENCE_CARDS), reduced))
        lengths_k.append(_length(dealer, dealer.deal("length_k", _SEQUENCE_CARDS), reduced))
    if dealer.deal("self", ("cross", "cross", "self")) == "self":
        lengths_k = list(lengths_q)
    while batch * heads * max(lengths_q) * max(lengths_k) > most:
        longer = lengths_q if max(lengths_q) > max(lengths_k) else lengths_k
        longer[longer.index(max(longer))] //= 2
    sizes: dict[str, Any] = {"lengths_q": lengths_q, "lengths_k": lengths_k}
    used = dealer.deal("used", USED)
    for name, lengths in (("q", lengths_q), ("k", lengths_k)):
        if name in used:
            sizes[f"used_{name}"] = tuple(
                dealer.pick((0, n, dealer.between(0, n), dealer.between(0, n))) for n in lengths
            )
    sizes["slack"] = dealer.deal("slack", (0, 0, 0, 1, 37, 500))
    return sizes


def _cache_sizes(
    dealer: _Dealer, heads: tuple[int, int], most: int, reduced: bool
) -> dict[str, Any]:
    heads_q, heads_k = heads
    seqlen_q = _length(dealer, dealer.deal("cache_q", _CACHE_QUERY_CARDS), reduced)
    capacity = _length(dealer, dealer.deal("capacity", _CAPACITY_CARDS), reduced)
    page_size = dealer.deal("page_size", PAGE_SIZES)
    while heads_q * seqlen_q * capacity > most or heads_k * capacity > MAX_ROWS:
        seqlen_q, capacity = (
            (seqlen_q // 2, capacity) if seqlen_q > capacity else (seqlen_q, capacity // 2)
        )
    if page_size > max(capacity, 1) and heads_q * seqlen_q * page_size > most:
        page_size = 1
    if page_size:
        # At least a page; rounded down else, so that the limits hold.
        capacity = max(capacity // page_size, 1) * page_size
    batch = dealer.deal("cache_batch", (1, 2, 3, 4, 6, 9, 17, 33))
    rows = max(heads_q * seqlen_q, heads_k * capacity, 1)
    room = min(most // max(heads_q * seqlen_q * capacity, 1), MAX_ROWS // rows)
    batch = max(min(batch, room), 1)
    new_rows = dealer.deal("new_rows", NEW_ROWS)
    new_rows = seqlen_q if new_rows < 0 else new_rows
    sizes: dict[str, Any] = {"seqlen_k": capacity, "page_size": page_size, "new_rows": new_rows}
    if dealer.deal("cache_queries", ("dense", "dense", "packed")) == "packed":
        lengths = [seqlen_q]
        for _ in range(batch - 1):
            lengths.append(dealer.pick((0, 1, seqlen_q, dealer.between(0, seqlen_q))))
        sizes["lengths_q"] = lengths
        sizes["slack"] = dealer.deal("cache_slack", (0, 0, 0, 1, 37))
    else:
        sizes["seqlen_q"] = seqlen_q
        sizes["batch"] = batch
    if new_rows or dealer.deal("whole_cache", (True, *[False] * 9)) is False:
        sizes["used_k"] = tuple(
            _used_keys(dealer, capacity, page_size, new_rows) for _ in range(batch)
        )
    return sizes


def _used_keys(dealer: _Dealer, capacity: int, page_size: int, new_rows: int) -> int:
    """Keys of an entry; rarely more than its capacity, or less than what is appended."""
    match dealer.deal("used_keys", USED_KEYS):
        case "full":
            return capacity
        case "zero":
            return new_rows
        case "one":
            return 1 + new_rows
        case "edge":
            step = page_size if page_size > 1 else 64
            edge = step * dealer.between(0, capacity // step) + dealer.between(-1, 1)
            return max(edge, new_rows)
        case "beyond":
            return capacity + dealer.between(1, 40)
        case "negative":
            return new_rows - dealer.between(1, 40)
        case _:
            return max(dealer.between(0, capacity), min(new_rows, capacity))


def _fewer_heads(
    dealer: _Dealer, heads: tuple[int, int], sizes: dict[str, Any], most: int
) -> tuple[int, int]:
    """`heads`, or a pair that is small enough for these sizes."""
    if "lengths_q" in sizes:
        lengths_q, lengths_k = sizes["lengths_q"], sizes["lengths_k"]
        scores = len(lengths_q) * max(lengths_q) * max(lengths_k)
        rows = max(sum(lengths_q), sum(lengths_k))
    else:
        scores = sizes["batch"] * sizes["seqlen_q"] * sizes["seqlen_k"]
        rows = sizes["batch"] * max(sizes["seqlen_q"], sizes["seqlen_k"])
    fitting = [pair for pair in HEADS if scores * pair[0] <= most and rows * pair[0] <= MAX_ROWS]
    if heads in fitting:
        return heads
    return dealer.pick(fitting) if fitting else (1, 1)


def _mask(dealer: _Dealer, seqlen_q: int, seqlen_k: int) -> dict[str, Any]:
    kind = dealer.deal("mask", MASKS)
    # Up to a little more than the longer side: windows that hide nothing and windows that hide almost all both occur.
    most = dealer.pick((3, 70, max(seqlen_q, seqlen_k) + 3))
    left, right = dealer.between(0, most), dealer.between(0, most)
    match kind:
        case "both":
            return {"window": (left, right)}
        case "left":
            return {"window": (left, -1)}
        case "right":
            return {"window": (-1, right)}
        case "causal+left":
            return {"causal": True, "window": (left, 0)}
        case _:
            return {"causal": kind == "causal"}


def _layouts(dealer: _Dealer, packed: Mapping[str, bool], cache: bool) -> dict[str, Layout]:
    family = dealer.deal("layout", LAYOUTS)
    if cache and family == "expanded":  # a cache is written to
        family = "plain"
    return {
        f"layout_{name}": _layout(dealer, family, name, is_packed)
        for name, is_packed in packed.items()
    }


def _layout(dealer: _Dealer, family: str, name: str, packed: bool) -> Layout:
    orders = ("sh", "hs") if packed else ("bsh", "bhs", "sbh", "shb", "hbs", "hsb")
    match family:
        case "strided":  # 16-byte copies stay legal
            return Layout(dealer.pick(orders), pad=8 * dealer.below(5), jump=8 * dealer.below(9))
        case "odd":  # 16-byte copies are not, for at least one reason
            pad, offset, jump = dealer.pick(
                ((1, 0, 0), (3, 1, 0), (0, 1, 0), (0, 4, 0), (0, 0, 2), (12, 0, 1))
            )
            return Layout(dealer.pick(orders), pad, offset, jump)
        case "expanded" if name != "q":
            return Layout(orders[0], expand=dealer.pick(("h",) if packed else ("h", "b", "")))
    return Layout(orders[0])
