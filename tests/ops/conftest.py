"""The host library under test, and its C structs for tests that call it without torch."""

import ctypes
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fa3_matrix.matrix import Serves
from fa3_matrix.matrix.target import Target
from fa3_matrix.ops import library
from fa3_matrix.ops.builds import Build, Variant

from ..forward_params import ParamsStruct

_SHORT, _LONG = (0, 6), (7, 16)


@pytest.fixture(scope="session", autouse=True)
def host_library() -> Path:
    """The library that FA3_HOST_LIBRARY names, else this checkout's, built if need be."""
    if "FA3_HOST_LIBRARY" not in os.environ:
        from fa3_matrix import build

        os.environ["FA3_HOST_LIBRARY"] = str(build.build_host())
    library.load()
    return library.find()


def make_variant(
    dtype: str = "bf16",
    head_dim: int = 64,
    *,
    serves: tuple[Serves, ...] | None = None,
    block_m: int = 128,
    tma_columns: int = 0,
    splits_keys: int | None = None,
    candidate: str = "",
    **one_set: Any,
) -> Variant:
    """One that serves the given sets, or else the set that the keywords of ``Serves`` make, without pages."""
    if serves is None:
        serves = (Serves(**{"layouts": ("aligned", "unaligned")} | one_set),)
    if splits_keys is None:
        paged = any({"paged", "paged_aligned"} & set(each.layouts) for each in serves)
        splits_keys = int(paged and not tma_columns)
    name = f"fa3_fwd_sm90_{dtype}_d{head_dim}_m{block_m}n64"
    return Variant(
        name=name,
        file=Path("/nowhere", f"{name}.fatbin"),
        dtype=dtype,
        head_dim=head_dim,
        block_m=block_m,
        block_n=64,
        threads=128,
        dynamic_shared_bytes=49152,
        tma_columns=tma_columns,
        splits_keys=splits_keys,
        serves=serves,
        candidate=candidate,
    )


def make_build(
    target: str = "sm_90a",
    *variants: Variant,
    cell: str = "sm90-cu133",
    forward_abi: int | None = None,
) -> Build:
    parsed = Target.parse(target)
    default = tuple(
        make_variant(dtype, head_dim, log2_seqlen_q=served, block_m=block_m)
        for dtype, head_dim, (served, block_m) in itertools.product(
            ("bf16", "fp16"), (64, 128, 256), ((_SHORT, 64), (_LONG, 128))
        )
    )
    return Build(
        path=Path("/nowhere"),
        cell=cell,
        arch="sm90",
        target=parsed,
        toolkit="13.3",
        twin_of=None,
        forward_abi=library.load().fa3_forward_abi_version()
        if forward_abi is None
        else forward_abi,
        capability_range=parsed.capability_range(),
        variants=variants or default,
    )


@pytest.fixture(name="make_variant", scope="session")
def _make_variant() -> Callable[..., Variant]:
    return make_variant


@pytest.fixture(name="make_build", scope="session")
def _make_build() -> Callable[..., Build]:
    return make_build


class TensorStruct(ctypes.Structure):
    """``Fa3Tensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
    )


class ForwardStruct(ctypes.Structure):
    """``Fa3Forward``."""

    _fields_ = (
        *((name, TensorStruct) for name in ("q", "k", "v")),
        *((f"cu_seqlens_{name}", TensorStruct) for name in "qk"),
        *((f"seqused_{name}", TensorStruct) for name in "qk"),
        ("page_table", TensorStruct),
        ("kind", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("max_seqlen_q", ctypes.c_int64),
        ("max_seqlen_k", ctypes.c_int64),
        ("window_left", ctypes.c_int64),
        ("window_right", ctypes.c_int64),
        ("new_rows", ctypes.c_int64),
        ("num_splits", ctypes.c_int64),
        ("softmax_scale", ctypes.c_double),
        ("softcap", ctypes.c_double),
        ("out", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
    )


class AppendStruct(ctypes.Structure):
    """``Fa3Append``."""

    _fields_ = tuple(
        (name, TensorStruct) for name in ("k_cache", "v_cache", "k", "v", "lengths", "page_table")
    )


FP16, BF16, FP32, INT32, INT64 = 5, 15, 6, 3, 4


def tensor(
    *sizes: int,
    strides: tuple[int, ...] | None = None,
    dtype: int = BF16,
    device: int = 0,
    data: int = 4096,
) -> TensorStruct:
    """Describe a tensor, contiguous by default; never dereferenced here."""
    if strides is None:
        steps = (max(size, 1) for size in reversed(sizes[1:]))  # as torch
        reversed_strides = itertools.accumulate(steps, lambda a, b: a * b, initial=1)
        strides = tuple(reversed_strides)[::-1]
    array = ctypes.c_int64 * max(len(sizes), 1)
    return TensorStruct(data, array(*sizes), array(*strides), len(sizes), dtype, device)


def forward(
    q: TensorStruct, k: TensorStruct, v: TensorStruct | None = None, **fields: object
) -> ForwardStruct:
    """A dense call, or with another ``kind`` and index tensors a varlen or cache one; keys are not split."""
    struct = ForwardStruct(q=q, k=k, v=v or k, window_left=-1, window_right=-1, softmax_scale=0.125)
    struct.num_splits = 1
    for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "page_table"):
        setattr(struct, name, fields.pop(name, TensorStruct(rank=-1)))
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct


def append(
    cache: TensorStruct,
    new: TensorStruct,
    lengths: TensorStruct,
    page_table: TensorStruct | None = None,
) -> AppendStruct:
    """K and V alike."""
    return AppendStruct(cache, cache, new, new, lengths, page_table or TensorStruct(rank=-1))


class Api:
    """What the C interface's tests need, under one name."""

    tensor = staticmethod(tensor)
    forward = staticmethod(forward)
    append = staticmethod(append)
    FP16, BF16, FP32, INT32, INT64 = FP16, BF16, FP32, INT32, INT64
    DENSE, VARLEN, CACHE = range(3)  # Fa3Kind
    ForwardStruct, ParamsStruct = ForwardStruct, ParamsStruct

    @staticmethod
    def check(call: ForwardStruct) -> None:
        library.call("fa3_check", ctypes.byref(call))

    @staticmethod
    def plan(
        call: ForwardStruct,
        build: int,
        sms: int = 132,
        params_type: type[ctypes.Structure] = ParamsStruct,
    ) -> tuple[ctypes.Structure, int, int]:
        """The parameters, the variant's index and the grid."""
        params, variant, tiles = params_type(), ctypes.c_int32(), ctypes.c_int64()
        library.call(
            "fa3_plan",
            ctypes.byref(call),
            build,
            sms,
            ctypes.byref(params),
            ctypes.c_int64(ctypes.sizeof(params)),
            ctypes.byref(variant),
            ctypes.byref(tiles),
        )
        return params, variant.value, tiles.value


@pytest.fixture(scope="session")
def api() -> type[Api]:
    return Api
