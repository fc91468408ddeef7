"""The way past torch's dispatcher: when it may be taken. What it computes: tests/gpu/test_direct.py."""

import platform
import sysconfig
import warnings

import pytest

from fa3_matrix.ops import direct, library

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def calls():
    loaded = direct.load()
    assert loaded
    return loaded


@pytest.fixture(autouse=True, scope="module")
def _where_it_exists():
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("the extension module is of CPython's stable ABI")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip(f"torch {torch.__version__} has no DLPack exchange table")


def watched() -> bool:
    return any(ask() for ask in direct.watchers())


def test_plain_eager_code_may_take_it():
    assert not watched()
    with torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert not watched()


def test_what_watches_operators_sees_them():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def look(x):
        seen.append(watched())
        return x

    with Watch():
        look(None)
    with torch.device("cpu"):
        look(None)
    with torch.profiler.profile():
        look(None)
    torch.vmap(look)(torch.zeros(2, 2))
    torch.func.grad(lambda x: look(x).sum())(torch.zeros(2))
    with warnings.catch_warnings(action="ignore"):  # deprecated in newer versions of torch
        torch.jit.trace(look, torch.zeros(2), check_trace=False)
    assert seen == [True] * 6
    assert not watched()


def test_a_torch_that_cannot_be_asked(monkeypatch):
    monkeypatch.delattr(torch._C, "_is_tracing")
    assert direct.watchers() is None
    assert direct.load.__wrapped__() == {}


OPTIONS = (0.1, False, -1, -1, 0.0, 1)


def test_it_leaves_to_the_operators_what_is_not_plain(calls):
    q = torch.zeros(1, 2, 3, 8, dtype=torch.float16)

    class Subclass(torch.Tensor):
        pass

    for given in (q, q.as_subclass(Subclass), torch.nn.Parameter(q), q.to("meta"), None, "q", 3):
        assert calls["fwd"](given, q, q, *OPTIONS) is None
        assert calls["append_kv"](given, q, q, q, q, None) is None
    for name in calls:
        for arguments in ((), (q,), (q,) * 40):
            assert calls[name](*arguments) is None


@pytest.mark.parametrize("name", ["fwd", "varlen_fwd", "kvcache_fwd", "append_kv"])
def test_it_has_the_operators_functions(calls, name):
    assert callable(calls[name])


def test_without_its_library_calls_go_to_the_operators(tmp_path, monkeypatch):
    monkeypatch.setenv("FA3_HOST_LIBRARY", str(tmp_path / library.FILE_NAME))
    (tmp_path / library.FILE_NAME).touch()
    assert direct.load.__wrapped__() == {}
