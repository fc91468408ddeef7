"""What would be launched: strides, alignment, tile counts, sections, windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa3_matrix.bench.random_problems import random_problems
from fa3_matrix.matrix.model import LAYOUTS
from fa3_matrix.matrix.selection import mask_of
from fa3_matrix.ops import builds


@pytest.fixture(scope="module")
def build(make_build):
    return builds.create(make_build())


def test_dense(api, build):
    q, kv = api.tensor(2, 300, 8, 72), api.tensor(2, 500, 2, 72)
    call = api.forward(q, kv, causal=1, softcap=30.0, out=1024, lse=2048)
    p, variant, tiles = api.plan(call, build)
    assert (p.out, p.lse, p.q, p.k) == (1024, 2048, 4096, 4096)
    for strides, rows, heads in (
        (p.q_stride, 300, 8),
        (p.k_stride, 500, 2),
        (p.out_stride, 300, 8),
    ):
        assert (strides.batch, strides.row, strides.head) == (rows * heads * 72, heads * 72, 72)
    assert (p.lse_batch_stride, p.lse_head_stride) == (8 * 300, 300)
    assert (p.batch, p.heads_q, p.heads_k, p.head_dim) == (2, 8, 2, 72)
    assert (p.seqlen_q, p.seqlen_k, p.total_q, p.total_k) == (300, 500, 300, 500)
    assert (p.softmax_scale, p.softcap) == (0.125, 30.0)
    assert (p.window_left, p.window_right) == (-1, 0)
    assert (p.q_aligned, p.kv_aligned) == (1, 1)
    assert (p.cu_seqlens_q, p.cu_seqlens_k, p.seqused_q, p.seqused_k) == (None,) * 4
    # head_dim 72 is served by d128, seqlen_q 300 by block_m 128.
    assert (p.num_m_blocks, tiles, p.ticket) == (3, 3 * 8 * 2, -1)
    assert variant == 3


def test_varlen(api, build):
    indices = {
        "cu_seqlens_q": api.tensor(4, dtype=api.INT32, data=16),
        "cu_seqlens_k": api.tensor(4, dtype=api.INT32, data=32),
        "seqused_k": api.tensor(3, dtype=api.INT32, data=48),
    }
    q, kv = api.tensor(300, 8, 64), api.tensor(500, 2, 64)
    call = api.forward(q, kv, kind=api.VARLEN, max_seqlen_q=60, max_seqlen_k=10_000, **indices)
    p, _, tiles = api.plan(call, build)
    assert (p.q_stride.batch, p.q_stride.row, p.out_stride.batch) == (0, 512, 0)
    assert (p.lse_batch_stride, p.lse_head_stride) == (0, 300)
    assert (p.cu_seqlens_q, p.cu_seqlens_k, p.seqused_q, p.seqused_k) == (16, 32, None, 48)
    # max_seqlen_k says more than there are rows: no sequence is longer than all of them.
    assert (p.batch, p.seqlen_q, p.seqlen_k, p.total_q, p.total_k) == (3, 60, 500, 300, 500)
    assert (p.num_m_blocks, tiles) == (1, 24)


def test_the_stated_maxima_choose_the_kernel(api, build):
    """However few rows a batch has: what a sequence's result is must not depend on the others."""
    begins = api.tensor(2, dtype=api.INT32)
    variants = set()
    for rows in (1, 60, 300):
        q, kv = api.tensor(rows, 8, 64), api.tensor(rows, 2, 64)
        call = api.forward(
            *(q, kv),
            kind=api.VARLEN,
            **{"cu_seqlens_q": begins, "cu_seqlens_k": begins},
            **{"max_seqlen_q": 300, "max_seqlen_k": 300},
        )
        variants.add(api.plan(call, build)[1])
    assert len(variants) == 1


@pytest.mark.parametrize(
    "seqlen_q,heads_q,block_m",
    [
        *((1, 8, 16), (4, 8, 16), (1, 64, 64), (8, 64, 64)),
        *((9, 64, 64), (64, 64, 64), (64, 8, 64), (65, 8, 128)),
    ],
)
def test_rows_of_packed_heads_choose_the_kernel(
    api, make_build, make_variant, seqlen_q, heads_q, block_m
):
    build = make_build(
        "sm_90a",
        make_variant(log2_seqlen_q=(0, 2), block_m=16),
        make_variant(log2_seqlen_q=(3, 6), block_m=64),
        make_variant(log2_seqlen_q=(7, 16)),
    )
    call = api.forward(api.tensor(2, seqlen_q, heads_q, 64), api.tensor(2, 99, 8, 64))
    _, variant, _ = api.plan(call, builds.create(build))
    assert build.variants[variant].block_m == block_m


