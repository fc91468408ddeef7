"""Cases that broke other attention libraries, and the limits that this one promises: run in every correctness run.

The comment beside a case says where it comes from (owner/repository#number of the public report) or which limit it
is at.
"""

from typing import Any

from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.problems import Problem

_BEYOND_32_BITS = 2**31
_FAR_PAGES = Layout("bsh", jump=_BEYOND_32_BITS // 2)


def fixed_problems() -> dict[str, Problem]:
    """Named problems, small ones first so that a broken kernel is reported before the gigabyte-sized ones run."""
    return {
        **_lengths(),
        **_head_dims(),
        **_many_queries(),
        **_loose_maxima(),
        **_pages(),
        **_caches(),
        **_grid(),
        **_offsets(),
    }


def _lengths() -> dict[str, Problem]:
    pair: dict[str, Any] = {"dtype": "bf16", "heads_q": 4, "heads_k": 2}
    cases: dict[str, Problem] = {
        # Dao-AILab/flash-attention#1254: leading empty sequences hung the varlen kernel.
        "leading-empty-sequences": Problem.varlen(
            dtype="bf16",
            heads_q=8,
            heads_k=8,
            head_dim=128,
            lengths_q=[0, 0, 1023],
            lengths_k=[0, 1, 2045],
        ),
        # Dao-AILab/flash-attention#1537: max_seqlen_q is 1 and some sequences are empty.
        "max-seqlen-q-one": Problem.varlen(
            dtype="bf16",
            heads_q=9,
            heads_k=3,
            head_dim=64,
            lengths_q=[0, 1, 0, 1],
            lengths_k=[0, 3, 0, 5],
        ),
        "no-tokens-at-all": Problem.varlen(**pair, head_dim=64, lengths_q=[0, 0], lengths_k=[0, 0]),
        # facebookresearch/xformers#1042: NaN where a sequence has no keys.
        "varlen-without-keys": Problem.varlen(
            **pair, head_dim=128, lengths_q=[5, 130, 7], lengths_k=[0, 0, 9]
        ),
        "varlen-used-nothing": Problem.varlen(
            **pair,
            head_dim=128,
            lengths_q=[65, 3],
            lengths_k=[70, 4],
            used_q=(65, 0),
            used_k=(0, 4),
        ),
        # A hint that is far too large costs empty tiles, never a wrong result.
        "loose-max-seqlen": Problem.varlen(
            **pair, head_dim=64, lengths_q=[3, 77], lengths_k=[90, 1], slack=5000, causal=True
        ),
        # Dao-AILab/flash-attention#2568: head_dim 256 without queries.
        "no-queries-d256": Problem(
            dtype="bf16", heads_q=2, heads_k=2, head_dim=256, batch=2, seqlen_q=0, seqlen_k=64
        ),
        "empty-batch": Problem(**pair, head_dim=64, batch=0, seqlen_q=8, seqlen_k=8),
        # The last bucket of the selection table: ceil(log2) of 16 and more.
        "keys-131073": Problem(
            **pair, head_dim=64, batch=1, seqlen_q=2, seqlen_k=131073, causal=True
        ),
        "queries-70001": Problem(**pair, head_dim=128, batch=1, seqlen_q=70001, seqlen_k=65),
        # More queries than keys under a causal mask: the first rows see nothing and must be 0 with lse -inf.
        "rows-without-keys": Problem(
            **pair, head_dim=128, batch=2, seqlen_q=300, seqlen_k=70, causal=True
        ),
        "window-beyond-keys": Problem(
            **pair, head_dim=64, batch=1, seqlen_q=200, seqlen_k=10, window=(3, 2)
        ),
        # A scale of 0 makes every visible key weigh the same.
        "scale-zero": Problem(**pair, head_dim=64, batch=1, seqlen_q=70, seqlen_k=130, scale=0.0),
        "scale-negative": Problem(
            **pair, head_dim=64, batch=1, seqlen_q=70, seqlen_k=130, scale=-0.125, causal=True
        ),
    }
    # Dao-AILab/flash-attention#2470: without keys, an illegal instruction (full) or a division by zero (causal).
    for name, causal in (("full", False), ("causal", True)):
        cases[f"no-keys-{name}"] = Problem(
            **pair, head_dim=128, batch=2, seqlen_q=77, seqlen_k=0, causal=causal
        )
    return cases


def _head_dims() -> dict[str, Problem]:
    # Dao-AILab/flash-attention#2698 and #2896, flashinfer-ai/flashinfer#4299: sizes between the compiled ones were
    # silently wrong or read out of bounds.
    return {
        f"head-dim-{head_dim}-{dtype}": Problem(
            dtype=dtype,
            heads_q=6,
            heads_k=2,
            head_dim=head_dim,
            batch=2,
            seqlen_q=197,
            seqlen_k=261,
            causal=True,
        )
        for head_dim in (8, 72, 96, 104, 136, 144, 200, 248)
        for dtype in ("bf16", "fp16")
    }


def _many_queries() -> dict[str, Problem]:
    # Over 1,024 and 2,048 queries of few keys, so that an emulator ends: most of them in tiles of 192 rows.
    return {
        f"queries-{seqlen_q}-d{head_dim}-{dtype}-{'causal' if causal else 'full'}": Problem(
            dtype=dtype,
            heads_q=1,
            heads_k=1,
            head_dim=head_dim,
            batch=1,
            seqlen_q=seqlen_q,
            seqlen_k=seqlen_k,
            causal=causal,
        )
        for seqlen_q, seqlen_k in ((1100, 36), (2100, 19))
        for head_dim in (64, 96, 128, 192, 256)
        for dtype in ("bf16", "fp16")
        for causal in (False, True)
    }


def _loose_maxima() -> dict[str, Problem]:
    # The stated maximum chooses the tile: masks over several blocks of keys in 192 rows, small enough for an emulator.
    masks: dict[str, dict[str, Any]] = {"causal": {"causal": True}, "window": {"window": (70, 20)}}
    return {
        f"loose-{head_dim}-{dtype}-{name}": Problem.varlen(
            dtype=dtype,
            heads_q=1,
            heads_k=1,
            head_dim=head_dim,
            lengths_q=[210],
            lengths_k=[180],
            slack=5000,
            **mask,
        )
        for head_dim in (64, 96, 128)
        for dtype in ("bf16", "fp16")
        for name, mask in masks.items()
    }


def _pages() -> dict[str, Problem]:
    # Long queries on pages that TMA can load, shorter than a block of 64 or 128 keys and longer. Keys end within a page
    # and within a block. Small enough for an emulator.
    one: dict[str, Any] = {"heads_q": 1, "heads_k": 1}
    bf16: dict[str, Any] = {**one, "dtype": "bf16"}
    fp16: dict[str, Any] = {**one, "dtype": "fp16"}
    sizes = (  # page_size, seqlen_q, capacity, keys, which dtype is causal
        (8, 150, 256, 203, "bf16"),
        (16, 400, 96, 87, "fp16"),
        (64, 200, 192, 151, "bf16"),
        (128, 155, 256, 201, "fp16"),
        (256, 130, 256, 183, "bf16"),
    )
    cases = {
        f"pages-{page_size}-d{head_dim}-{dtype}": Problem.kvcache(
            **one,
            dtype=dtype,
            head_dim=head_dim,
            seqlen_q=seqlen_q,
            seqlen_k=capacity,
            page_size=page_size,
            used_k=[keys],
            causal=dtype == causal,
        )
        for page_size, seqlen_q, capacity, keys, causal in sizes
        for head_dim in (64, 96, 128, 256)
        for dtype in ("bf16", "fp16")
    }
    return cases | {
        "pages-256-two": Problem.kvcache(
            **bf16, head_dim=64, seqlen_q=75, seqlen_k=512, page_size=256, used_k=[333]
        ),
        "pages-window": Problem.kvcache(
            **fp16,
            head_dim=128,
            seqlen_q=170,
            seqlen_k=192,
            page_size=8,
            used_k=[155],
            window=(40, 11),
        ),
        "pages-new-rows": Problem.kvcache(
            **bf16,
            head_dim=96,
            seqlen_q=140,
            seqlen_k=256,
            page_size=64,
            used_k=[201],
            new_rows=10,
            causal=True,
        ),
        "pages-packed-queries": Problem.kvcache(
            **fp16,
            head_dim=256,
            lengths_q=[7, 0, 130],
            seqlen_k=96,
            page_size=16,
            used_k=[55, 96, 91],
            causal=True,
        ),
        "pages-group-of-two": Problem.kvcache(
            **{**bf16, "heads_q": 2},
            head_dim=128,
            seqlen_q=140,
            seqlen_k=128,
            page_size=32,
            used_k=[101],
        ),
    }


def _caches() -> dict[str, Problem]:
    pair: dict[str, Any] = {"dtype": "bf16", "heads_q": 4, "heads_k": 2, "head_dim": 128}
    one: dict[str, Any] = {**pair, "seqlen_q": 1, "causal": True, "num_splits": 0}
    paged: dict[str, Any] = {**one, "seqlen_k": 512, "page_size": 64}
    return {
        # Nothing in a cache yet: 0 with lse -inf, whether or not keys are split.
        "cache-empty": Problem.kvcache(**one, seqlen_k=300, used_k=[0, 0, 5]),
        "cache-empty-splits": Problem.kvcache(
            **{**one, "num_splits": 8}, seqlen_k=300, used_k=[0, 1, 300]
        ),
        "cache-empty-pages": Problem.kvcache(**paged, used_k=[0, 0]),
        # More queries than keys: the first rows see nothing.
        "cache-queries-beyond-keys": Problem.kvcache(
            **{**one, "seqlen_q": 9}, seqlen_k=128, used_k=[3, 9, 0, 128]
        ),
        "cache-queries-beyond-keys-long": Problem.kvcache(
            **{**paged, "seqlen_q": 200}, used_k=[70, 199, 0, 512]
        ),
        "cache-capacity-odd": Problem.kvcache(**one, seqlen_k=517, used_k=[517, 516, 64, 65]),
        "cache-last-page-partly": Problem.kvcache(
            **{**paged, "seqlen_k": 7 * 48, "page_size": 48}, used_k=[7 * 48, 47, 48, 49, 145]
        ),
        "cache-page-size-1": Problem.kvcache(
            **{**paged, "seqlen_k": 300, "page_size": 1}, used_k=[300, 1, 0, 129]
        ),
        "cache-page-size-3": Problem.kvcache(
            **{**paged, "seqlen_k": 300, "page_size": 3}, used_k=[299, 2, 4, 129], new_rows=2
        ),
        "cache-page-size-1024": Problem.kvcache(
            **{**paged, "seqlen_k": 2048, "page_size": 1024}, used_k=[1025, 1024, 3]
        ),
        # A group that fills no tile evenly.
        "cache-group-7": Problem.kvcache(
            **{**paged, "heads_q": 14, "heads_k": 2, "seqlen_q": 5}, used_k=[400, 33, 5]
        ),
        # Falcon-7B's heads.
        "cache-heads-71-over-1": Problem.kvcache(
            **{**one, "heads_q": 71, "heads_k": 1, "head_dim": 64, "seqlen_q": 2},
            seqlen_k=700,
            used_k=[700, 2, 333],
        ),
        "cache-splits-beyond-blocks": Problem.kvcache(
            **{**one, "num_splits": 200}, seqlen_k=130, used_k=[130, 65, 1]
        ),
        "cache-splits-beyond-length": Problem.kvcache(
            **{**paged, "seqlen_k": 8192, "num_splits": 128}, used_k=[8192, 1, 0, 65]
        ),
        "cache-window-behind-a-split": Problem.kvcache(
            **{**one, "num_splits": 16}, seqlen_k=4096, used_k=[4096, 700, 30], window=(40, 0)
        ),
        # Lengths outside of the cache count as its ends.
        "cache-negative-length": Problem.kvcache(**one, seqlen_k=200, used_k=[-1, -(2**31), 7]),
        "cache-length-beyond-capacity": Problem.kvcache(**paged, used_k=[513, 2**31 - 1, 512]),
        "cache-append-one": Problem.kvcache(**paged, used_k=[1, 64, 65, 512], new_rows=1),
        "cache-append-to-contiguous": Problem.kvcache(
            **{**one, "seqlen_q": 4}, seqlen_k=100, used_k=[4, 100, 50], new_rows=4
        ),
        "cache-append-more-than-queries": Problem.kvcache(
            **paged, used_k=[150, 512, 300], new_rows=150
        ),
        # What doesn't fit is dropped and written nowhere else.
        "cache-append-beyond-capacity": Problem.kvcache(
            **paged, used_k=[515, 520, 640, 100], new_rows=8
        ),
        "cache-append-below-zero": Problem.kvcache(
            **{**one, "seqlen_q": 3}, seqlen_k=64, used_k=[2, -3, 4, 64], new_rows=4
        ),
        "cache-append-packed-queries": Problem.kvcache(
            **{**pair, "causal": True, "num_splits": 0},
            lengths_q=[1, 0, 17, 3],
            seqlen_k=256,
            page_size=16,
            used_k=[256, 17, 100, 18],
            new_rows=17,
            slack=5,
        ),
        "cache-prefill": Problem.kvcache(
            **{**paged, "seqlen_q": 300}, used_k=[300, 512], new_rows=300
        ),
        "cache-whole": Problem.kvcache(**one, batch=3, seqlen_k=777),
        # The last bucket of the selection table, in more pages than 16 bits count.
        "cache-pages-70000": Problem.kvcache(
            **{**paged, "seqlen_k": 70000, "page_size": 1}, used_k=[70000, 69999]
        ),
        "cache-page-stride-2^31": Problem.kvcache(
            **{**paged, "seqlen_k": 64},
            used_k=[64],
            layout_k=_FAR_PAGES,
            layout_v=_FAR_PAGES,
            seed=4,  # whose page is the last
        ),
        # A grid dimension holds 65,535 at most.
        "cache-batch-65537": Problem.kvcache(
            dtype="bf16",
            heads_q=2,
            heads_k=1,
            head_dim=64,
            seqlen_q=1,
            seqlen_k=4,
            page_size=2,
            used_k=[3, 0, 4, 1, 2, 4, 0] * 9362 + [1, 2, 3],
            new_rows=1,
            causal=True,
        ),
    }


def _grid() -> dict[str, Problem]:
    return {
        # Dao-AILab/flash-attention#1812: a grid dimension holds 65,535 at most.
        "heads-71280": Problem(
            dtype="bf16", heads_q=71280, heads_k=71280, head_dim=64, batch=1, seqlen_q=3, seqlen_k=5
        ),
        # pytorch/pytorch#146704
        "batch-65536": Problem(
            dtype="bf16",
            heads_q=1,
            heads_k=1,
            head_dim=64,
            batch=65536,
            seqlen_q=2,
            seqlen_k=3,
            causal=True,
        ),
        "batch-times-heads-131072": Problem(
            dtype="fp16", heads_q=8, heads_k=2, head_dim=64, batch=16384, seqlen_q=1, seqlen_k=9
        ),
        "sequences-70000": Problem.varlen(
            dtype="bf16",
            heads_q=2,
            heads_k=1,
            head_dim=64,
            lengths_q=[1, 0, 3, 2] * 17500,
            lengths_k=[2, 5, 0, 3] * 17500,
        ),
        # Dao-AILab/flash-attention#2260
        "batch-8300": Problem(
            dtype="bf16", heads_q=16, heads_k=16, head_dim=128, batch=8300, seqlen_q=1, seqlen_k=1
        ),
        # Dao-AILab/flash-attention#1500
        "batch-15000": Problem(
            dtype="bf16", heads_q=4, heads_k=4, head_dim=64, batch=15000, seqlen_q=8, seqlen_k=8
        ),
    }


def _offsets() -> dict[str, Problem]:
    def far(order: str, jump: int = _BEYOND_32_BITS) -> dict[str, Any]:
        return {f"layout_{name}": Layout(order, jump=jump) for name in "qkv"}

    small: dict[str, Any] = {
        "dtype": "bf16",
        "heads_q": 2,
        "heads_k": 2,
        "head_dim": 128,
        "seqlen_q": 130,
        "seqlen_k": 130,
    }
    return {
        "batch-stride-2^31": Problem(**small, batch=2, **far("bsh")),
        "head-stride-2^31": Problem(**small, batch=1, **far("hbs"), causal=True),
        "row-stride-2^24": Problem(**small, batch=1, **far("sbh", 2**24)),
        "varlen-row-stride-2^24": Problem.varlen(
            dtype="bf16",
            heads_q=2,
            heads_k=2,
            head_dim=64,
            lengths_q=[70, 60],
            lengths_k=[50, 80],
            **far("sh", 2**24),
        ),
        # Dao-AILab/flash-attention#2214
        "elements-1.3e9-d72": Problem(
            dtype="bf16",
            heads_q=16,
            heads_k=16,
            head_dim=72,
            batch=1600,
            seqlen_q=729,
            seqlen_k=729,
        ),
        # PriorLabs/TabPFN#1184: batch * heads * seqlen * head_dim beyond 2**31.
        "elements-2.1e9": Problem(
            dtype="bf16",
            heads_q=4,
            heads_k=4,
            head_dim=128,
            batch=400,
            seqlen_q=10496,
            seqlen_k=10496,
        ),
    }
