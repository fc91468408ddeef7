"""Random problems: the same for a seed, and every feature as often as docs/correctness.md promises."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa3_matrix.bench.correctness_command import REDUCED_PROBLEMS
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import (
    HEAD_DIMS,
    MAX_ROWS,
    MAX_SCORES,
    MAX_SCORES_REDUCED,
    random_problems,
)
from fa3_matrix.matrix.model import LAYOUTS

SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_a_longer_list_begins_with_the_shorter_one(seed: int):
    assert random_problems(seed, 60)[:25] == random_problems(seed, 25)


def test_the_list_of_a_seed_is_stable():
    # A reported seed must mean the same problems in every version of Python.
    assert [p.id for p in random_problems(1, 3)] == [
        "varlen_bf16_d128_h2-1_q687.40.1.0.218_k234.793.10.1x2_uq175.0x4_causal_cap15.0_sharp_Lq=sh+p16+j16_Lk=hs+j16_Lv=hs+p32+j16_s1843645649",
        "dense_fp16_d192_h4-1_b1_q49_k49_splits0_w-1,62_scale1.0_rising_s290653273",
        "cache_fp16_d96_h2-2_b3_q1_k2560_uk-18.1482.2560_p256_new4_Lq=sbh+j2_Lk=bsh+p12+j1_Lv=hbs+o4_s165585992",
    ]


def test_seeds_differ():
    assert random_problems(1, 20) != random_problems(2, 20)


def outside(p: Problem, side: int) -> bool:
    """Whether an entry's length lies beyond its cache (1) or below 0 (-1)."""
    lengths = p.used_k if p.is_cache and p.used_k is not None else ()
    return any(n > p.seqlen_k if side > 0 else n < p.new_rows for n in lengths)


FEATURES: dict[str, tuple[float, Callable[[Problem], bool]]] = {
    # name: (least share of 2,000 problems, test)
    "varlen": (0.33, lambda p: p.is_varlen),
    "cache": (0.33, lambda p: p.is_cache),
    "cache in pages": (0.22, lambda p: p.page_size > 0),
    "contiguous cache": (0.09, lambda p: p.is_cache and not p.page_size),
    "page of one row": (0.02, lambda p: p.page_size == 1),
    "page size no power of two": (0.06, lambda p: p.page_size in (3, 7, 48)),
    "appended rows": (0.19, lambda p: p.new_rows > 0),
    "packed queries of a cache": (0.1, lambda p: p.is_cache and p.is_packed),
    "whole cache": (0.01, lambda p: p.is_cache and p.used_k is None),
    "cache of long queries": (0.05, lambda p: p.is_cache and p.seqlen_q > 64),
    "length beyond the capacity": (0.04, lambda p: outside(p, 1)),
    "negative length": (0.04, lambda p: outside(p, -1)),
    "chosen splits": (0.2, lambda p: p.num_splits == 0),
    "splits": (0.2, lambda p: p.num_splits > 1),
    "splits of dense or varlen": (0.07, lambda p: not p.is_cache and p.num_splits > 1),
    "fp16": (0.49, lambda p: p.dtype == "fp16"),
    "no queries": (0.25, lambda p: any(q == 0 for q, _ in p.pairs())),
    "no keys": (0.25, lambda p: any(k == 0 for _, k in p.pairs())),
    "one query": (0.25, lambda p: any(q == 1 for q, _ in p.pairs())),
    "one key": (0.2, lambda p: any(k == 1 for _, k in p.pairs())),
    "more queries than keys": (0.4, lambda p: any(q > k for q, k in p.pairs())),
    "fewer queries than keys": (0.4, lambda p: any(q < k for q, k in p.pairs())),
    "at most 64 queries": (0.2, lambda p: p.seqlen_q <= 64),
    "more than 1,000 keys": (0.08, lambda p: p.seqlen_k > 1000),
    "grouped heads": (0.6, lambda p: p.heads_k < p.heads_q),
    "one key head": (0.25, lambda p: p.heads_k == 1 < p.heads_q),
    "causal": (0.35, lambda p: p.causal),
    "left window": (0.35, lambda p: p.window[0] >= 0),
    "right window": (0.2, lambda p: p.window[1] > 0),
    "softcap": (0.35, lambda p: p.softcap > 0),
    "own scale": (0.35, lambda p: p.scale is not None),
    "seqused_q": (0.11, lambda p: p.used_q is not None),
    "seqused_k": (0.16, lambda p: p.is_varlen and p.used_k is not None),
    "loose max_seqlen": (0.18, lambda p: p.slack > 0),
    "contiguous": (0.35, lambda p: all(str(x) in ("bsh", "sh") for x in p.layouts)),
    "permuted": (0.4, lambda p: any(x.order not in ("bsh", "sh") for x in p.layouts)),
    "unaligned": (0.22, lambda p: any(x.pad % 8 or x.offset % 8 or x.jump % 8 for x in p.layouts)),
    "broadcast": (0.07, lambda p: any(x.expand for x in p.layouts)),
    "sharp values": (0.24, lambda p: p.values == "sharp"),
    "rising values": (0.24, lambda p: p.values == "rising"),
}


@pytest.mark.parametrize("seed", [0, 1, 2026])
def test_every_feature_is_covered(seed: int):
    problems = random_problems(seed, 2000)
    shares = {
        name: sum(test(p) for p in problems) / len(problems) for name, (_, test) in FEATURES.items()
    }
    short = {name: share for name, share in shares.items() if share < FEATURES[name][0]}
    assert not short
    head_dims = Counter(p.head_dim for p in problems)
    assert set(head_dims) == set(HEAD_DIMS)
    assert min(head_dims.values()) >= 40
    masks = Counter(p.mask for p in problems)
    assert min(masks["full"], masks["causal"], masks["local"]) >= 300


@given(seed=SEEDS, reduced=st.booleans())
@settings(max_examples=60, deadline=None)
def test_problems_are_legal_and_small(seed: int, reduced: bool):
    # A Problem checks itself when it is made; what is left is size.
    most = MAX_SCORES_REDUCED if reduced else MAX_SCORES
    for problem in random_problems(seed, 100, reduced=reduced):
        assert problem.scores <= most
        assert problem.heads_q % problem.heads_k == 0
        assert problem.batch * problem.seqlen_k * problem.heads_k <= 2 * MAX_ROWS
        for shape, layout in zip(
            (problem.shape_q, problem.shape_k, problem.shape_k), problem.layouts, strict=True
        ):
            assert layout.strides(shape)[-1] == 1
            assert layout.extent(shape) < 2**27


def test_the_reduced_set_meets_every_tile_height_and_mask():
    problems = random_problems(0, REDUCED_PROBLEMS, reduced=True)
    assert {p.mask for p in problems} == {"full", "causal", "local"}
    assert {p.seqlen_q > 64 for p in problems} == {True, False}
    assert {p.is_packed for p in problems} == {True, False}
    assert {p.layout for p in problems} == set(LAYOUTS)
    paged = [p for p in problems if p.page_size]
    for layout in ("paged", "paged_aligned"):
        assert {p.seqlen_q > 64 for p in paged if p.layout == layout} == {True, False}
    assert {p.num_splits for p in paged} == {0, 1, 2, 7, 64}