def test_max_seqlen_of_zero_still_has_tiles(api, build):
    """max_seqlen is a hint: the kernel is launched and walks what cu_seqlens say."""
    cu_seqlens = api.tensor(2, dtype=api.INT32)
    call = api.forward(
        api.tensor(100, 8, 64),
        api.tensor(100, 8, 64),
        kind=api.VARLEN,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
    )
    p, _, tiles = api.plan(call, build)
    assert (p.num_m_blocks, tiles) == (1, 8)


@pytest.mark.parametrize("batch,seqlen_q,launched", [(0, 5, 0), (2, 0, 0), (2, 5, 16)])
def test_empty(api, build, batch, seqlen_q, launched):
    """Nothing to write, nothing launched; without keys the kernel writes zeros."""
    call = api.forward(api.tensor(batch, seqlen_q, 8, 64), api.tensor(batch, 0, 8, 64))
    assert api.plan(call, build)[2] == launched


def test_batch_and_heads_beyond_65535(api, build):
    q = api.tensor(70_000, 1, 3, 64)
    p, _, tiles = api.plan(api.forward(q, q), build)
    assert (p.batch, tiles) == (70_000, 210_000)


def test_strides_beyond_32_bits(api, build):
    q = api.tensor(4, 2**22, 8, 128)
    p, _, _ = api.plan(api.forward(q, q), build)
    assert p.q_stride.batch == 2**32


def test_too_many_tiles(api, build):
    q = api.tensor(2**20, 2**18, 1, 8, data=0)
    with pytest.raises(ValueError, match=r"more than one grid holds"):
        api.plan(api.forward(q, q), build)


@given(
    data=st.integers(0, 63),
    strides=st.tuples(*[st.integers(1, 64)] * 3),
    sizes=st.tuples(*[st.integers(1, 3)] * 3),
    which=st.sampled_from("qkv"),
)
def test_alignment(api, build, data, strides, sizes, which):
    """16-byte copies are allowed exactly if every row that exists begins at a multiple of 16 bytes."""
    batch, rows, heads = sizes
    odd = api.tensor(batch, rows, heads, 64, strides=(*strides, 1), data=2 * data)
    plain = api.tensor(batch, rows, heads, 64)
    call = api.forward(*(odd if name == which else plain for name in "qkv"))
    p, _, _ = api.plan(call, build)
    starts = [
        2 * (data + b * strides[0] + r * strides[1] + h * strides[2])
        for b in range(batch)
        for r in range(rows)
        for h in range(heads)
    ]
    aligned = all(start % 16 == 0 for start in starts)
    assert (p.q_aligned, p.kv_aligned) == ((aligned, True) if which == "q" else (True, aligned))


@pytest.fixture(scope="module")
def build_of_two_layouts(make_build, make_variant):
    layouts = ("aligned", "unaligned")
    both = [make_variant(layouts=(layout,)) for layout in layouts]
    return builds.create(make_build("sm_90a", *both))


@given(
    data=st.sampled_from([0, 2, 8, 16, 4096]),
    strides=st.tuples(*[st.sampled_from([0, 4, 8, 64, 2**39 - 8, 2**39])] * 3),
    sizes=st.tuples(*[st.sampled_from([0, 1, 2])] * 3),
    which=st.sampled_from("qkv"),
)
def test_layout(api, build_of_two_layouts, data, strides, sizes, which):
    """Aligned exactly if a TMA map may state the address and each stride that matters, and rows don't overlap."""
    batch, rows, heads = sizes[0], sizes[1], max(sizes[2], 1)
    odd = api.tensor(batch, rows, heads, 64, strides=(*strides, 1), data=data)
    plain = api.tensor(batch, rows, heads, 64)
    call = api.forward(*(odd if name == which else plain for name in "qkv"))
    steps = [s for size, s in zip((batch, rows, heads), strides, strict=True) if size > 1]
    aligned = data % 16 == 0 and all(0 < s < 2**39 and s % 8 == 0 for s in steps)
    aligned = aligned and (rows < 2 or strides[1] >= 64)
    _, variant, _ = api.plan(call, build_of_two_layouts)
    assert variant == (0 if aligned else 1)


