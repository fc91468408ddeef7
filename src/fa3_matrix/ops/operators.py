"""The torch operators of ``fa3::``: C++ kernels, fake kernels, autograd.

``fwd``, ``varlen_fwd`` and ``kvcache_fwd`` return ``(out, softmax_lse)``; ``append_kv`` writes new rows into a cache.
They are made in C++ (``cpp/host/torch/operators.cpp``); shapes for torch.compile and the refusal to differentiate
are stated here.
"""

import functools
from collections.abc import Mapping
from typing import Any, NoReturn

from fa3_matrix.errors import BuildError
from fa3_matrix.ops import builds, library

FILE_NAME = "libfa3_torch.so"
NAMES = ("fwd", "varlen_fwd", "kvcache_fwd", "append_kv")


@functools.cache
def load() -> Any:
    """Register the operators with torch, once, and return ``torch.ops.fa3``. Touches no CUDA.

    Raises:
        ImportError: torch is not installed.
        BuildError: a library or build folder is missing or malformed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "fa3_matrix computes attention through torch >= 2.10, which is not installed; "
            "install `fa3-matrix[torch]`, or torch for your CUDA version"
        ) from error
    library.load()
    path = library.find().with_name(FILE_NAME)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise BuildError(
            f"the torch operators {path} cannot be loaded into torch {torch.__version__} "
            f"(2.10 or newer is needed): {error}"
        ) from error
    builds.activate()
    for name, fake in zip(NAMES, (_fake_fwd, _fake_fwd, _fake_fwd, _fake_append_kv), strict=True):
        torch.library.register_fake(f"fa3::{name}", fake)
        # Torch takes no formula for an operator that writes into its arguments; attention refuses for both.
        if name != "append_kv":
            torch.library.register_autograd(f"fa3::{name}", _refuse_backward)
    return torch.ops.fa3


def precise(error: Exception, tensors: Mapping[str, Any]) -> Exception:
    """What a failed call's error stands for; the error itself when there is nothing to add.

    Torch lets only RuntimeError and ValueError through from an operator, and refuses CPU tensors and non-tensors
    in its own words before the operator is reached.
    """
    import torch

    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            return TypeError(f"{name} is a {type(tensor).__name__}; a torch.Tensor is needed")
        if not tensor.is_cuda and not tensor.is_meta:
            return _wrong_device(name, tensor)
    if not isinstance(error, RuntimeError):
        return error
    message = str(error)
    if message.startswith("CUDA out of memory") and not isinstance(error, torch.OutOfMemoryError):
        out_of_memory: Exception = torch.OutOfMemoryError(message)
        return out_of_memory
    stated = library.last_error()
    # What was stated may be of an earlier call; a failure of torch itself is left as it is.
    return stated if stated.args[0] and message.startswith(stated.args[0]) else error


def _wrong_device(name: str, tensor: Any) -> ValueError:
    return ValueError(
        f"{name} is on {tensor.device}; fa3_matrix computes on CUDA devices, move it with .cuda()"
    )


def _fake_fwd(q: Any, *_: Any) -> tuple[Any, Any]:
    import torch

    if q.device.type not in ("cuda", "meta"):
        raise _wrong_device("q", q)
    # (batch, seqlen_q, heads_q, head_dim), or packed (total_q, heads_q, head_dim).
    *batch, rows, heads, _head_dim = q.shape
    return q.new_empty(q.shape), q.new_empty((*batch, heads, rows), dtype=torch.float32)


def _fake_append_kv(*_: Any) -> None:
    """Nothing is returned, and no fake tensor has values to change."""


def _refuse_backward(_context: Any, *_gradients: Any) -> NoReturn:
    raise NotImplementedError(
        "fa3_matrix has no backward pass; call it under torch.no_grad(), or use another attention for training"
    )
