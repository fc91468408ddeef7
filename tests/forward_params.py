"""The kernels' parameters (cpp/attention/forward_params.h), mirrored once for the tests that fill or read them."""

import ctypes


class Strides(ctypes.Structure):
    """``fa3::Strides``."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("batch", "row", "head"))


class ParamsStruct(ctypes.Structure):
    """``fa3::ForwardParams``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "out", "lse")),
        *((f"{name}_stride", Strides) for name in ("q", "k", "v", "out")),
        *((f"lse_{name}_stride", ctypes.c_int64) for name in ("batch", "head")),
        *((f"cu_seqlens_{name}", ctypes.c_void_p) for name in "qk"),
        *((f"seqused_{name}", ctypes.c_void_p) for name in "qk"),
        ("page_table", ctypes.c_void_p),
        ("page_table_stride", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("batch", "heads_q", "heads_k")),
        *((name, ctypes.c_int32) for name in ("seqlen_q", "seqlen_k", "total_q", "total_k")),
        *((name, ctypes.c_int32) for name in ("head_dim", "page_size", "num_pages", "added_k")),
        *((name, ctypes.c_float) for name in ("softmax_scale", "softcap")),
        *((name, ctypes.c_int32) for name in ("window_left", "window_right")),
        *(
            (name, ctypes.c_int32)
            for name in ("num_m_blocks", "heads_per_section", "heads_of_first_section")
        ),
        *((name, ctypes.c_int32) for name in ("q_aligned", "kv_aligned", "ticket")),
        *((name, ctypes.c_int32) for name in ("num_splits", "slots")),
        *((f"partial_{name}", ctypes.c_void_p) for name in ("out", "lse")),
    )
