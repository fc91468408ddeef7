"""Every wrong argument that can be found without reading device memory, by kind and wording."""

import pytest


def qkv(api, **changed):
    tensors = {
        "q": api.tensor(2, 128, 8, 64),
        "k": api.tensor(2, 256, 2, 64),
        "v": api.tensor(2, 256, 2, 64),
    }
    return tensors | changed


def varlen(api, **changed):
    fields = {
        "q": api.tensor(300, 8, 64),
        "k": api.tensor(500, 2, 64),
        "v": api.tensor(500, 2, 64),
        "kind": api.VARLEN,
        "cu_seqlens_q": api.tensor(4, dtype=api.INT32),
        "cu_seqlens_k": api.tensor(4, dtype=api.INT32),
        "max_seqlen_q": 300,
        "max_seqlen_k": 500,
    }
    return fields | changed


def test_good_calls(api):
    api.check(api.forward(**qkv(api)))
    api.check(api.forward(**varlen(api)))
    used = {name: api.tensor(3, dtype=api.INT32) for name in ("seqused_q", "seqused_k")}
    api.check(api.forward(**varlen(api, **used)))


@pytest.mark.parametrize("batch,seqlen_q,seqlen_k", [(0, 5, 5), (2, 0, 5), (2, 5, 0), (0, 0, 0)])
def test_empty_is_good(api, batch, seqlen_q, seqlen_k):
    kv = api.tensor(batch, seqlen_k, 2, 64, data=0)
    api.check(api.forward(api.tensor(batch, seqlen_q, 8, 64, data=0), kv))


def test_strides_of_an_empty_tensor_mean_nothing(api):
    empty = api.tensor(2, 0, 2, 64, strides=(512, 256, 128, 2), data=0)
    api.check(api.forward(api.tensor(2, 5, 8, 64), empty))


DENSE = {
    "device": (
        lambda a: {"q": a.tensor(2, 128, 8, 64, device=-1)},
        ValueError,
        "q is on no CUDA device",
    ),
    "one on the CPU": (
        lambda a: {"v": a.tensor(2, 256, 2, 64, device=-1)},
        ValueError,
        "v is on no CUDA device but q is on cuda:0",
    ),
    "two GPUs": (
        lambda a: {"k": a.tensor(2, 256, 2, 64, device=1)},
        ValueError,
        "k is on cuda:1 but q is on cuda:0",
    ),
    "dtype": (
        lambda a: {"q": a.tensor(2, 128, 8, 64, dtype=a.FP32)},
        TypeError,
        "q is float32; float16 and bfloat16",
    ),
    "dtype mix": (
        lambda a: {"k": a.tensor(2, 256, 2, 64, dtype=a.FP16)},
        TypeError,
        "k is float16; bfloat16 is needed, as q",
    ),
    "rank": (
        lambda a: {"q": a.tensor(128, 8, 64)},
        ValueError,
        r"q has shape \(128, 8, 64\); 4 dimensions",
    ),
    "head_dim too large": (
        lambda a: {n: a.tensor(2, 8, 2, 264) for n in "qkv"},
        ValueError,
        "q has head_dim 264; multiples of 8 from 8 to 256",
    ),
    "head_dim odd": (
        lambda a: {n: a.tensor(2, 8, 2, 68) for n in "qkv"},
        ValueError,
        "q has head_dim 68; multiples of 8",
    ),
    "head_dim zero": (
        lambda a: {n: a.tensor(2, 8, 2, 0) for n in "qkv"},
        ValueError,
        "head_dim 0",
    ),
    "head_dims differ": (
        lambda a: {"v": a.tensor(2, 256, 2, 128)},
        ValueError,
        "q and v differ in head_dim: 64 and 128",
    ),
    "heads": (
        lambda a: {n: a.tensor(2, 256, 3, 64) for n in "kv"},
        ValueError,
        "q has 8 heads and k 3; q's must be a positive multiple",
    ),
    "no heads": (
        lambda a: {n: a.tensor(2, 256, 0, 64) for n in "kv"},
        ValueError,
        "q has 8 heads and k 0",
    ),
    "k and v heads": (
        lambda a: {"v": a.tensor(2, 256, 4, 64)},
        ValueError,
        "k and v differ in heads: 2 and 4",
    ),
    "k and v seqlen": (
        lambda a: {"v": a.tensor(2, 255, 2, 64)},
        ValueError,
        "k and v differ in seqlen: 256 and 255",
    ),
    "batch": (
        lambda a: {n: a.tensor(3, 256, 2, 64) for n in "kv"},
        ValueError,
        "q and k differ in batch: 2 and 3",
    ),
    "last stride": (
        lambda a: {"q": a.tensor(2, 128, 8, 64, strides=(65536, 512, 1, 8))},
        ValueError,
        "q has stride 8 in its last dimension",
    ),
    "rows": (
        lambda a: {n: a.tensor(2, 2**30 + 1, 2, 64) for n in "kv"},
        ValueError,
        "k has 1073741825 rows",
    ),
    "pairs": (
        lambda a: {n: a.tensor(2**30, 1, 8, 64) for n in "qkv"},
        ValueError,
        "batch 1073741824 x 8 heads exceed",
    ),
    "scale NaN": (lambda _: {"softmax_scale": float("nan")}, ValueError, "softmax_scale is nan"),
    "scale beyond float32": (lambda _: {"softmax_scale": 1e39}, ValueError, "softmax_scale is"),
    "softcap": (lambda _: {"softcap": -1.0}, ValueError, "softcap is -1"),
    "softcap beyond fp32": (
        lambda _: {"softcap": 1e6},
        ValueError,
        r"softcap is 1e\+06; it must be 0",
    ),
    "softcap NaN": (lambda _: {"softcap": float("nan")}, ValueError, "softcap is nan"),
}


