"""The host library's C interface (``cpp/host/c_api.h``) through ctypes."""

import ctypes
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fa3_matrix.errors import BuildError, DriverError, Fa3Error, NoKernelError

FILE_NAME = "libfa3_host.so"
PACKAGE = Path(__file__).resolve().parents[1]

# torch ScalarType numbers, fixed by torch's stable ABI.
DTYPE_NUMBERS = {"fp16": 5, "bf16": 15}
MASK_NUMBERS = {"full": 0, "causal": 1, "local": 2}
LAYOUT_NUMBERS = {"aligned": 0, "unaligned": 1, "paged": 2, "paged_aligned": 3}

# Fa3Status of c_api.h.
_ERRORS: dict[int, type[Exception]] = {
    1: ValueError,
    2: TypeError,
    3: DriverError,
    4: NoKernelError,
    5: BuildError,
    6: Fa3Error,
}


class VariantStruct(ctypes.Structure):
    """``Fa3Variant``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("fatbin", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("block_m", ctypes.c_int32),
        ("block_n", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("dynamic_shared_bytes", ctypes.c_int32),
        ("tma_columns", ctypes.c_int32),
        ("splits_keys", ctypes.c_int32),
    )


class ServesStruct(ctypes.Structure):
    """``Fa3Serves``."""

    _fields_ = (
        ("log2_seqlen_q", ctypes.c_int32 * 2),
        ("log2_seqlen_k", ctypes.c_int32 * 2),
        ("masks", ctypes.c_int32),
        ("layouts", ctypes.c_int32),
    )


def checkout() -> Path | None:
    """The source tree that this package runs from, or None when it is installed from a wheel."""
    root = PACKAGE.parents[1]
    return root if (root / "cpp" / "host").is_dir() else None


def candidates() -> Iterator[Path]:
    """Where the host library is looked for, in order: FA3_HOST_LIBRARY alone, else the wheel's, else a checkout's."""
    stated = os.environ.get("FA3_HOST_LIBRARY")
    if stated:
        yield Path(stated)
        return
    yield PACKAGE / "lib" / FILE_NAME
    root = checkout()
    if root:
        yield root / "build" / "host" / FILE_NAME


def find() -> Path:
    """The path of the host library.

    Raises:
        BuildError: it is nowhere.
    """
    tried = [path.absolute() for path in candidates()]
    for path in tried:
        if path.is_file():
            return path
    raise BuildError(
        f"the host library was not found ({', '.join(map(str, tried))}): install a fa3-matrix wheel of a "
        "cell (its version label names toolkit and GPU), build it with `cmake --preset host && cmake --build "
        "--preset host`, or set FA3_HOST_LIBRARY"
    )


@functools.cache
def load() -> ctypes.CDLL:
    """The host library, loaded once. Needs neither torch nor a driver.

    Raises:
        BuildError: it is missing or cannot be loaded.
    """
    path = find()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the host library {path} cannot be loaded: {error}") from error
    library.fa3_last_error.restype = ctypes.c_char_p
    i32, i64, p32 = ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32)
    library.fa3_build_create.argtypes = (ctypes.c_char_p, i32, i32, i32, i32)
    library.fa3_build_add_variant.argtypes = (i32, ctypes.POINTER(VariantStruct))
    library.fa3_build_add_serves.argtypes = (i32, i32, ctypes.POINTER(ServesStruct))
    library.fa3_build_finish.argtypes = (i32,)
    library.fa3_select.argtypes = (i32, i32, i32, i32, i32, i64, i64, p32)
    library.fa3_activate.argtypes = (p32, i32)
    library.fa3_decide.argtypes = (i32, i32, i32, i32, i32, i64, i64, p32, p32)
    library.fa3_choose_splits.argtypes = (i64, i64, i64, i64, i64)
    library.fa3_driver_version.argtypes = (p32,)
    library.fa3_device_capability.argtypes = (i32, p32)
    return library


def last_error() -> Exception:
    """The exception that the calling thread's last failure stands for."""
    library = load()
    kind = _ERRORS.get(library.fa3_last_status(), Fa3Error)
    return kind(library.fa3_last_error().decode())


def call(function: str, *arguments: Any) -> int:
    """Call a function that returns a status, or a negative value on failure; return what it returned.

    Raises:
        ValueError, TypeError, Fa3Error: as the library says.
    """
    result = int(getattr(load(), function)(*arguments))
    failed = result < 0 if function in ("fa3_build_create", "fa3_build_add_variant") else result
    if failed:
        raise last_error()
    return result


def read_int(function: str, *arguments: Any) -> int:
    """Call a function whose last parameter receives an int32; return that."""
    value = ctypes.c_int32()
    call(function, *arguments, ctypes.byref(value))
    return value.value


def driver_version() -> tuple[int, int]:
    """The newest CUDA version that the driver supports.

    Raises:
        DriverError: there is no driver or no device.
    """
    version = read_int("fa3_driver_version")
    return version // 1000, version % 1000 // 10


def device_capability(device: int = 0) -> tuple[int, int]:
    """The compute capability of a CUDA device, by torch's ordinal.

    Raises:
        DriverError: there is no driver or no such device.
    """
    major, minor = divmod(read_int("fa3_device_capability", device), 10)
    return major, minor
