"""The public functions: FlashAttention-3's surface, errors, tracing."""

import inspect
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fa3_matrix
from fa3_matrix.errors import DriverError, NoKernelError
from fa3_matrix.ops import validate

torch = pytest.importorskip("torch")

TAIL = {
    "softmax_scale": None,
    "causal": False,
    "qv": None,
    "q_descale": None,
    "k_descale": None,
    "v_descale": None,
    "window_size": (-1, -1),
    "attention_chunk": 0,
    "softcap": 0.0,
    "num_splits": 1,
    "pack_gqa": None,
    "deterministic": False,
    "sm_margin": 0,
    "return_attn_probs": False,
}
# flash_attn_with_kvcache's, after q, k_cache and v_cache.
CACHE_TAIL = {
    "k": None,
    "v": None,
    "qv": None,
    "rotary_cos": None,
    "rotary_sin": None,
    "cache_seqlens": None,
    "cache_batch_idx": None,
    "cache_leftpad": None,
    "page_table": None,
    "cu_seqlens_q": None,
    "cu_seqlens_k_new": None,
    "max_seqlen_q": None,
    "rotary_seqlens": None,
    "q_descale": None,
    "k_descale": None,
    "v_descale": None,
    "softmax_scale": None,
    "causal": False,
    "window_size": (-1, -1),
    "attention_chunk": 0,
    "softcap": 0.0,
    "rotary_interleaved": True,
    "scheduler_metadata": None,
    "num_splits": 0,
    "pack_gqa": None,
    "sm_margin": 0,
    "return_softmax_lse": False,
}
NEEDED = inspect.Parameter.empty


@pytest.fixture(scope="module", autouse=True)
def host_library():
    if "FA3_HOST_LIBRARY" not in os.environ:
        from fa3_matrix import build

        os.environ["FA3_HOST_LIBRARY"] = str(build.build_host())


@pytest.fixture
def qkv():
    q = torch.empty(2, 128, 8, 64, device="meta", dtype=torch.bfloat16)
    return q, q[:, :, :2], q[:, :, 2:4]


@pytest.fixture
def varlen():
    q = torch.empty(300, 8, 64, device="meta", dtype=torch.bfloat16)
    cu_seqlens = torch.empty(4, device="meta", dtype=torch.int32)
    return q, q, q, cu_seqlens, cu_seqlens, 200, 200


@pytest.fixture
def cache():
    """q (batch 3), and caches of 4 pages of 16 for each entry."""
    q = torch.empty(3, 5, 8, 64, device="meta", dtype=torch.bfloat16)
    pages = torch.empty(9, 16, 2, 64, device="meta", dtype=torch.bfloat16)
    return q, pages, pages.clone()


def int32(*shape):
    return torch.empty(shape, device="meta", dtype=torch.int32)


def new(rows=5):
    return torch.empty(3, rows, 2, 64, device="meta", dtype=torch.bfloat16)


def defaults(function):
    return {name: p.default for name, p in inspect.signature(function).parameters.items()}


def test_signatures_are_flash_attention_3s():
    dense = {"q": NEEDED, "k": NEEDED, "v": NEEDED} | TAIL
    assert list(defaults(fa3_matrix.flash_attn_func).items()) == list(dense.items())
    indices = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
    varlen = {"q": NEEDED, "k": NEEDED, "v": NEEDED} | dict.fromkeys(indices, NEEDED)
    varlen |= {"seqused_q": None, "seqused_k": None} | TAIL
    assert list(defaults(fa3_matrix.flash_attn_varlen_func).items()) == list(varlen.items())
    cache = {"q": NEEDED, "k_cache": NEEDED, "v_cache": NEEDED} | CACHE_TAIL
    assert list(defaults(fa3_matrix.flash_attn_with_kvcache).items()) == list(cache.items())


