"""Rows of a suite expand to problems; a wrong row names its line."""

import pytest

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix import Matrix, ProblemRow, Suite
from fa3_matrix.matrix._toml import Document
from fa3_matrix.matrix.suites import read_suite


def read(*rows: str) -> Suite:
    text = "[s]\ndescription = 'test'\nproblems = [\n" + "".join(f"{r},\n" for r in rows) + "]\n"
    return read_suite("s", Document(text, "m.toml").root().table("s"))


def test_lists_multiply_in_the_order_of_the_keys() -> None:
    suite = read("{ dtype = ['bf16', 'fp16'], head_dim = 64, heads_q = 2, seqlen_q = [1, 5] }")
    assert [(p.dtype, p.seqlen_q) for p in suite.problems] == [
        ("bf16", 1),
        ("bf16", 5),
        ("fp16", 1),
        ("fp16", 5),
    ]


def test_defaults() -> None:
    (problem,) = read("{ dtype = 'bf16', head_dim = 64, heads_q = 2, seqlen_q = 7 }").problems
    assert problem == ProblemRow(
        dtype="bf16",
        head_dim=64,
        batch=1,
        seqlen_q=7,
        seqlen_k=7,
        heads_q=2,
        heads_k=2,
        causal=False,
        window=(-1, -1),
        softcap=0.0,
    )
    assert not problem.varlen


def test_tokens_and_hidden_become_batch_and_heads() -> None:
    row = "{ dtype = 'bf16', head_dim = [64, 128], hidden = 2048, tokens = 16384, seqlen_q = 512 }"
    assert [(p.batch, p.heads_q) for p in read(row).problems] == [(32, 32), (32, 16)]


def test_lengths_make_a_varlen_problem() -> None:
    (problem,) = read(
        "{ dtype = 'bf16', head_dim = 64, heads_q = 2, lengths_q = [3, 0], lengths_k = [9, 4], used_k = [9, 0] }"
    ).problems
    assert problem.varlen
    assert (problem.batch, problem.seqlen_q, problem.seqlen_k) == (2, 3, 9)
    assert (problem.used_q, problem.used_k) == (None, (9, 0))


def test_a_capacity_makes_a_cache() -> None:
    row = (
        "{ dtype = 'bf16', head_dim = 64, heads_q = 2, seqlen_q = 1, batch = 2, capacity = 64, %s }"
    )
    (problem,) = read(row % "page_size = 16, new_rows = 1").problems
    assert problem.is_cache and not problem.varlen
    assert (problem.seqlen_k, problem.page_size, problem.new_rows) == (64, 16, 1)
    assert (problem.used_k, problem.num_splits) == ((64, 64), 0)
    (problem,) = read(row % "used_k = [0, 7], num_splits = 4").problems
    assert (problem.used_k, problem.num_splits, problem.page_size) == ((0, 7), 4, 0)
    packed = row.replace("seqlen_q = 1, batch = 2", "lengths_q = [3, 0]")
    (problem,) = read(packed % "causal = true").problems
    assert not problem.varlen
    assert (problem.batch, problem.seqlen_q, problem.lengths_q) == (2, 3, (3, 0))


