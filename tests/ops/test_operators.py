"""The torch operators: registration, schemas, fake kernels, autograd, tracing; no GPU needed unless marked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fa3_matrix.errors import BuildError, NoKernelError
from fa3_matrix.ops import library, operators

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")

DENSE = (0.125, True, -1, -1, 0.0, 1)


@pytest.fixture(scope="module")
def ops():
    return operators.load()


def dense(device="meta", dtype=torch.bfloat16, **options):
    q = torch.empty(2, 130, 8, 64, device=device, dtype=dtype, **options)
    return q, q[:, :, :2], q[:, :, 2:4]


def indices(device, *values):
    return torch.tensor(values, device=device, dtype=torch.int32)


def varlen(device="meta", **options):
    q = torch.empty(300, 8, 64, device=device, dtype=torch.float16, **options)
    begins, used = indices(device, 0, 100, 290, 300), indices(device, 100, 7, 0)
    return q, q[:, :2], q[:, 2:4], begins, begins, None, used, 200, 200


def cache(device="meta", **options):
    """A packed q, a cache in pages, and what of them `kvcache_fwd` takes before the mask's arguments."""
    q = torch.empty(30, 8, 64, device=device, dtype=torch.bfloat16, **options)
    k_cache, v_cache = torch.empty(2, 9, 16, 2, 64, device=device, dtype=torch.bfloat16)
    page_table = torch.zeros(3, 4, device=device, dtype=torch.int32)
    lengths, begins = indices(device, 5, 0, 64), indices(device, 0, 10, 30, 30)
    return q, k_cache, v_cache, lengths, page_table, begins, 20, 1


def new_rows(device="meta"):
    """The arguments of `append_kv`."""
    _, k_cache, v_cache, lengths, page_table, *_ = cache(device)
    k, v = torch.zeros(2, 3, 1, 2, 64, device=device, dtype=torch.bfloat16)
    return k_cache, v_cache, k, v, lengths, page_table


def test_schemas(ops):
    assert str(ops.fwd.default._schema) == (
        "fa3::fwd(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
        "int window_right, float softcap, int num_splits) -> (Tensor, Tensor)"
    )
    assert str(ops.varlen_fwd.default._schema) == (
        "fa3::varlen_fwd(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
        "Tensor? seqused_q, Tensor? seqused_k, int max_seqlen_q, int max_seqlen_k, "
        "float softmax_scale, bool causal, int window_left, int window_right, float softcap, "
        "int num_splits) -> (Tensor, Tensor)"
    )
    assert str(ops.kvcache_fwd.default._schema) == (
        "fa3::kvcache_fwd(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? cache_seqlens, "
        "Tensor? page_table, Tensor? cu_seqlens_q, int max_seqlen_q, int new_rows, "
        "float softmax_scale, bool causal, int window_left, int window_right, float softcap, "
        "int num_splits) -> (Tensor, Tensor)"
    )
    assert str(ops.append_kv.default._schema) == (
        "fa3::append_kv(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k, Tensor v, "
        "Tensor cache_seqlens, Tensor? page_table) -> ()"
    )


def test_fake_outputs(ops):
    """Fake CUDA tensors need no GPU, as long as nothing but the operator touches them."""
    with fake_tensor.FakeTensorMode():
        strides = (65536, 64, 8192, 1)  # (batch, heads, seqlen, head_dim) in memory
        options = {"device": "cuda", "dtype": torch.bfloat16}
        q, k = (
            torch.empty_strided((2, 130, 8, 64), strides, **options),
            torch.empty(2, 9, 2, 64, **options),
        )
        out, lse = ops.fwd(q, k, k, *DENSE)
        assert (out.shape, out.dtype, out.device) == (q.shape, q.dtype, q.device)
        assert out.is_contiguous()
        assert (lse.shape, lse.dtype, lse.device) == ((2, 8, 130), torch.float32, q.device)
        q = torch.empty(300, 8, 64, **options)
        cu_seqlens = torch.empty(4, device="cuda", dtype=torch.int32)
        out, lse = ops.varlen_fwd(q, q, q, cu_seqlens, cu_seqlens, None, None, 200, 200, *DENSE)
        assert (out.shape, lse.shape) == ((300, 8, 64), (8, 300))
        out, lse = ops.kvcache_fwd(*cache("cuda"), *DENSE)
        assert (out.shape, lse.shape) == ((30, 8, 64), (8, 30))
        q = torch.empty(3, 5, 8, 64, **options)
        out, lse = ops.kvcache_fwd(q, q, q, None, None, None, 5, 0, *DENSE)
        assert (out.shape, lse.shape) == ((3, 5, 8, 64), (3, 8, 5))
        assert ops.append_kv(*new_rows("cuda")) is None


def test_fake_kernel_refuses_cpu(ops):
    with fake_tensor.FakeTensorMode(), pytest.raises(ValueError, match="q is on cpu"):
        ops.fwd(*dense("cpu"), *DENSE)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_to_one_graph(ops, dynamic):
    def step(q, k, v):
        out, lse = ops.fwd(q * 2, k, v, *DENSE)
        return out + 1, lse

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for seqlen in (130, 70):
        out, lse = compiled(*(tensor[:, :seqlen] for tensor in dense()))
        assert (out.shape, lse.shape) == ((2, seqlen, 8, 64), (2, 8, seqlen))