def test_returns(qkv, varlen):
    assert fa3_matrix.flash_attn_func(*qkv).shape == (2, 128, 8, 64)
    out, lse = fa3_matrix.flash_attn_func(*qkv, return_attn_probs=True)
    assert (out.shape, lse.shape) == ((2, 128, 8, 64), (2, 8, 128))
    out, lse = fa3_matrix.flash_attn_varlen_func(*varlen, return_attn_probs=True)
    assert (out.shape, lse.shape) == ((300, 8, 64), (8, 300))


def test_returns_of_a_cache(cache):
    q, pages, _ = cache
    call = fa3_matrix.flash_attn_with_kvcache
    assert call(*cache, cache_seqlens=int32(3), page_table=int32(3, 4)).shape == q.shape
    out, lse = call(
        *cache, new(), new(), cache_seqlens=7, page_table=int32(3, 4), return_softmax_lse=True
    )
    assert (out.shape, lse.shape) == ((3, 5, 8, 64), (3, 8, 5))
    out, lse = call(
        q[:, 0],
        pages[:3],
        pages[:3],
        cu_seqlens_q=int32(4),
        max_seqlen_q=2,
        return_softmax_lse=True,
    )
    assert (out.shape, lse.shape) == ((3, 8, 64), (8, 3))


def test_the_operators_are_given_what_the_call_states(qkv, cache, monkeypatch):
    interface = fa3_matrix.interface
    calls = []

    def recorded(name):
        def call(*arguments):
            calls.append((name, arguments))
            return "out", "lse"

        return call

    names = ("fwd", "varlen_fwd", "kvcache_fwd", "append_kv")
    monkeypatch.setattr(interface, "_operators", {name: recorded(name) for name in names})
    options = {"softmax_scale": 0.5, "causal": True, "window_size": (3, 0), "softcap": 2.0}
    tail = (0.5, True, 3, 0, 2.0)
    assert fa3_matrix.flash_attn_func(*qkv, **options, num_splits=7, pack_gqa=True) == "out"
    assert calls.pop() == ("fwd", (*qkv, *tail, 7))
    q, k, v = (tensor[0] for tensor in qkv)
    begins = int32(2)
    fa3_matrix.flash_attn_varlen_func(q, k, v, begins, begins, 9, 8, **options)
    assert calls.pop() == ("varlen_fwd", (q, k, v, begins, begins, None, None, 9, 8, *tail, 1))

    lengths, table, rows = int32(3), int32(3, 4), (new(2), new(2))
    call = fa3_matrix.flash_attn_with_kvcache
    paged = {"cache_seqlens": lengths, "page_table": table}
    assert call(*cache, *rows, **paged, **options, return_softmax_lse=True) == ("out", "lse")
    assert calls == [
        ("append_kv", (*cache[1:], *rows, lengths, table)),
        ("kvcache_fwd", (*cache, lengths, table, None, 5, 2, *tail, 0)),
    ]
    packed = (cache[0][0], *cache[1:])
    call(*packed, **paged, cu_seqlens_q=begins, max_seqlen_q=4, **options, num_splits=3)
    assert calls.pop() == ("kvcache_fwd", (*packed, lengths, table, begins, 4, 0, *tail, 3))
    for more, batch in (({}, 9), ({"page_table": table}, 3)):
        call(*cache, cache_seqlens=0, **more)
        made = calls.pop()[1][3]
        assert (made.shape, made.dtype, made.device.type) == ((batch,), torch.int32, "meta")


def test_the_rows_to_append_need_a_place(cache):
    call = fa3_matrix.flash_attn_with_kvcache
    with pytest.raises(ValueError, match="k and v are given without cache_seqlens"):
        call(*cache, new(), new())
    for rows in ((new(), None), (None, new())):
        with pytest.raises(ValueError, match="give both or neither"):
            call(*cache, *rows, cache_seqlens=3)
    with pytest.raises(ValueError, match="cu_seqlens_q is given without max_seqlen_q"):
        call(*cache, cu_seqlens_q=int32(4))