def test_windows_are_one_pair_or_several() -> None:
    base = "{ dtype = 'bf16', head_dim = 64, heads_q = 2, seqlen_q = 7, window = %s }"
    assert [p.window for p in read(base % "[8, 0]").problems] == [(8, 0)]
    assert [p.window for p in read(base % "[[8, 0], [-1, 4]]").problems] == [(8, 0), (-1, 4)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            "seqlen_q = 7, sequlen_k = 3",
            "unknown key 'sequlen_k'; known here: dtype, head_dim, batch",
        ),
        ("batch = 3", "missing key 'seqlen_q' (or lengths_q)"),
        ("seqlen_q = -1", "batch = 1 must be at least 1, seqlen -1 and -1 at least 0"),
        ("seqlen_q = 7, heads_k = 3", "heads_q = 4 must be a positive multiple of heads_k = 3"),
        ("seqlen_q = 7, hidden = 512", "give hidden or heads_q, not both"),
        ("seqlen_q = 7, tokens = 14, batch = 2", "give tokens or batch, not both"),
        ("seqlen_q = 7, tokens = 15", "tokens = 15 is not a multiple of seqlen_q = 7"),
        (
            "seqlen_q = 7, window = [1]",
            "window = [1]: must be [left, right] or a list of such pairs",
        ),
        ("seqlen_q = 7, window = [-2, 0]", "window = [-2, 0]: must be [left, right]"),
        ("seqlen_q = 7, softcap = 30", "softcap holds 30: each must be a number with a decimal"),
        ("seqlen_q = 7, causal = 1", "causal holds 1: each must be true or false"),
        ("seqlen_q = 7, used_q = [3]", "used_q belongs to a varlen row, which states lengths_q"),
        ("lengths_q = [7], seqlen_k = 3", "seqlen_k does not go with lengths_q"),
        ("lengths_q = [7], lengths_k = [1, 2]", "lengths_k has 2 entries, lengths_q 1"),
        ("lengths_q = [7], used_q = [8]", "used_q = [8]: needs 1 entries, none above its length"),
        (
            "seqlen_q = 7, page_size = 4",
            "page_size belongs to a cache's row, which states capacity",
        ),
        ("seqlen_q = 7, num_splits = -1", "num_splits = -1: must be at least 0"),
        ("capacity = 8", "a cache's row states seqlen_q or lengths_q"),
        ("seqlen_q = 7, capacity = 8, seqlen_k = 8", "seqlen_k does not go with capacity"),
        ("lengths_q = [7], capacity = 8, batch = 1", "batch does not go with lengths_q"),
        (
            "seqlen_q = 1, capacity = 8, page_size = 3",
            "capacity = 8: must be a multiple of page_size = 3",
        ),
        ("seqlen_q = 1, capacity = 8, used_k = [9]", "used_k = [9]: needs 1 entries of at least"),
        (
            "seqlen_q = 1, capacity = 8, new_rows = 9",
            "at least new_rows = 9, none above capacity = 8",
        ),
        ("lengths_q = []", "lengths_q = []: must be a non-empty list of lengths"),
        ("seqlen_q = [7, 7]", "seqlen_q = [7, 7]: an entry is repeated"),
        ("seqlen_q = [5, 1]", "repeats a problem of this suite"),
    ],
)
def test_a_wrong_row_names_its_line(keys: str, message: str) -> None:
    good = "{ dtype = 'bf16', head_dim = 64, heads_q = 4, seqlen_q = 1 }"
    with pytest.raises(MatrixError) as caught:
        read(good, f"{{ dtype = 'bf16', head_dim = 64, heads_q = 4, {keys} }}")
    assert str(caught.value).startswith("m.toml:5: [s.problems.1]: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("head_dim", [0, 4, 72.0, 12, 264])
def test_a_wrong_head_dim(head_dim: float) -> None:
    with pytest.raises(MatrixError, match="head_dim"):
        read(f"{{ dtype = 'bf16', head_dim = {head_dim}, heads_q = 4, seqlen_q = 1 }}")


def test_smoke_touches_every_feature(matrix: Matrix) -> None:
    problems = matrix.suite("smoke").problems
    compiled = {v.head_dim for v in matrix.all_variants}
    assert {p.dtype for p in problems} == {"bf16", "fp16"}
    assert compiled <= {p.head_dim for p in problems}
    assert any(p.head_dim not in compiled for p in problems)
    assert any(p.causal for p in problems)
    assert any(p.window != (-1, -1) for p in problems)
    assert any(p.softcap for p in problems)
    assert any(p.heads_k < p.heads_q for p in problems)
    assert any(p.varlen for p in problems)
    assert any(p.used_k for p in problems)
    assert any(p.seqlen_k == 0 for p in problems)
    caches = [p for p in problems if p.is_cache]
    assert {(p.page_size > 0, p.new_rows > 0) for p in caches} >= {
        (False, False),
        (True, False),
        (True, True),
    }
    assert any(p.lengths_q for p in caches) and any(p.seqlen_q > 64 for p in caches)
    assert len(problems) <= 36


def test_headline_is_the_dense_grid_of_the_papers(matrix: Matrix) -> None:
    problems = matrix.suite("headline").problems
    assert len(problems) == 2 * 2 * 6
    assert {p.batch * p.seqlen_q for p in problems} == {16384}
    assert {p.heads_q * p.head_dim for p in problems} == {2048}
    assert {p.seqlen_q for p in problems} == {512, 1024, 2048, 4096, 8192, 16384}


def test_grid_is_headline_in_both_dtypes_and_head_dim_256(matrix: Matrix) -> None:
    problems = matrix.suite("grid").problems
    assert set(matrix.suite("headline").problems) < set(problems)
    assert {(p.dtype, p.head_dim) for p in problems} == {
        (dtype, head_dim) for dtype in ("bf16", "fp16") for head_dim in (64, 128, 256)
    }
    assert len(problems) == 2 * 3 * 2 * 6


def test_decode_is_one_query_against_long_caches(matrix: Matrix) -> None:
    problems = matrix.suite("decode").problems
    caches = [p for p in problems if p.is_cache]
    assert {p.page_size for p in caches} == {0, 16, 64, 256}
    problems = tuple(p for p in problems if not p.is_cache)
    assert {p.num_splits for p in problems} == {0}
    single = [p for p in problems if p.seqlen_q == 1]
    assert {(p.batch, p.seqlen_k, p.heads_q) for p in single} == {
        (batch, seqlen_k, heads_q)
        for batch in (1, 16, 64)
        for seqlen_k in (4096, 8192, 16384, 65536)
        for heads_q in (32, 64)
    }
    assert [p.seqlen_q for p in problems if p not in single] == [4]