@pytest.mark.parametrize(
    "sms,causal,seqlen_q,expected",
    [
        # Four query heads share one of 256 of K and V: 4 * 2 tiles of 128 rows.
        (
            132,
            False,
            256,
            16 * 4,
        ),  # 17 would make 136, one for each SM, but leave 1 head for the sixteenth section
        (132, True, 256, 32 * 4),  # of 33, which would leave 25 for the eighth
        (8, False, 256, 1 * 4),
        (9, False, 256, 2 * 4),
        (132, False, 10**5, 1 * 4),
        (10**6, True, 256, 256 * 4),
    ],
)
def test_sections_are_even_and_give_each_sm_a_tile(api, build, sms, causal, seqlen_q, expected):
    q = api.tensor(64, seqlen_q, 16, 128)
    call = api.forward(q, api.tensor(64, 10**5, 4, 128), causal=causal)
    p, _, _ = api.plan(call, build, sms)
    assert p.heads_per_section == expected
    assert (64 * 16 - p.heads_of_first_section) % expected == 0
    assert 1 <= p.heads_of_first_section <= expected


@given(
    causal=st.booleans(),
    left=st.integers(-2, 12),
    right=st.integers(-2, 12),
    seqlen_q=st.integers(1, 10),
    seqlen_k=st.integers(0, 10),
)
def test_window(api, make_build, make_variant, causal, left, right, seqlen_q, seqlen_k):
    """The normalised window masks what the stated one does, and its class is the one that Python states."""
    masks = ("full", "causal", "local")
    one_each = [make_variant(masks=(mask,)) for mask in masks]
    handle = _cached_handle(make_build, one_each)
    call = api.forward(
        api.tensor(1, seqlen_q, 1, 64),
        api.tensor(1, seqlen_k, 1, 64),
        causal=int(causal),
        window_left=left,
        window_right=right,
    )
    p, variant, _ = api.plan(call, handle)
    assert masks[variant] == mask_of(causal, (left, right), seqlen_q, seqlen_k)
    stated = visible(seqlen_q, seqlen_k, left, 0 if causal else right)
    assert visible(seqlen_q, seqlen_k, p.window_left, p.window_right) == stated
    if masks[variant] == "full":
        assert stated == visible(seqlen_q, seqlen_k, -1, -1)


def visible(seqlen_q, seqlen_k, left, right):
    """The (query, key) pairs that a bottom-right aligned window leaves."""
    offset = seqlen_k - seqlen_q
    return {
        (i, j)
        for i in range(seqlen_q)
        for j in range(seqlen_k)
        if (left < 0 or j >= i + offset - left) and (right < 0 or j <= i + offset + right)
    }


_handles: list[int] = []


def _cached_handle(make_build, variants):
    if not _handles:
        _handles.append(builds.create(make_build("sm_90a", *variants)))
    return _handles[0]


def test_another_params_size_is_refused(api, build):
    call = api.forward(api.tensor(1, 1, 1, 64), api.tensor(1, 1, 1, 64))
    with pytest.raises(ValueError, match="ForwardParams has"):
        api.plan(call, build, params_type=api.ForwardStruct)


@pytest.fixture(scope="module")
def splitting(make_build, make_variant):
    return builds.create(make_build("sm_90a", make_variant(block_m=16, layouts=LAYOUTS)))


def test_heads_of_a_group_are_rows_of_one_tile(api, splitting):
    call = api.forward(api.tensor(3, 5, 8, 64), api.tensor(3, 500, 2, 64))
    p, _, tiles = api.plan(call, splitting)
    assert (p.num_m_blocks, tiles, p.num_splits) == (2, 2 * 2 * 3, 1)  # 5 queries x 4 heads