@pytest.mark.parametrize("argument", sorted(set(CACHE_TAIL) - {
    "k", "v", "cache_seqlens", "page_table", "cu_seqlens_q", "max_seqlen_q", "softmax_scale",
    "causal", "window_size", "softcap", "rotary_interleaved", "num_splits", "pack_gqa",
    "return_softmax_lse",
}))  # fmt: skip
def test_unsupported_arguments_of_a_cache_are_named(cache, argument):
    value = 8 if CACHE_TAIL[argument] == 0 else int32(3)
    with pytest.raises(NotImplementedError, match=rf"^{argument}: not supported"):
        fa3_matrix.flash_attn_with_kvcache(*cache, **{argument: value})
    options = {argument: value, "qv": 1, "attention_chunk": 5}
    with pytest.raises(NotImplementedError, match=r"qv.*, .*attention_chunk"):
        fa3_matrix.flash_attn_with_kvcache(*cache, **options)


@pytest.mark.parametrize(
    "argument,value",
    [
        ("qv", "a tensor"),
        ("q_descale", "a tensor"),
        ("k_descale", "a tensor"),
        ("v_descale", "a tensor"),
        ("attention_chunk", 128),
        ("sm_margin", 8),
    ],
)
def test_unsupported_arguments_are_named(qkv, varlen, argument, value):
    for call, arguments in (
        (fa3_matrix.flash_attn_func, qkv),
        (fa3_matrix.flash_attn_varlen_func, varlen),
    ):
        with pytest.raises(NotImplementedError, match=rf"^{argument}: not supported"):
            call(*arguments, **{argument: value})


def test_what_changes_nothing_is_accepted(qkv):
    fa3_matrix.flash_attn_func(*qkv, num_splits=0, pack_gqa=False, deterministic=True)
    fa3_matrix.flash_attn_func(*qkv, num_splits=9, pack_gqa=True)


def test_cpu_tensors():
    q = torch.zeros(1, 8, 2, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"q is on cpu; fa3_matrix computes on CUDA devices"):
        fa3_matrix.flash_attn_func(q, q, q)
    flat, cu_seqlens = q[0], torch.tensor([0, 8], dtype=torch.int32)
    with pytest.raises(ValueError, match="q is on cpu"):
        fa3_matrix.flash_attn_varlen_func(flat, flat, flat, cu_seqlens, cu_seqlens, 8, 8)
    with pytest.raises(ValueError, match="q is on cpu"):
        fa3_matrix.flash_attn_with_kvcache(q, q, q, cache_seqlens=3)


def test_not_tensors(qkv, varlen):
    q, k, v = qkv
    with pytest.raises(TypeError, match="q is a list"):
        fa3_matrix.flash_attn_func([1.0], k, v)
    with pytest.raises(TypeError, match="v is a NoneType"):
        fa3_matrix.flash_attn_func(q, k, None)
    with pytest.raises(TypeError, match="cu_seqlens_k is a list"):
        fa3_matrix.flash_attn_varlen_func(*varlen[:4], [0, 1], 1, 1)
    with pytest.raises(TypeError, match="k_cache is a NoneType"):
        fa3_matrix.flash_attn_with_kvcache(q, None, v, cache_seqlens=3)
    with pytest.raises(TypeError, match="cache_seqlens is a list"):
        fa3_matrix.flash_attn_with_kvcache(q, k, v, cache_seqlens=[3, 3])
    with pytest.raises(TypeError, match="page_table is a str"):
        fa3_matrix.flash_attn_with_kvcache(q, k, v, cache_seqlens=3, page_table="x")
    with pytest.raises(TypeError, match="v is a list"):
        fa3_matrix.flash_attn_with_kvcache(q, k, v, k, [1], cache_seqlens=3)


def test_backward(qkv):
    q, k, v = qkv
    out = fa3_matrix.flash_attn_func(q.clone().requires_grad_(), k, v)
    with pytest.raises(NotImplementedError, match="no backward pass"):
        out.sum().backward()
    assert not fa3_matrix.flash_attn_func(q, k, v).requires_grad


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_graph_breaks(qkv, varlen, dynamic):
    def step(q, k, v):
        return fa3_matrix.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    assert compiled(*qkv)[1].shape == (2, 8, 128)
    compiled = torch.compile(
        fa3_matrix.flash_attn_varlen_func, backend="aot_eager", fullgraph=True, dynamic=dynamic
    )
    assert compiled(*varlen).shape == (300, 8, 64)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lengths", ["tensor", "int"])
