"""The reference against a definition written as loops, one number at a time."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fa3_matrix.bench.inputs import TORCH_DTYPES, Inputs, appended, make_inputs, same_cache
from fa3_matrix.bench.layout import Layout
from fa3_matrix.bench.problems import Problem
from fa3_matrix.bench.reference import Window, attention

LENGTH = st.integers(0, 9)


def by_definition(
    problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, used_q: int
) -> tuple[list[list[list[float]]], list[list[float]]]:
    """out[row][head][dim] and lse[row][head] of one sequence; q may hold rows that do not count."""
    left, right = problem.effective_window
    group = problem.heads_q // problem.heads_k
    out, lse = [], []
    for i in range(len(q)):
        out.append([])
        lse.append([])
        for head in range(problem.heads_q):
            scores = {}
            for j in range(len(k)):
                diagonal = i + len(k) - used_q
                hidden = (0 <= left < diagonal - j) or (0 <= right < j - diagonal)
                if i >= used_q or hidden:
                    continue
                score = problem.softmax_scale * float(q[i, head] @ k[j, head // group])
                if problem.softcap:
                    score = problem.softcap * math.tanh(score / problem.softcap)
                scores[j] = score
            total = math.fsum(math.exp(s) for s in scores.values())
            lse[-1].append(math.log(total) if scores else -math.inf)
            out[-1].append(
                [
                    math.fsum(
                        math.exp(s) / total * float(v[j, head // group, d])
                        for j, s in scores.items()
                    )
                    for d in range(problem.head_dim)
                ]
            )
    return out, lse


def reference(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, object]:
    inputs = make_inputs(problem, "cpu")
    padded = Window(problem, inputs).padded()
    out, lse = attention(problem, padded, torch.float32)
    return out, lse, padded.rows, inputs


def check_sequence(problem, q, k, v, used_q, out, lse):
    expected_out, expected_lse = by_definition(problem, q.double(), k.double(), v.double(), used_q)
    expected = torch.tensor(expected_out).reshape(len(q), problem.heads_q, problem.head_dim)
    torch.testing.assert_close(out[: len(q)], expected, rtol=1e-4, atol=1e-5)
    expected = torch.tensor(expected_lse).reshape(len(q), problem.heads_q)
    torch.testing.assert_close(lse[: len(q)], expected, rtol=1e-4, atol=1e-5)


MASKS = {
    "causal": st.booleans(),
    "window": st.tuples(st.integers(-1, 10), st.integers(-1, 10)),
    "softcap": st.sampled_from([0.0, 2.0]),
    "scale": st.sampled_from([None, 0.0, -0.3, 1.0]),
    "values": st.sampled_from(["normal", "sharp", "rising"]),
    "dtype": st.sampled_from(["bf16", "fp16"]),
}


@given(
    sq=LENGTH, sk=LENGTH, heads=st.sampled_from([(1, 1), (4, 2)]), more=st.fixed_dictionaries(MASKS)
)
@settings(max_examples=150, deadline=None)
def test_dense(sq: int, sk: int, heads: tuple[int, int], more: dict):
    problem = Problem(
        batch=2, seqlen_q=sq, seqlen_k=sk, heads_q=heads[0], heads_k=heads[1], head_dim=8, **more
    )
    out, lse, rows, inputs = reference(problem)
    assert rows.all()
    for b in range(2):
        check_sequence(problem, inputs.q[b], inputs.k[b], inputs.v[b], sq, out[b], lse[b])


@given(
    lengths=st.lists(st.tuples(LENGTH, LENGTH, LENGTH, LENGTH), min_size=1, max_size=4),
    used=st.sampled_from(["", "q", "k", "qk"]),
    more=st.fixed_dictionaries(MASKS),
)
@settings(max_examples=150, deadline=None)
def test_varlen(lengths: list[tuple[int, int, int, int]], used: str, more: dict):
    lengths_q, lengths_k = [x[0] for x in lengths], [x[1] for x in lengths]
    used_q = tuple(min(x[0], x[2]) for x in lengths) if "q" in used else None
    used_k = tuple(min(x[1], x[3]) for x in lengths) if "k" in used else None
    problem = Problem.varlen(
        lengths_q=lengths_q,
        lengths_k=lengths_k,
        used_q=used_q,
        used_k=used_k,
        heads_q=2,
        heads_k=1,
        head_dim=8,
        **more,
    )
    out, lse, rows, inputs = reference(problem)
    for b, (count_q, count_k) in enumerate(problem.pairs()):
        begin_q, begin_k = sum(lengths_q[:b]), sum(lengths_k[:b])
        assert rows[b].sum() == lengths_q[b]
        q = inputs.q[begin_q : begin_q + lengths_q[b]]
        k, v = (t[begin_k : begin_k + count_k] for t in (inputs.k, inputs.v))
        check_sequence(problem, q, k, v, count_q, out[b], lse[b])


@given(
    entries=st.lists(st.tuples(LENGTH, st.integers(-3, 17)), min_size=1, max_size=4),
    packed=st.booleans(),
    page_size=st.sampled_from([0, 1, 3, 4, 12]),
    new_rows=st.sampled_from([0, 0, 1, 5]),
    layout=st.sampled_from(["bsh", "bhs+p1+o3", "shb+j5"]),
    more=st.fixed_dictionaries(MASKS),
)
@settings(max_examples=200, deadline=None)
def test_cache(
    entries: list[tuple[int, int]],
    packed: bool,
    page_size: int,
    new_rows: int,
    layout: str,
    more: dict,
):
    """The reference sees what `by_key` collects key by key, as the contract of the call has it."""
    lengths_q = [length for length, _ in entries] if packed else None
    queries = {"lengths_q": lengths_q} if packed else {"seqlen_q": entries[0][0]}
    problem = Problem.kvcache(
        **queries,
        seqlen_k=12,
        used_k=[used for _, used in entries],
        page_size=page_size,
        new_rows=new_rows,
        heads_q=2,
        heads_k=1,
        head_dim=8,
        layout_k=Layout.parse(layout),
        layout_v=Layout.parse("hbs"),
        **more,
    )
    inputs = make_inputs(problem, "cpu")
    after = appended(problem, inputs)
    padded = Window(problem, after).padded()
    out, lse = attention(problem, padded, torch.float32)
    for b, (count_q, count_k) in enumerate(problem.pairs()):
        begin = sum(lengths_q[:b]) if packed else 0
        q = inputs.q[begin : begin + count_q] if packed else inputs.q[b]
        k, v = (by_key(problem, inputs, name, b, count_k) for name in "kv")
        assert k.isfinite().all() and v.isfinite().all()
        check_sequence(problem, q, k, v, count_q, out[b], lse[b])


def by_key(problem: Problem, inputs: Inputs, name: str, entry: int, count: int) -> torch.Tensor:
    """(count, heads_k, head_dim): each key from where it is before the call, the cache or the new rows."""
    cache, new = getattr(inputs, name), getattr(inputs, f"{name}_new")
    rows = []
    for key in range(count):
        first_new = int(inputs.cache_seqlens[entry])
        if key >= first_new and new is not None:
            rows.append(new[entry, key - first_new])
        elif inputs.page_table is not None:
            page = inputs.page_table[entry, key // problem.page_size]
            rows.append(cache[page, key % problem.page_size])
        else:
            rows.append(cache[entry, key])
    return torch.stack(rows) if rows else cache.new_empty(0, problem.heads_k, problem.head_dim)


CACHE = Problem.kvcache(
    dtype="bf16",
    heads_q=2,
    heads_k=1,
    head_dim=8,
    seqlen_q=2,
    seqlen_k=12,
    page_size=4,
    used_k=[6, 0, 14, 1],
    new_rows=3,
)


def test_a_cache_holds_keys_that_count_and_nothing_else():
    inputs = make_inputs(CACHE, "cpu")
    after = appended(CACHE, inputs)
    lengths = [3, -3, 11, -2]
    assert inputs.cache_seqlens.tolist() == lengths
    for name in ("k", "v"):
        # 3 + 11 rows of 8 elements, and when appended 3 + 0 + 1 + 1 more, in 2 + 0 + 3 + 1 pages.
        before, now = (getattr(x, name).isfinite().sum() // 8 for x in (inputs, after))
        assert (before, now) == (14, 19)
        assert getattr(inputs, name).shape == (6 + 3, 4, 1, 8)
        # What has no place in the cache is NaN as well.
        new = getattr(inputs, f"{name}_new")[:, :, 0, 0].isnan().tolist()
        assert new == [[False] * 3, [True] * 3, [False, True, True], [True, True, False]]
    assert same_cache(inputs, inputs) and not same_cache(inputs, after)


def test_the_page_table_names_each_used_page_once():
    table = make_inputs(CACHE, "cpu").page_table
    assert table.stride(1) == 1 and table.stride(0) > 3
    used = [int(page) for b, n in enumerate((2, 0, 3, 1)) for page in table[b, :n]]
    assert len(set(used)) == len(used) == 6 and set(used) <= set(range(9))
    rest = [int(page) for b, n in enumerate((2, 0, 3, 1)) for page in table[b, n:]]
    assert not set(rest) & set(used)
    large = make_inputs(replace(CACHE, batch=60, used_k=(1,) * 60), "cpu").page_table[:, 1:]
    assert {-1, 63, 2**31 - 1, -(2**31)} < set(large.flatten().tolist())
    assert ((large >= 0) & (large < 63)).float().mean() > 0.3


def test_unused_rows_of_a_cache_can_be_other_than_nan():
    inputs = make_inputs(CACHE, "cpu", guard=0, unused=0)
    assert inputs.k.isfinite().all() and inputs.v.isfinite().all()
    assert inputs.k.count_nonzero() == 14 * 8


def test_where_the_pages_lie_changes_no_key():
    paged = make_inputs(CACHE, "cpu")
    plain = make_inputs(replace(CACHE, page_size=0), "cpu")
    assert torch.equal(paged.q, plain.q)
    for name in ("k", "v"):
        assert torch.equal(
            getattr(paged, f"{name}_new").nan_to_num(), getattr(plain, f"{name}_new").nan_to_num()
        )
        assert torch.equal(
            getattr(plain, name)[0, 2], getattr(paged, name)[paged.page_table[0, 0], 2]
        )


def test_rows_without_keys_are_zero_with_lse_minus_infinity():
    problem = Problem(
        dtype="bf16", heads_q=1, heads_k=1, head_dim=8, batch=1, seqlen_q=5, seqlen_k=2, causal=True
    )
    out, lse, _, _ = reference(problem)
    assert out[0, :3].eq(0).all()
    assert lse[0, :3].eq(-torch.inf).all()
    assert lse[0, 3:].isfinite().all()


def test_the_math_path_rounds_to_its_dtype():
    problem = Problem(
        dtype="bf16", heads_q=2, heads_k=2, head_dim=64, batch=1, seqlen_q=70, seqlen_k=90
    )
    padded = Window(problem, make_inputs(problem, "cpu")).padded()
    exact, _ = attention(problem, padded, torch.float32)
    rounded, _ = attention(problem, padded, torch.bfloat16)
    assert rounded.dtype == torch.bfloat16
    error = (rounded.float() - exact).abs().max()
    assert 1e-4 < error < 3e-2


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    problem = Problem(
        dtype="fp16",
        heads_q=4,
        heads_k=2,
        head_dim=8,
        batch=3,
        seqlen_q=13,
        seqlen_k=17,
        causal=True,
    )
    padded = Window(problem, make_inputs(problem, "cpu")).padded()
    whole = attention(problem, padded, torch.float32)
    monkeypatch.setattr("fa3_matrix.bench.reference._CHUNK_SCORES", 4 * 17 * 5)
    for a, b in zip(attention(problem, padded, torch.float32), whole, strict=True):
        torch.testing.assert_close(a, b)


def test_a_large_problem_is_checked_at_both_ends_of_batch_and_heads():
    problem = Problem(
        dtype="bf16", heads_q=12, heads_k=6, head_dim=8, batch=9, seqlen_q=3, seqlen_k=4
    )
    inputs = make_inputs(problem, "cpu")
    window = Window(problem, inputs, most=2 * 2 * 2 * 3 * 4)
    assert not window.whole
    padded = window.padded()
    assert padded.q.shape == (2, 3, 4, 8)
    torch.testing.assert_close(padded.q, inputs.q[[0, 8]][:, :, [0, 1, 10, 11]])
    torch.testing.assert_close(padded.k, inputs.k[[0, 8]][:, :, [0, 5]])


@pytest.mark.parametrize("layout", ["bsh", "bhs+p1+o3", "hsb+j2", "sbh+p8+j64", "bsh+eh", "bsh+eb"])
def test_inputs_lie_between_nan(layout: str):
    problem = Problem(
        dtype="bf16",
        heads_q=2,
        heads_k=2,
        head_dim=8,
        batch=2,
        seqlen_q=3,
        seqlen_k=5,
        layout_k=Layout.parse(layout),
    )
    k = make_inputs(problem, "cpu", guard=100).k
    assert k.isfinite().all()
    assert k.stride() == problem.layout_k.strides(k.shape)
    assert k.storage_offset() % 64 == problem.layout_k.offset
    storage = torch.empty(0, dtype=k.dtype).set_(k.untyped_storage())
    distinct = k.numel() // (2 if problem.layout_k.expand else 1)
    assert storage.isfinite().sum() == distinct
    assert storage[:100].isnan().all()
    assert storage[-100:].isnan().all()


def test_the_last_element_ends_the_storage_without_a_guard():
    problem = Problem(
        dtype="bf16",
        heads_q=1,
        heads_k=1,
        head_dim=8,
        batch=1,
        seqlen_q=3,
        seqlen_k=5,
        layout_v=Layout("bsh", pad=8),
    )
    v = make_inputs(problem, "cpu", guard=0).v
    assert v.untyped_storage().nbytes() == 2 * (4 * 16 + 8)


def test_unused_rows_hold_nan():
    problem = Problem.varlen(
        dtype="bf16",
        heads_q=1,
        heads_k=1,
        head_dim=8,
        lengths_q=[2, 0, 3],
        lengths_k=[1, 4, 2],
        used_q=(1, 0, 3),
        used_k=(1, 2, 0),
    )
    inputs = make_inputs(problem, "cpu")
    assert inputs.q[:, 0, 0].isnan().tolist() == [False, True, False, False, False]
    for tensor in (inputs.k, inputs.v):
        assert tensor[:, 0, 0].isnan().tolist() == [False, False, False, True, True, True, True]


def test_inputs_follow_the_seed():
    keys = {"heads_q": 1, "heads_k": 1, "head_dim": 8, "batch": 1, "seqlen_q": 3, "seqlen_k": 5}
    for dtype in TORCH_DTYPES:
        first, again, other = (
            make_inputs(Problem(dtype=dtype, seed=seed, **keys), "cpu").q for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
