"""Problems: ids that state everything, layouts that are what they say, legal arguments only."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.bench import inputs
from fa3_matrix.bench.fixed_problems import fixed_problems
from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.random_problems import random_problems
from fa3_matrix.bench.suites import suite_problems
from fa3_matrix.matrix import load
from fa3_matrix.matrix.selection import table

from ..problem_classes import class_of

LAYOUTS = st.builds(
    Layout,
    order=st.permutations("bsh").map("".join),
    pad=st.integers(0, 40),
    offset=st.integers(0, 9),
    jump=st.integers(0, 2**33),
    expand=st.sampled_from(["", "b", "h"]),
)


def dense(**more: object) -> Problem:
    keys = {"dtype": "bf16", "heads_q": 2, "heads_k": 1, "head_dim": 64, "batch": 1}
    return Problem(**{**keys, "seqlen_q": 3, "seqlen_k": 5, **more})


@given(layout=LAYOUTS)
def test_a_layouts_text_reads_back(layout: Layout):
    assert Layout.parse(str(layout)) == layout


@given(layout=LAYOUTS, shape=st.tuples(*[st.integers(1, 4)] * 3, st.just(8)))
def test_distinct_elements_do_not_overlap(layout: Layout, shape: tuple[int, ...]):
    layout = dataclasses.replace(layout, jump=layout.jump % 100)
    expanded = "bsh".index(layout.expand) if layout.expand else None
    distinct = tuple(1 if dim == expanded else size for dim, size in enumerate(shape))
    storage = torch.zeros(layout.extent(shape), dtype=torch.int32)
    view = storage.as_strided(distinct, layout.strides(shape))
    view += 1
    assert storage.max() == 1
    assert view.sum() == view.numel()
    assert layout.strides(shape)[-1] == 1


@pytest.mark.parametrize("text", ["", "bs", "bshh", "bsh+x1", "bsh+p", "sh+eb", "bsh+o1+p8"])
def test_a_wrong_layout_is_refused(text: str):
    with pytest.raises(ValueError, match=r"layout|order|expand"):
        Layout.parse(text)


def test_ids_read_back():
    matrix = load()
    suites = [p for suite in matrix.suites for p in suite_problems(suite.name, matrix)]
    problems = [*random_problems(3, 500), *fixed_problems().values(), *suites]
    for problem in problems:
        assert Problem.parse(problem.id) == problem
    assert len({p.id for p in problems}) == len(set(problems))


def test_ids_are_shell_safe():
    for problem in random_problems(4, 300):
        assert set(problem.id) <= set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,+="
        )


def test_an_id_is_stable():
    # Reproduction commands outlive the version that printed them.
    problem = Problem.varlen(
        dtype="fp16",
        heads_q=4,
        heads_k=2,
        head_dim=72,
        lengths_q=[3, 0, 0],
        lengths_k=[1, 1, 9],
        used_k=(1, 0, 9),
        slack=2,
        causal=True,
        window=(5, -1),
        softcap=15.0,
        scale=0.25,
        values="sharp",
        layout_k=Layout("hs", pad=1, offset=3),
        seed=7,
    )
    assert problem.id == (
        "varlen_fp16_d72_h4-2_q3.0x2_k1x2.9_uk1.0.9_slack2_causal_w5,-1_cap15.0_scale0.25_sharp_"
        "Lk=hs+p1+o3_s7"
    )


def test_an_id_of_a_cache_is_stable():
    problem = Problem.kvcache(
        dtype="bf16",
        heads_q=8,
        heads_k=2,
        head_dim=128,
        lengths_q=[1, 0, 17],
        seqlen_k=256,
        used_k=[256, -3, 300],
        slack=5,
        page_size=16,
        new_rows=4,
        num_splits=0,
        causal=True,
        seed=7,
    )
    assert problem.id == (
        "cache_bf16_d128_h8-2_q1.0.17_k256_uk256.-3.300_slack5_p16_new4_splits0_causal_s7"
    )
    assert (problem.batch, problem.seqlen_q, problem.max_seqlen_q) == (3, 17, 22)
    assert (problem.max_seqlen_k, problem.layout, problem.is_varlen) == (
        256,
        "paged_aligned",
        False,
    )
    assert list(problem.pairs()) == [(1, 256), (0, 0), (17, 256)]
    assert problem.label == ("bf16 d128 b3 h8/2 q<=17 k<=256 pages of 16 new 4 causal")
    dense = Problem.parse("cache_fp16_d64_h2-2_b2_q3_k100_splits4_s0")
    assert (dense.is_packed, dense.used_k, dense.layout) == (False, None, "aligned")
    assert dense.id == "cache_fp16_d64_h2-2_b2_q3_k100_splits4_s0"


@pytest.mark.parametrize(
    ("change", "layout"),
    [
        *[({"page_size": rows}, "paged_aligned") for rows in (8, 16, 32, 64, 128, 384)],
        *[({"page_size": rows}, "paged") for rows in (1, 4, 24, 48, 192)],
        ({"page_size": 64, "layout_q": Layout(offset=4)}, "paged"),
        ({"page_size": 64, "layout_q": Layout(expand="b")}, "paged"),
        ({"page_size": 64, "layout_k": Layout(pad=4)}, "paged"),
        ({"page_size": 64, "layout_v": Layout("hbs", pad=8, jump=16)}, "paged_aligned"),
    ],
)
def test_layout_of_pages(change: dict[str, object], layout: str):
    cache = dense(is_cache=True, batch=2, seqlen_k=384, **change)
    assert cache.layout == layout


def test_splits_are_stated_unless_one():
    assert dense().id == "dense_bf16_d64_h2-1_b1_q3_k5_s0"
    assert dense(num_splits=0).id == "dense_bf16_d64_h2-1_b1_q3_k5_splits0_s0"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"page_size": 3}, "no multiple of"),
        ({"used_k": (1, 2)}, "used_k has 2 entries"),
        ({"new_rows": 1}, "used_k is needed"),
        ({"used_q": (1,)}, "neither lengths_k nor used_q"),
        ({"slack": 3}, "packed queries"),
        ({"layout_k": Layout(expand="h")}, "none of it may be expanded"),
        ({"layout_k": Layout("sh")}, "must order 3"),
    ],
)
def test_illegal_caches_cannot_be_made(change: dict[str, object], message: str):
    assert dense(is_cache=True).is_cache
    with pytest.raises(ValueError, match=message):
        dense(is_cache=True, **change)


def test_only_a_cache_has_pages():
    for change in ({"page_size": 1}, {"new_rows": 1}):
        with pytest.raises(ValueError, match="a cache's"):
            dense(**change)


def test_fixed_problems_reach_every_long_tile_of_hoppers():
    """And so that the emulator ends within seconds: tests/cpp/test_emulated_kernels.py."""
    hopper = table(load(), "sm90")
    indices = [
        class_of(hopper, problem)
        for problem in fixed_problems().values()
        if problem.scores < 40_000
    ]
    reached = {(hopper[index].name, index.mask, index.layout) for index in indices}
    served = {(v.name, i.mask, i.layout) for i, v in hopper.items() if v.kernel == "sm90"}
    assert {each for each in served if "m192" in each[0]} <= reached
    pages = {each[::2] for each in served if each[2] == "paged_aligned"}
    assert pages <= {each[::2] for each in reached}


def test_the_last_page_lies_beyond_32_bits():
    problem = fixed_problems()["cache-page-stride-2^31"]
    strides = problem.layout_k.strides(problem.shape_k)
    table = inputs._page_table(problem, "cpu", 0)
    assert int(table[0, 0]) * strides[0] >= 2**31


@pytest.mark.parametrize(
    "text", ["", "dense", "dense_bf16_d64", "dense_bf16_d64_h2-1_b1_q3_k5_x9_s0", "other_bf16"]
)
def test_a_wrong_id_is_refused(text: str):
    with pytest.raises(ValueError, match="problem id"):
        Problem.parse(text)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "fp32"},
        {"head_dim": 60},
        {"head_dim": 264},
        {"heads_q": 3, "heads_k": 2},
        {"lengths_q": (3,)},
        {"used_q": (3,)},
        {"layout_q": Layout("sh")},
    ],
)
def test_illegal_problems_cannot_be_made(change: dict[str, object]):
    with pytest.raises(ValueError):
        dense(**change)


def test_used_lengths_must_fit():
    with pytest.raises(ValueError, match="used_q"):
        Problem.varlen(
            dtype="bf16",
            heads_q=1,
            heads_k=1,
            head_dim=8,
            lengths_q=[3],
            lengths_k=[3],
            used_q=(4,),
        )


def test_flops_follow_the_papers_convention():
    square = dense(heads_q=16, heads_k=16, head_dim=128, batch=2, seqlen_q=512, seqlen_k=512)
    assert square.flops() == 4 * 2 * 16 * 512 * 512 * 128
    assert dataclasses.replace(square, causal=True).flops() == square.flops() / 2


@given(
    sq=st.integers(0, 20),
    sk=st.integers(0, 20),
    left=st.integers(-1, 22),
    right=st.integers(-1, 22),
)
def test_flops_of_a_window_count_visible_pairs(sq: int, sk: int, left: int, right: int):
    if left < 0 and right <= 0:
        return  # full, or causal: the convention above
    pairs = sum(
        (left < 0 or j >= i + sk - sq - left) and (right < 0 or j <= i + sk - sq + right)
        for i in range(sq)
        for j in range(sk)
    )
    assert dense(seqlen_q=sq, seqlen_k=sk, window=(left, right)).flops() == 4 * 2 * 64 * pairs


def test_min_bytes_counts_each_tensor_once():
    problem = dense(batch=3, seqlen_q=10, seqlen_k=20, heads_q=4, heads_k=2, head_dim=64)
    q = out = 3 * 10 * 4 * 64 * 2
    k = v = 3 * 20 * 2 * 64 * 2
    assert problem.min_bytes() == q + k + v + out + 3 * 10 * 4 * 4
    cache = dataclasses.replace(problem, is_cache=True, used_k=(20, 20, 20), new_rows=2)
    assert cache.min_bytes() == problem.min_bytes() + 2 * 3 * 2 * 2 * 64 * 2


def test_used_lengths_count_not_the_slots():
    problem = Problem.varlen(
        dtype="bf16",
        heads_q=1,
        heads_k=1,
        head_dim=8,
        lengths_q=[4, 4],
        lengths_k=[6, 6],
        used_q=(0, 0),
        used_k=(1, 2),
    )
    assert list(problem.pairs()) == [(0, 1), (0, 2)]
    assert problem.flops() == 0