def test_backward_is_refused(ops):
    for outputs in (
        ops.fwd(*dense(requires_grad=True), *DENSE),
        ops.varlen_fwd(*varlen(requires_grad=True), *DENSE),
        ops.kvcache_fwd(*cache(requires_grad=True), *DENSE),
    ):
        with pytest.raises(NotImplementedError, match="fa3_matrix has no backward pass"):
            outputs[0].sum().backward()
    with torch.no_grad():
        assert not ops.fwd(*dense(requires_grad=True), *DENSE)[0].requires_grad


def test_an_append_stays_before_the_attention_that_reads_it(ops):
    """The compiler knows that append_kv writes into the caches: without that it would drop or move it."""
    seen = []

    def backend(graph, _):
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    def step(q, k_cache, v_cache, k, v, lengths, page_table, begins):
        ops.append_kv(k_cache, v_cache, k, v, lengths, page_table)
        return ops.kvcache_fwd(q, k_cache, v_cache, lengths, page_table, begins, 20, 1, *DENSE)

    q, k_cache, v_cache, lengths, page_table, begins, *_ = cache()
    _, _, k, v, *_ = new_rows()
    for make in (backend, "aot_eager"):
        compiled = torch.compile(step, backend=make, fullgraph=True)
        out, _lse = compiled(q, k_cache, v_cache, k, v, lengths, page_table, begins)
        assert out.shape == q.shape
        torch.compiler.reset()
    names = [str(target).removesuffix(".default") for target in seen]
    assert names[:2] == ["fa3.append_kv", "fa3.kvcache_fwd"]
    assert ops.append_kv.default._schema.is_mutable


OPERATORS = [
    ("fwd", dense, DENSE),
    ("varlen_fwd", varlen, DENSE),
    ("kvcache_fwd", cache, DENSE),
    ("append_kv", new_rows, ()),
]


@pytest.mark.parametrize("name,arguments,more", OPERATORS)
def test_opcheck(ops, name, arguments, more):
    """Of opcheck, what runs on meta tensors."""
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    operator = getattr(ops, name).default
    torch.library.opcheck(operator, (*arguments(), *more), test_utils=checks)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name,arguments,more", OPERATORS)
def test_opcheck_on_gpu(ops, name, arguments, more):
    inputs = [
        value.zero_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in arguments("cuda")
    ]
    torch.library.opcheck(getattr(ops, name).default, (*inputs, *more))


def test_precise_errors(ops):
    q, _, _ = dense("cpu")
    kind = operators.precise(RuntimeError("anything"), {"q": q})
    assert isinstance(kind, ValueError)
    assert isinstance(operators.precise(RuntimeError("anything"), {"q": [1]}), TypeError)
    meta = {"q": dense()[0]}
    unknown = RuntimeError("of torch's own")
    assert operators.precise(unknown, meta) is unknown
    with pytest.raises(ValueError):
        library.call("fa3_select", 10**6, 15, 64, 0, 0, 1, 1, None)
    stated = operators.precise(RuntimeError("no build has the handle 1000000"), meta)
    assert type(stated) is ValueError
    memory = operators.precise(RuntimeError("CUDA out of memory: torch could not ..."), meta)
    assert isinstance(memory, torch.OutOfMemoryError)
    assert not isinstance(memory, NoKernelError)
    assert ops is operators.load()


def run_python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(library.PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_libraries_need_neither_cuda_nor_libtorch_cuda():
    needed = {}
    for path in (library.find(), library.find().with_name(operators.FILE_NAME)):
        listed = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True)
        needed[path.name] = {
            line.split("[")[1].rstrip("]")
            for line in listed.stdout.splitlines()
            if "NEEDED" in line
        }
        assert not any("cuda" in name for name in needed[path.name])
    assert not any("torch" in name or "c10" in name for name in needed["libfa3_host.so"])
    assert {"libfa3_host.so", "libtorch_cpu.so"} <= needed["libfa3_torch.so"]


def test_host_library_loads_without_torch_or_driver():
    output = run_python(
        "import sys, fa3_matrix\n"
        "from fa3_matrix.ops import library\n"
        "print(library.load().fa3_forward_abi_version() > 0, 'torch' in sys.modules)\n"
        "print('libcuda.so' in open('/proc/self/maps').read())\n"
    )
    assert output.split() == ["True", "False", "False"]


def test_operator_library_without_torch_is_an_ordinary_error():
    path = library.find().with_name(operators.FILE_NAME)
    output = run_python(
        f"import ctypes\ntry: ctypes.CDLL({str(path)!r})\nexcept OSError as error: print(error)\n"
    )
    assert "libtorch_cpu.so" in output


def test_missing_operator_library(tmp_path, monkeypatch):
    copied = tmp_path / Path(library.FILE_NAME)
    copied.write_bytes(library.find().read_bytes())
    monkeypatch.setenv("FA3_HOST_LIBRARY", str(copied))
    with pytest.raises(BuildError, match=r"libfa3_torch\.so cannot be loaded into torch"):
        operators.load.__wrapped__()