def test_paged_cache(api, splitting):
    call = api.forward(
        api.tensor(11, 8, 64),
        api.tensor(40, 16, 2, 64),
        kind=api.CACHE,
        cu_seqlens_q=api.tensor(4, dtype=api.INT32, data=16),
        seqused_k=api.tensor(3, dtype=api.INT32, data=32),
        page_table=api.tensor(3, 7, dtype=api.INT32, data=48, strides=(10, 1)),
        max_seqlen_q=6,
        new_rows=2,
    )
    p, _, _ = api.plan(call, splitting)
    assert (p.page_table, p.page_table_stride, p.page_size, p.num_pages) == (48, 10, 16, 40)
    assert (p.batch, p.seqlen_q, p.seqlen_k, p.total_k, p.added_k) == (3, 6, 112, 112, 2)
    assert (p.k_stride.batch, p.k_stride.row, p.q_stride.batch) == (16 * 128, 128, 0)
    assert (p.lse_batch_stride, p.lse_head_stride) == (0, 11)


@pytest.fixture(scope="module")
def build_of_each_layout(make_build, make_variant):
    each = [
        make_variant(dtype, 256, layouts=(layout,))
        for dtype in ("bf16", "fp16")
        for layout in LAYOUTS
    ]
    return builds.create(make_build("sm_90a", *each))


@pytest.mark.parametrize(
    ("page_size", "layout"),
    [
        *[(page_size, "paged_aligned") for page_size in (8, 16, 32, 64, 128, 256, 384, 1024)],
        *[(page_size, "paged") for page_size in (1, 2, 4, 7, 24, 48, 63, 96, 192, 320)],
    ],
)
def test_pages_that_make_up_blocks(api, build_of_each_layout, page_size, layout):
    call = paged(api, api.tensor(40, page_size, 2, 64))
    assert LAYOUTS[api.plan(call, build_of_each_layout)[1]] == layout


@pytest.mark.parametrize("which", ["q", "k_cache", "v_cache"])
def test_pages_of_tensors_that_tma_cannot_describe(api, build_of_each_layout, which):
    cache, far = (40, 64, 2, 64), 64 * 2 * 64
    for odd in ({"data": 4104}, {"strides": (far + 4, 128, 64, 1)}, {"strides": (0, 128, 64, 1)}):
        sizes = (2, 64, 2, 64) if which == "q" else cache
        tensors = {
            name: api.tensor(*sizes, **odd) if name == which else api.tensor(*cache)
            for name in ("k_cache", "v_cache")
        }
        q = api.tensor(*sizes, **odd) if which == "q" else api.tensor(2, 64, 2, 64)
        call = paged(api, tensors["k_cache"], tensors["v_cache"], q)
        assert LAYOUTS[api.plan(call, build_of_each_layout)[1]] == "paged"


def paged(api, k_cache, v_cache=None, q=None):
    table = api.tensor(2, 7, dtype=api.INT32)
    tensors = (q or api.tensor(2, 64, 2, 64), k_cache, v_cache)
    return api.forward(*tensors, kind=api.CACHE, page_table=table)


def test_a_problems_layout_is_what_the_library_finds(api, build_of_each_layout):
    found = set()
    for problem in random_problems(0, 400):
        rows = {}
        index = api.tensor(problem.batch + 1, dtype=api.INT32)
        if problem.is_packed:
            rows |= {"cu_seqlens_q": index, "max_seqlen_q": problem.max_seqlen_q}
        if problem.is_varlen:
            rows |= {"cu_seqlens_k": index, "max_seqlen_k": problem.max_seqlen_k}
        if problem.page_size:
            pages = problem.seqlen_k // problem.page_size
            rows |= {"page_table": api.tensor(problem.batch, pages, dtype=api.INT32)}
        tensors = (
            api.tensor(
                *shape,
                strides=layout.strides(shape),
                data=4096 + 2 * layout.offset,
                dtype=api.BF16 if problem.dtype == "bf16" else api.FP16,
            )
            for shape, layout in zip(
                (problem.shape_q, problem.shape_k, problem.shape_k), problem.layouts, strict=True
            )
        )
        kind = api.CACHE if problem.is_cache else api.VARLEN if problem.is_varlen else api.DENSE
        _, variant, _ = api.plan(api.forward(*tensors, kind=kind, **rows), build_of_each_layout)
        assert LAYOUTS[variant % len(LAYOUTS)] == problem.layout, problem.id
        found.add(problem.layout)
    assert found == set(LAYOUTS)


def test_more_rows_than_fit_are_refused(api, splitting):
    q, k = api.tensor(1, 2**28, 8, 64), api.tensor(1, 8, 1, 64)
    with pytest.raises(ValueError, match="268435456 rows of q x 8 heads of q for each of k"):
        api.plan(api.forward(q, k), splitting)