def test_a_cache_compiles_without_graph_breaks(cache, dynamic, lengths):
    def step(q, k_cache, v_cache, k, v, lengths, page_table):
        return fa3_matrix.flash_attn_with_kvcache(
            q * 2, k_cache, v_cache, k, v, cache_seqlens=lengths, page_table=page_table, causal=True
        )

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for length in (3, 4):
        given = int32(3) if lengths == "tensor" else length
        assert compiled(*cache, new(), new(), given, int32(3, 4)).shape == (3, 5, 8, 64)


INDICES = {"cu_seqlens": [0, 3, 3, 10], "seqused": None, "max_seqlen": 7}


@pytest.mark.parametrize(
    "changed,wording",
    [
        ({"cu_seqlens": [1, 3, 3, 10]}, r"cu_seqlens_k starts with \[1\]"),
        ({"cu_seqlens": [0, 5, 3, 10]}, "cu_seqlens_k decreases from 5 to 3 at entry 2"),
        ({"cu_seqlens": [0, 3, 3, 11]}, "cu_seqlens_k ends with 11 but k has 10 rows"),
        ({"max_seqlen": 6}, "max_seqlen_k is 6 but the longest sequence has 7 rows"),
        ({"seqused": [3, 1, 7]}, r"seqused_k\[1\] is 1; sequence 1 has 0 rows"),
        ({"seqused": [3, 0]}, "seqused_k has 2 entries"),
    ],
)
def test_validation_of_indices(changed, wording):
    def check(cu_seqlens, seqused, max_seqlen):
        good = torch.tensor(INDICES["cu_seqlens"])
        used = None if seqused is None else torch.tensor(seqused)
        rows = torch.empty(10, 1, 8)
        validate.check_indices(
            rows, rows, good, torch.tensor(cu_seqlens), None, used, 7, max_seqlen
        )

    check(**INDICES)
    with pytest.raises(ValueError, match=wording):
        check(**(INDICES | changed))


PAGES = {"cache_seqlens": [3, 8, 0], "page_table": [[4, 9], [2, 3], [9, -1]], "new_rows": 0}


@pytest.mark.parametrize(
    "changed,wording",
    [
        ({"cache_seqlens": [3, 9, 0]}, r"cache_seqlens\[1\] is 9; the capacity is 8"),
        ({"cache_seqlens": [-1, 8, 0]}, r"cache_seqlens\[0\] is -1"),
        ({"cache_seqlens": [3, 8]}, "cache_seqlens has 2 entries, the cache 3"),
        ({"new_rows": 1}, r"cache_seqlens\[1\] is 8 and 1 rows are appended; the capacity is 8"),
        ({"cache_seqlens": [3, 8, 1]}, r"page_table\[2\] names page 9; the cache has 5"),
        ({"cache_seqlens": None}, r"page_table\[0\] names page 9"),
        ({"cu_seqlens_q": [0, 2, 1, 3]}, "cu_seqlens_q decreases"),
    ],
)
def test_validation_of_a_cache(changed, wording):
    def check(cache_seqlens, page_table, new_rows, cu_seqlens_q=None):
        def tensor(values):
            return None if values is None else torch.tensor(values)

        q, k_cache = torch.empty(3, 1, 8), torch.empty(5, 4, 1, 8)
        indices = (tensor(cache_seqlens), tensor(page_table), tensor(cu_seqlens_q))
        validate.check_cache(q, k_cache, new_rows, *indices, 3)

    check(**PAGES)
    with pytest.raises(ValueError, match=wording):
        check(**(PAGES | changed))


