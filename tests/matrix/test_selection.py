"""Problem classes, and the table that the project's variants make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.matrix import Matrix, selection
from fa3_matrix.matrix.selection import log2_seqlen, mask_of, problem_class

ARCHS = ["sm80", "sm90", "sm100"]


@pytest.mark.parametrize(
    ("seqlen", "bucket"),
    [(0, 0), (1, 0), (2, 1), (3, 2), (64, 6), (65, 7), (32769, 16), (65536, 16), (2**30, 16)],
)
def test_bucket_of_a_length(seqlen: int, bucket: int) -> None:
    assert log2_seqlen(seqlen) == bucket


@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_buckets_grow_with_the_length(a: int, b: int) -> None:
    assert log2_seqlen(min(a, b)) <= log2_seqlen(max(a, b))


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match="seqlen is -1; it must be at least 0"):
        log2_seqlen(-1)


@given(
    causal=st.booleans(),
    left=st.integers(-1, 6),
    right=st.integers(-1, 6),
    seqlen_q=st.integers(1, 5),
    seqlen_k=st.integers(1, 5),
)
def test_the_mask_class_says_which_keys_are_masked(
    causal: bool, left: int, right: int, seqlen_q: int, seqlen_k: int
) -> None:
    def visible(i: int, j: int, left: int, right: int) -> bool:
        centre = i + seqlen_k - seqlen_q
        return (left < 0 or j >= centre - left) and (right < 0 or j <= centre + right)

    def rows(left: int, right: int) -> list[bool]:
        return [visible(i, j, left, right) for i in range(seqlen_q) for j in range(seqlen_k)]

    mask = mask_of(causal, (left, right), seqlen_q, seqlen_k)
    seen = rows(left, 0 if causal else right)
    if mask == "full":
        assert seen == rows(-1, -1)
    elif mask == "causal":
        assert seen == rows(-1, 0)


@pytest.mark.parametrize(
    ("causal", "window", "mask"),
    [
        (False, (-1, -1), "full"),
        (True, (-1, -1), "causal"),
        (False, (-1, 0), "causal"),
        (True, (-1, 7), "causal"),
        (True, (7, 7), "local"),
        (False, (7, -1), "local"),
        (False, (-1, 7), "local"),
        (False, (99, 99), "full"),
        (True, (99, 0), "causal"),
    ],
)
def test_mask_of_a_call(causal: bool, window: tuple[int, int], mask: str) -> None:
    assert mask_of(causal, window, 100, 100) == mask


def test_one_query_row_sees_all_keys_under_causal() -> None:
    assert mask_of(True, (-1, -1), 1, 500) == "full"


def test_the_smallest_compiled_head_dim_that_fits() -> None:
    found = problem_class(
        [256, 64, 128], head_dim=72, dtype="bf16", seqlen_q=1, seqlen_k=100, causal=True
    )
    assert found == (128, "bf16", "full", "aligned", 0, 7)
    with pytest.raises(ValueError, match=r"head_dim is 512; the compiled ones are \[64, 128\]"):
        problem_class([128, 64], head_dim=512, dtype="bf16", seqlen_q=1, seqlen_k=1)


@pytest.mark.parametrize("arch", ARCHS)
@given(
    head_dim=st.integers(1, 32).map(lambda n: 8 * n),
    dtype=st.sampled_from(["bf16", "fp16"]),
    seqlen_q=st.integers(0, 10**6),
    seqlen_k=st.integers(0, 10**6),
    causal=st.booleans(),
    window=st.tuples(st.integers(-1, 5000), st.integers(-1, 5000)),
    layout=st.sampled_from(["aligned", "unaligned"]),
)
def test_every_problem_is_served_by_a_variant_that_holds_it(
    matrix: Matrix,
    arch: str,
    head_dim: int,
    dtype: str,
    seqlen_q: int,
    seqlen_k: int,
    causal: bool,
    window: tuple[int, int],
    layout: str,
) -> None:
    table = selection.table(matrix, arch)
    index = problem_class(
        {v.head_dim for v in matrix.variants(arch)},
        head_dim=head_dim,
        dtype=dtype,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        causal=causal,
        window=window,
        layout=layout,
    )
    variant = table[index]
    assert (variant.arch, variant.dtype) == (arch, dtype)
    assert variant.head_dim >= head_dim
    assert layout == "aligned" or variant.tma_columns == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_the_table_is_complete(matrix: Matrix, arch: str) -> None:
    variants = matrix.variants(arch)
    assert set(selection.table(matrix, arch)) == set(selection.classes(variants))