@pytest.mark.parametrize("name", DENSE)
def test_wrong_dense_call(api, name):
    changed, kind, wording = DENSE[name]
    with pytest.raises(kind, match=wording):
        api.check(api.forward(**qkv(api, **changed(api))))


VARLEN = {
    "rank": (
        lambda a: {"q": a.tensor(1, 300, 8, 64)},
        ValueError,
        r"q has shape .*; 3 dimensions are needed: \(rows, heads, head_dim\)",
    ),
    "missing": (
        lambda a: {"cu_seqlens_q": type(a.tensor(1))(rank=-1)},
        ValueError,
        "cu_seqlens_q has shape None",
    ),
    "empty": (
        lambda a: {"cu_seqlens_k": a.tensor(0, dtype=a.INT32)},
        ValueError,
        r"cu_seqlens_k has shape \(0,\)",
    ),
    "lengths differ": (
        lambda a: {"cu_seqlens_k": a.tensor(5, dtype=a.INT32)},
        ValueError,
        r"cu_seqlens_k has shape \(5,\); \(4,\) is needed",
    ),
    "int64": (
        lambda a: {"cu_seqlens_k": a.tensor(4, dtype=a.INT64)},
        TypeError,
        "cu_seqlens_k is int64; int32 is needed",
    ),
    "on the CPU": (
        lambda a: {"cu_seqlens_q": a.tensor(4, dtype=a.INT32, device=-1)},
        ValueError,
        "cu_seqlens_q is on no CUDA device",
    ),
    "strided": (
        lambda a: {"cu_seqlens_q": a.tensor(4, dtype=a.INT32, strides=(2,))},
        ValueError,
        "cu_seqlens_q must be contiguous",
    ),
    "seqused": (
        lambda a: {"seqused_k": a.tensor(4, dtype=a.INT32)},
        ValueError,
        r"seqused_k has shape \(4,\); \(3,\) is needed",
    ),
    "max_seqlen": (lambda _: {"max_seqlen_k": -1}, ValueError, "max_seqlen_k is -1"),
    "rows": (
        lambda a: {"v": a.tensor(499, 2, 64)},
        ValueError,
        "k and v differ in rows: 500 and 499",
    ),
}


@pytest.mark.parametrize("name", VARLEN)
def test_wrong_varlen_call(api, name):
    changed, kind, wording = VARLEN[name]
    with pytest.raises(kind, match=wording):
        api.check(api.forward(**varlen(api, **changed(api))))


def cache(api, **changed):
    fields = {
        "q": api.tensor(2, 4, 8, 64),
        "k": api.tensor(2, 256, 2, 64),
        "kind": api.CACHE,
        "seqused_k": api.tensor(2, dtype=api.INT32),
        "new_rows": 3,
        "num_splits": 0,
    }
    return fields | changed


