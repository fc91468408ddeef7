"""Problem classes, and the table that the project's variants make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.errors import MatrixError
from fa3_matrix.matrix import Matrix, parse, selection
from fa3_matrix.matrix.model import LAYOUTS, MASKS
from fa3_matrix.matrix.selection import log2_seqlen, mask_of, problem_class, query_rows

from .limits import LIMITS

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


@pytest.mark.parametrize(
    ("seqlen_q", "group", "rows"),
    [
        (0, 8, 0),
        (1, 1, 1),
        (1, 8, 8),
        (4, 8, 32),
        (9, 8, 64),
        (64, 8, 64),
        (65, 8, 65),
        (64, 1, 64),
    ],
)
def test_rows_of_a_tile_choose(seqlen_q: int, group: int, rows: int) -> None:
    assert query_rows(seqlen_q, group) == rows


@pytest.mark.parametrize("arch", ARCHS)
@given(
    head_dim=st.integers(1, 32).map(lambda n: 8 * n),
    dtype=st.sampled_from(["bf16", "fp16"]),
    seqlen_q=st.integers(0, 10**6),
    seqlen_k=st.integers(0, 10**6),
    causal=st.booleans(),
    window=st.tuples(st.integers(-1, 5000), st.integers(-1, 5000)),
    layout=st.sampled_from(LAYOUTS),
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
    assert variant.tma_columns == 0 or layout in ("aligned", "paged_aligned")
    assert variant.tma_columns > 0 or variant.splits_keys == 1 or layout in ("aligned", "unaligned")


@pytest.mark.parametrize("arch", ARCHS)
def test_the_table_is_complete(matrix: Matrix, arch: str) -> None:
    variants = matrix.variants(arch)
    wanted = list(selection.classes(variants))
    # 5 head_dims x 2 dtypes x 3 masks x 4 layouts x 17 x 17
    assert len(wanted) == len(set(wanted)) == 5 * 2 * 3 * 4 * 17 * 17
    served = [index for variant in variants for index in selection.served(variant)]
    assert sorted(served) == sorted(wanted)  # each once


@pytest.mark.parametrize(
    ("head_dim", "seqlen_q", "layout", "kernel"),
    [
        *[(head_dim, 65, "paged_aligned", "sm90") for head_dim in (64, 96, 128, 256)],
        *[(head_dim, 10**5, "paged_aligned", "sm90") for head_dim in (64, 96, 128, 256)],
        (192, 65, "paged_aligned", "splitkv"),  # blocks of 80 keys
        (64, 64, "paged_aligned", "splitkv"),
        *[(head_dim, 65, "paged", "splitkv") for head_dim in (64, 96, 128, 192, 256)],
    ],
)
def test_who_reads_pages_on_hopper(
    matrix: Matrix, head_dim: int, seqlen_q: int, layout: str, kernel: str
) -> None:
    table = selection.table(matrix, "sm90")
    index = problem_class(
        [head_dim],
        head_dim=head_dim,
        dtype="bf16",
        seqlen_q=seqlen_q,
        seqlen_k=500,
        layout=layout,
    )
    assert table[index].kernel == kernel


HEAD = (
    """\
schema = 1
toolkits."13.3" = { targets = ["sm_80"], ptx_isa = "9.3", driver = 580 }
gpus.a100 = { capabilities = ["8.0"], products = ["A100"] }
archs.sm80 = { gpu = "a100", description = "Ampere" }
cells.sm80-cu133 = { arch = "sm80", toolkit = "13.3", target = "sm_80", status = "native" }
suites.s = { description = "x", problems = [{ dtype = "bf16", head_dim = 64, seqlen_q = 1, heads_q = 1 }] }
"""
    + LIMITS
)


@given(
    cut=st.integers(0, 15),
    short=st.sets(st.sampled_from(LAYOUTS), min_size=1),
    long=st.sets(st.sampled_from(LAYOUTS), min_size=1),
    masks=st.sets(st.sampled_from(MASKS), min_size=1),
)
def test_rows_read_if_and_only_if_they_serve_every_class_once(
    cut: int, short: set[str], long: set[str], masks: set[str]
) -> None:
    """A row for short queries, one for long ones, and one for all that gives what it is told."""

    def row(block_m: int, lengths: list[int], layouts: set[str], masks: set[str]) -> str:
        return (
            "[[variants]]\narchs = 'sm80'\ndtypes = ['bf16', 'fp16']\nkernel = 'splitkv'\n"
            f"head_dim = 64\nblock_m = {block_m}\nblock_n = 64\nstages = 2\n"
            f"row_warps = {block_m // 16}\nkey_groups = 1\nmin_blocks = 1\nreason = 'test'\n"
            f"serves = [{{ log2_seqlen_q = {lengths}, layouts = {sorted(layouts)}, "
            f"masks = {sorted(masks)} }}]\n"
        )

    every, whole = set(LAYOUTS), set(MASKS)
    rows = [
        row(16, [0, cut], short, whole),
        row(32, [cut + 1, 16], long, whole),
        row(48, [0, 16], every - short, masks) if every - short else "",
    ]
    text = HEAD + "".join(rows)
    if short == long and (short == every or masks == whole):
        matrix = parse(text)
        classes = selection.classes(matrix.variants("sm80"))
        assert set(selection.table(matrix, "sm80")) == set(classes)
    else:
        with pytest.raises(MatrixError, match=r"serves already|are served by no variant"):
            parse(text)


@given(
    cuts=st.fixed_dictionaries({mask: st.integers(0, 15) for mask in MASKS}),
    gap=st.sampled_from([-1, 0, 0, 0, 1]),
)
def test_rows_of_several_sets_read_if_and_only_if_they_serve_every_class_once(
    cuts: dict[str, int], gap: int
) -> None:
    """Two rows with a set for each mask, cut at another length in each; ``gap`` moves one cut of the second row."""

    def row(block_m: int, lengths: dict[str, list[int]]) -> str:
        sets = [f"{{ masks = ['{m}'], log2_seqlen_q = {range_} }}" for m, range_ in lengths.items()]
        return (
            "[[variants]]\narchs = 'sm80'\ndtypes = ['bf16', 'fp16']\nkernel = 'splitkv'\n"
            f"head_dim = 64\nblock_m = {block_m}\nblock_n = 64\nstages = 2\n"
            f"row_warps = {block_m // 16}\nkey_groups = 1\nmin_blocks = 1\nreason = 'test'\n"
            f"serves = [{', '.join(sets)}]\n"
        )

    starts = {mask: cut + 1 for mask, cut in cuts.items()}
    starts["causal"] = min(starts["causal"] + gap, 16)
    short = row(16, {mask: [0, cut] for mask, cut in cuts.items()})
    text = HEAD + short + row(32, {mask: [start, 16] for mask, start in starts.items()})
    if starts["causal"] == cuts["causal"] + 1:
        table = selection.table(parse(text), "sm80")
        assert all(
            v.block_m == (16 if index.log2_seqlen_q <= cuts[index.mask] else 32)
            for index, v in table.items()
        )
        assert len(table) == 2 * 3 * 4 * 17 * 17
    else:
        message = "serves already" if gap < 0 else "are served by no variant"
        with pytest.raises(MatrixError, match=message):
            parse(text)