def run_python(code):
    environment = os.environ | {"PYTHONPATH": str(Path(fa3_matrix.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    """No torch, no driver, and the public names are there."""
    run_python(
        "import sys, fa3_matrix\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'libcuda' not in open('/proc/self/maps').read()\n"
        "fa3_matrix.flash_attn_func\n"
        "assert 'libcuda' not in open('/proc/self/maps').read()\n"
        "assert fa3_matrix.__version__\n"
    )


def test_without_torch_a_call_says_what_to_install():
    output = run_python(
        "import sys; sys.modules['torch'] = None\n"
        "import fa3_matrix\n"
        "try: fa3_matrix.flash_attn_func(1, 2, 3)\n"
        "except ImportError as error: print(error)\n"
    )
    assert "install `fa3-matrix[torch]`" in output


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'flash_attn_with_kv'"):
        fa3_matrix.flash_attn_with_kv  # noqa: B018


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    if not fa3_matrix.available_builds():
        pytest.skip("needs a build: set FA3_BUILD")
    return torch.device("cuda")


@pytest.mark.gpu
class TestOnGpu:
    """What only a GPU can show; numerics are tests/gpu's."""

    def inputs(self, device, batch=2, seqlen=128, heads=4, head_dim=64):
        return torch.randn(3, batch, seqlen, heads, head_dim, device=device, dtype=torch.bfloat16)

    def reference(self, q, k, v, **options):
        q, k, v = (tensor.transpose(1, 2).float() for tensor in (q, k, v))
        attention = torch.nn.functional.scaled_dot_product_attention
        return attention(q, k, v, **options).transpose(1, 2)

    def test_matches_reference(self, cuda):
        q, k, v = self.inputs(cuda)
        out = fa3_matrix.flash_attn_func(q, k, v, causal=True)
        torch.testing.assert_close(
            out.float(), self.reference(q, k, v, is_causal=True), atol=2e-2, rtol=2e-2
        )

    def test_last_dimension_not_contiguous(self, cuda):
        q, k, v = self.inputs(cuda)
        turned = v.transpose(2, 3).contiguous().transpose(2, 3)
        assert torch.equal(
            fa3_matrix.flash_attn_func(q, k, turned), fa3_matrix.flash_attn_func(q, k, v)
        )

    def test_errors_have_their_types(self, cuda):
        q, k, v = self.inputs(cuda)
        with pytest.raises(TypeError, match="k is float16; bfloat16 is needed"):
            fa3_matrix.flash_attn_func(q, k.half(), v)
        with pytest.raises(ValueError, match="k is on cpu"):
            fa3_matrix.flash_attn_func(q, k.cpu(), v)
        with pytest.raises(ValueError, match="softmax_scale is nan"):
            fa3_matrix.flash_attn_func(q, k, v, softmax_scale=float("nan"))
        with pytest.raises(ValueError, match="q has head_dim 60"):
            fa3_matrix.flash_attn_func(q[..., :60], k[..., :60], v[..., :60])

    def test_errors_of_a_cache_have_their_types(self, cuda):
        q, k, v = self.inputs(cuda)
        call = fa3_matrix.flash_attn_with_kvcache
        with pytest.raises(ValueError, match="k is on cpu"):
            call(q, k, v, k[:, :1].cpu(), v[:, :1], cache_seqlens=3)
        with pytest.raises(TypeError, match="v_cache is float16"):
            call(q, k, v.half(), cache_seqlens=3)
        lengths = torch.zeros(2, device=cuda, dtype=torch.int64)
        with pytest.raises(TypeError, match="cache_seqlens is int64"):
            call(q, k, v, cache_seqlens=lengths)
        with pytest.raises(ValueError, match="page_table has shape"):
            call(q, k, v, cache_seqlens=3, page_table=lengths.int())
        with pytest.raises(ValueError, match="num_splits is -1"):
            call(q, k, v, cache_seqlens=3, num_splits=-1)

    def test_a_cache_grows(self, cuda):
        """Tokens one by one through the cache give what causal attention gives at once."""
        q, k, v = self.inputs(cuda, seqlen=70)
        expected = self.reference(q, k, v, is_causal=True)
        k_cache, v_cache = torch.full((2, 12, 16, 4, 64), torch.nan, device=cuda).to(k.dtype)
        pages = torch.randperm(12, device=cuda).int().view(2, 6)
        for at in range(70):
            out = fa3_matrix.flash_attn_with_kvcache(
                *(q[:, at : at + 1], k_cache, v_cache, k[:, at : at + 1], v[:, at : at + 1]),
                cache_seqlens=at,
                page_table=pages,
                causal=True,
            )
            torch.testing.assert_close(out.float(), expected[:, at : at + 1], atol=2e-2, rtol=2e-2)

    def test_no_build_for_this_gpu(self, cuda, tmp_path):
        q, k, v = self.inputs(cuda)
        build = fa3_matrix.available_builds()[0]
        manifest = json.loads((build.path / "manifest.json").read_text())
        turing = manifest | {"capability_range": [[7, 5], [7, 9]]}
        (tmp_path / "manifest.json").write_text(json.dumps(turing))
        with (
            fa3_matrix.use_build(tmp_path),
            pytest.raises(NoKernelError, match="compute capability"),
        ):
            fa3_matrix.flash_attn_func(q, k, v)

    def test_unloadable_fatbin(self, cuda, tmp_path):
        q, k, v = self.inputs(cuda)
        capability = torch.cuda.get_device_capability()
        build = next(b for b in fa3_matrix.available_builds() if b.runs_on(capability))
        (tmp_path / "manifest.json").write_text((build.path / "manifest.json").read_text())
        for variant in build.variants:
            (tmp_path / variant.file.name).write_bytes(b"not a fatbin")
        with fa3_matrix.use_build(tmp_path), pytest.raises(DriverError, match="can't load fa3_fwd"):
            fa3_matrix.flash_attn_func(q, k, v)

    def test_first_call_inside_a_graph_capture(self, cuda):
        """Loading a kernel does not break the capture, and the graph replays on new data."""
        q, k, v = self.inputs(cuda, seqlen=96, head_dim=96)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = fa3_matrix.flash_attn_func(q, k, v)
        q.copy_(torch.randn_like(q))
        graph.replay()
        assert torch.equal(out, fa3_matrix.flash_attn_func(q, k, v))

    def test_current_stream(self, cuda):
        q, k, v = self.inputs(cuda)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            q = q * 1  # written after the sleep, on this stream
            out = fa3_matrix.flash_attn_func(q, k, v)
        stream.synchronize()
        torch.testing.assert_close(out.float(), self.reference(q, k, v), atol=2e-2, rtol=2e-2)

    def test_from_a_thread_without_a_context(self, cuda):
        q, k, v = self.inputs(cuda)
        here = fa3_matrix.flash_attn_func(q, k, v)
        with ThreadPoolExecutor(1) as pool:
            there = pool.submit(fa3_matrix.flash_attn_func, q, k, v).result()
        assert torch.equal(here, there)

    @pytest.mark.usefixtures("cuda")
    def test_not_the_current_device(self):
        if torch.cuda.device_count() < 2:
            pytest.skip("needs two GPUs")
        q, k, v = self.inputs(torch.device("cuda", 1))
        assert torch.cuda.current_device() == 0
        out = fa3_matrix.flash_attn_func(q, k, v)
        assert out.device.index == 1
        torch.testing.assert_close(out.float(), self.reference(q, k, v), atol=2e-2, rtol=2e-2)

    def test_lying_indices_stay_inside(self, cuda):
        """Wrong cu_seqlens give a result, whatever it is, and the GPU stays usable."""
        q = self.inputs(cuda, batch=1, seqlen=256)[0, 0]
        for lie in ([0, 10_000, 5, -3], [-(2**31), 2**31 - 1, 0, 300], [256, 0, 256, 0]):
            cu_seqlens = torch.tensor(lie, device=cuda, dtype=torch.int32)
            fa3_matrix.flash_attn_varlen_func(q, q, q, cu_seqlens, cu_seqlens, 256, 256)
        torch.cuda.synchronize()