def paged(api, **changed):
    fields = {"k": api.tensor(40, 16, 2, 64), "page_table": api.tensor(2, 7, dtype=api.INT32)}
    return cache(api, **(fields | changed))


def test_good_cache_calls(api):
    api.check(api.forward(**cache(api)))
    api.check(api.forward(**cache(api, seqused_k=type(api.tensor(1))(rank=-1))))
    api.check(api.forward(**paged(api)))
    api.check(api.forward(**paged(api, k=api.tensor(9, 1, 2, 64))))
    packed = {"q": api.tensor(11, 8, 64), "cu_seqlens_q": api.tensor(3, dtype=api.INT32)}
    api.check(api.forward(**paged(api, **packed, max_seqlen_q=6)))
    no_pages = {
        "k": api.tensor(0, 16, 2, 64),
        "page_table": api.tensor(2, 0, dtype=api.INT32),
    }
    api.check(api.forward(**paged(api, **no_pages)))


CACHE = {
    "batch": (
        lambda a: cache(a, k=a.tensor(3, 256, 2, 64)),
        ValueError,
        "k_cache has 3 batch entries and q or k 2",
    ),
    "rank": (
        lambda a: cache(a, k=a.tensor(256, 2, 64)),
        ValueError,
        r"k_cache has shape .*: \(batch, capacity, heads, head_dim\)",
    ),
    "paged rank": (
        lambda a: paged(a, k=a.tensor(256, 2, 64)),
        ValueError,
        r"k_cache has shape .*: \(pages, page_size, heads, head_dim\)",
    ),
    "lengths": (
        lambda a: cache(a, seqused_k=a.tensor(3, dtype=a.INT32)),
        ValueError,
        r"cache_seqlens has shape \(3,\); \(2,\) is needed",
    ),
    "lengths of another type": (
        lambda a: cache(a, seqused_k=a.tensor(2, dtype=a.INT64)),
        TypeError,
        "cache_seqlens is int64; int32 is needed",
    ),
    "table's rank": (
        lambda a: paged(a, page_table=a.tensor(14, dtype=a.INT32)),
        ValueError,
        r"page_table has shape \(14,\); \(2, pages of an entry\) is needed",
    ),
    "table's batch": (
        lambda a: paged(a, page_table=a.tensor(3, 7, dtype=a.INT32)),
        ValueError,
        r"page_table has shape \(3, 7\)",
    ),
    "table's type": (
        lambda a: paged(a, page_table=a.tensor(2, 7, dtype=a.INT64)),
        TypeError,
        "page_table is int64; int32 is needed",
    ),
    "table's device": (
        lambda a: paged(a, page_table=a.tensor(2, 7, dtype=a.INT32, device=-1)),
        ValueError,
        "page_table is on no CUDA device",
    ),
    "table's stride": (
        lambda a: paged(a, page_table=a.tensor(2, 7, dtype=a.INT32, strides=(1, 2))),
        ValueError,
        "page_table must be contiguous in its last dimension",
    ),
    "empty pages": (
        lambda a: paged(a, k=a.tensor(40, 0, 2, 64)),
        ValueError,
        "k_cache has pages of 0 rows",
    ),
    "no pages": (lambda a: paged(a, k=a.tensor(0, 16, 2, 64)), ValueError, "k_cache has no pages"),
    "rows": (
        lambda a: paged(a, page_table=a.tensor(2, 2**27, dtype=a.INT32)),
        ValueError,
        "page_table gives an entry 134217728 pages of 16 rows; at most",
    ),
    "packed without cu_seqlens": (
        lambda a: cache(a, q=a.tensor(11, 8, 64)),
        ValueError,
        r"q has shape \(11, 8, 64\); 4 dimensions",
    ),
    "splits": (lambda a: cache(a, num_splits=-1), ValueError, "num_splits is -1; 0"),
    "v_cache": (
        lambda a: cache(a, v=a.tensor(2, 255, 2, 64)),
        ValueError,
        "k_cache and v_cache differ in seqlen: 256 and 255",
    ),
}


@pytest.mark.parametrize("name", CACHE)
def test_wrong_cache_call(api, name):
    fields, kind, wording = CACHE[name]
    with pytest.raises(kind, match=wording):
        api.check(api.forward(**fields(api)))
