"""The torch operators ``fa3::fwd`` and ``fa3::varlen_fwd``: C++ kernels, fake kernels, autograd.

Both return ``(out, softmax_lse)``. They are made in C++ (``cpp/host/torch/operators.cpp``); shapes for
torch.compile and the refusal to differentiate are stated here.
"""

import functools
from typing import Any, NoReturn

from fa3_matrix.errors import BuildError
from fa3_matrix.ops import builds, library

FILE_NAME = "libfa3_torch.so"


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
    for name, fake in (("fwd", _fake_fwd), ("varlen_fwd", _fake_varlen_fwd)):
        torch.library.register_fake(f"fa3::{name}", fake)
        torch.library.register_autograd(f"fa3::{name}", _refuse_backward)
    return torch.ops.fa3


def translated(error: RuntimeError) -> Exception:
    """The exception that an error out of an operator stands for: torch passes only RuntimeError and ValueError on."""
    stated = library.last_error()
    # Torch may append to the message; a failure of torch itself is left as it is.
    return stated if stated.args[0] and str(error).startswith(stated.args[0]) else error


def _fake_fwd(q: Any, *_: Any) -> tuple[Any, Any]:
    import torch

    batch, seqlen, heads, _head_dim = q.shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, seqlen), dtype=torch.float32)


def _fake_varlen_fwd(q: Any, *_: Any) -> tuple[Any, Any]:
    import torch

    rows, heads, _head_dim = q.shape
    return q.new_empty(q.shape), q.new_empty((heads, rows), dtype=torch.float32)


def _refuse_backward(_context: Any, *_gradients: Any) -> NoReturn:
    raise NotImplementedError(
        "fa3_matrix has no backward pass; call it under torch.no_grad(), or use another attention for training"
    )
