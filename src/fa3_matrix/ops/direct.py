"""Calls past torch's dispatcher, which costs more host time than the launch (``cpp/host/python/direct.cpp``).

Only plain eager calls take this way: what traces, transforms or records operators has to see an operator.
"""

import functools
import importlib.machinery
import importlib.util
import operator
from collections.abc import Callable
from typing import Any

from fa3_matrix.ops import library, operators

FILE_NAME = "libfa3_direct.so"

# Functions of torch._C that are true while something looks at, or changes, the operators that are called: dispatch and
# function modes, vmap and its like, torch.jit.trace, the profiler.
_WATCHERS = (
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
    "_are_functorch_transforms_active",
    "_is_tracing",
    "_autograd._profiler_enabled",
)


def watchers() -> tuple[Callable[[], Any], ...] | None:
    """What asks whether operators are watched; None of a torch that cannot be asked."""
    import torch

    try:
        return tuple(operator.attrgetter(path)(torch._C) for path in _WATCHERS)
    except AttributeError:
        return None


@functools.cache
def load() -> dict[str, Callable[..., Any]]:
    """Functions by the operators' names, or none where Python or torch lacks what they take.

    They have the operators' arguments, of which softmax_scale may be None, and return out without the lse
    (``append_kv``: True), or None of a call that an operator has to make, or to refuse. torch.compile's tracing is
    for the caller to exclude.
    """
    import torch

    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    asked = watchers()
    if table is None or asked is None:
        return {}
    path = str(library.find().with_name(FILE_NAME))
    loader = importlib.machinery.ExtensionFileLoader("fa3_direct", path)
    spec = importlib.machinery.ModuleSpec("fa3_direct", loader, origin=path)
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError:
        return {}
    loader.exec_module(module)
    empty_like = functools.partial(torch.empty_like, memory_format=torch.contiguous_format)
    if not module.bind(torch.Tensor, table, empty_like, asked, torch.is_grad_enabled):
        return {}
    return {name: getattr(module, name) for name in operators.NAMES}
