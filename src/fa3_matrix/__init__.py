"""FlashAttention-3-class attention, built, measured and shipped for a matrix of GPU architectures and CUDA toolkits.

Importing the package needs no torch, GPU or driver. The attention functions import torch when they are first named.
"""

from typing import TYPE_CHECKING, Any

from fa3_matrix.ops.builds import available_builds, use_build
from fa3_matrix.ops.explain import Decision, explain

if TYPE_CHECKING:
    from fa3_matrix.interface import (
        flash_attn_func,
        flash_attn_varlen_func,
        flash_attn_with_kvcache,
    )

    __version__: str

__all__ = [
    "Decision",
    "__version__",
    "available_builds",
    "explain",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "use_build",
]


def __getattr__(name: str) -> Any:
    if name in ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"):
        from fa3_matrix import interface

        return getattr(interface, name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("fa3-matrix")
    except metadata.PackageNotFoundError:  # a checkout on the path, not installed
        return "0+unknown"
