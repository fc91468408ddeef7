"""The few calls of the CUDA driver that tests of single kernels make, by ctypes; memory and context are torch's."""

import ctypes
import functools
from collections.abc import Sequence

import torch

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_BFLOAT16 = 9  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
_SWIZZLES = {64: 2, 128: 3}  # CU_TENSOR_MAP_SWIZZLE_64B, _128B


class DriverError(RuntimeError):
    """The driver refused a call; the message has its name and the error's."""


class TensorMap(ctypes.Structure):
    """``CUtensorMap``."""

    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` whose value is an int."""

    _fields_ = (("id", ctypes.c_int64), ("value", ctypes.c_int32), ("rest", ctypes.c_int32 * 15))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        *((name, ctypes.c_void_p) for name in ("stream", "attributes")),
        ("num_attributes", ctypes.c_uint),
    )


class Library:
    """A fatbin's kernels, loaded for the current device."""

    def __init__(self, image: bytes) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the primary context current on this thread
        self._library = ctypes.c_void_p()
        _call("cuLibraryLoadData", ctypes.byref(self._library), image, None, None, 0, None, None, 0)

    def launch(
        self,
        kernel: str,
        *arguments: torch.Tensor | int | TensorMap,
        threads: int,
        blocks: int = 1,
        shared_bytes: int = 0,
        early: bool = False,
    ) -> None:
        """Run one kernel on the current stream and wait for it, so that a fault is its own test's.

        A tensor goes as its address, an int as 32 bits. `early`: it may start before the kernels before it end,
        and the call returns at once.
        """
        function, kernel_handle = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuLibraryGetKernel", ctypes.byref(kernel_handle), self._library, kernel.encode())
        _call("cuKernelGetFunction", ctypes.byref(function), kernel_handle)
        _call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
        values = [_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        attribute = _Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 1)
        stream = torch.cuda.current_stream().cuda_stream
        sizes = (blocks, 1, 1, threads, 1, 1, shared_bytes)
        config = _Config(*sizes, stream, ctypes.addressof(attribute), int(early))
        _call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        if not early:
            torch.cuda.synchronize()


def tensor_map(x: torch.Tensor, box_columns: int, box_rows: int) -> TensorMap:
    """Map `x` (batch, head, row, column; 16-bit, innermost contiguous), swizzled over the box's whole row."""
    assert x.stride(-1) == 1 and x.element_size() == 2
    # The driver writes to addresses that are multiples of 64.
    memory = ctypes.create_string_buffer(ctypes.sizeof(TensorMap) + 64)
    address = -(-ctypes.addressof(memory) // 64) * 64
    _call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(address),
        _BFLOAT16,
        4,
        ctypes.c_void_p(x.data_ptr()),
        _array(ctypes.c_uint64, x.shape[::-1]),
        _array(ctypes.c_uint64, [2 * stride for stride in x.stride()[-2::-1]]),
        _array(ctypes.c_uint32, (box_columns, box_rows, 1, 1)),
        _array(ctypes.c_uint32, (1, 1, 1, 1)),
        0,  # CU_TENSOR_MAP_INTERLEAVE_NONE
        _SWIZZLES[2 * box_columns],
        0,  # CU_TENSOR_MAP_L2_PROMOTION_NONE
        0,  # CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE: zeros
    )
    return TensorMap.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(TensorMap)))


def _argument(
    value: torch.Tensor | int | TensorMap,
) -> ctypes.c_void_p | ctypes.c_int32 | TensorMap:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_int32(value) if isinstance(value, int) else value


def _array(kind: type, values: Sequence[int]) -> ctypes.Array:
    return (kind * len(values))(*values)


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: object) -> None:
    driver = _driver()
    result = getattr(driver, name)(*arguments)
    if result != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(result, ctypes.byref(text))
        raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({result})")
