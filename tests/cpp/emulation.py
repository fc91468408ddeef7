"""Runs a variant's CUDA source on the CPU, thread by thread: see emulator/emulator.h."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from fa3_matrix import matrix
from fa3_matrix.bench.inputs import Inputs
from fa3_matrix.bench.problems import Problem
from fa3_matrix.matrix.model import Variant
from fa3_matrix.matrix.selection import table

from ..forward_params import ParamsStruct, Strides
from ..kernel_source import expand
from ..problem_classes import class_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_SHARED = {
    "sm80": "fa3::sm80::tiles",
    "sm90": "fa3::sm90::storage",
    "splitkv": "fa3::splitkv::tiles",
}


class AppendParams(ctypes.Structure):
    """``fa3::AppendParams``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("new_k", "new_v", "k", "v")),
        *((f"{name}_stride", Strides) for name in ("new_k", "new_v", "k", "v")),
        *((name, ctypes.c_void_p) for name in ("lengths", "page_table")),
        ("page_table_stride", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("batch", "rows", "heads", "head_dim")),
        *((name, ctypes.c_int32) for name in ("capacity", "page_size", "num_pages", "aligned")),
    )


class Call(ctypes.Structure):
    """``EmulatedCall`` of emulator/launch.cpp."""

    _fields_ = (
        ("params", ParamsStruct),
        ("q_sizes", ctypes.c_int64 * 4),
        ("k_sizes", ctypes.c_int64 * 4),
        ("ctas", ctypes.c_int32),
        ("seed", ctypes.c_uint32),
    )


class EmulatedBuild:
    """The variants of an arch, each compiled by the host's compiler when it is first called."""

    def __init__(self, arch: str, folder: Path) -> None:
        self._folder = folder
        self._table = table(matrix.load(), arch)
        self._libraries: dict[str, ctypes.CDLL] = {}
        sources = folder / "cpp"
        shutil.copytree(ROOT / "cpp", sources)
        for file in sources.rglob("*.cuh"):
            file.write_text(file.read_text().replace("extern __shared__", "extern"))

    def variant(self, problem: Problem) -> Variant:
        """The variant that serves `problem`."""
        return self._table[class_of(self._table, problem)]

    def library(self, variant: Variant) -> ctypes.CDLL:
        if variant.name not in self._libraries:
            self._libraries[variant.name] = self._compile(variant)
        return self._libraries[variant.name]

    def _compile(self, variant: Variant) -> ctypes.CDLL:
        compiler = shutil.which("g++")
        if compiler is None:
            raise RuntimeError("no g++ on this machine")
        template = (ROOT / "cpp" / variant.kernel / "forward.cu.in").read_text()
        source = self._folder / f"{variant.name}.cu"
        source.write_text(expand(template, variant))
        library = source.with_suffix(".so")
        defines = {
            "FA3_SOURCE": f'"{source}"',
            "FA3_KERNEL": variant.name,
            "FA3_INFO": f"{variant.name}_info",
            "FA3_COMBINE": f"{variant.name}_combine",
            "FA3_APPEND": f"{variant.name}_append",
            "FA3_SHARED": _SHARED[variant.kernel],
            "FA3_BY_TMA": str(int(variant.kernel == "sm90")),
            "FA3_SPLITS": str(int(variant.splits_keys)),
        }
        flags = ["-std=c++17", "-O2", "-w", "-shared", "-fPIC"]
        includes = [f"-I{HERE / 'emulator'}", f"-I{self._folder / 'cpp'}"]
        subprocess.run(
            [
                compiler,
                *flags,
                *includes,
                *(f"-D{name}={value}" for name, value in defines.items()),
                str(HERE / "emulator" / "launch.cpp"),
                "-o",
                str(library),
            ],
            check=True,
        )
        return ctypes.CDLL(str(library))

    def __call__(
        self, problem: Problem, inputs: Inputs, *, wants_lse: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(out, lse) of the variant that serves `problem`; unwanted, the lse is NaN.

        Raises RuntimeError if the kernel hangs or leaves its memory.
        """
        variant = self.variant(problem)
        if inputs.k_new is not None:
            self._append(problem, inputs)
        q, k, v = inputs.q, inputs.k, inputs.v
        packed, keys_packed = inputs.cu_seqlens_q is not None, inputs.cu_seqlens_k is not None
        paged = inputs.page_table is not None
        batch = problem.batch
        heads_q, heads_k = problem.heads_q, problem.heads_k
        rows_q = q.shape[-3]
        out = torch.full(q.shape, torch.nan, dtype=q.dtype)
        lse_shape = (heads_q, rows_q) if packed else (batch, heads_q, rows_q)
        lse = torch.full(lse_shape, torch.nan)
        group = heads_q // heads_k if variant.splits_keys else 1
        seqlen_q = min(problem.max_seqlen_q, rows_q) if packed else rows_q
        capacity = k.shape[-3] * (
            inputs.page_table.shape[1] if inputs.page_table is not None else 1
        )
        p = ParamsStruct()
        p.q, p.k, p.v, p.out = (t.data_ptr() for t in (q, k, v, out))
        p.lse = lse.data_ptr() if wants_lse else None
        p.q_stride, p.k_stride, p.v_stride, p.out_stride = map(_strides, (q, k, v, out))
        p.lse_batch_stride, p.lse_head_stride = (0 if packed else heads_q * rows_q), rows_q
        p.cu_seqlens_q, p.cu_seqlens_k = (
            _pointer(inputs.cu_seqlens_q),
            _pointer(inputs.cu_seqlens_k),
        )
        p.seqused_q, p.seqused_k = _pointer(inputs.seqused_q), _pointer(inputs.seqused_k)
        if problem.is_cache:
            p.seqused_k = _pointer(inputs.cache_seqlens)
            p.added_k = problem.new_rows
        p.page_table = _pointer(inputs.page_table)
        p.page_table_stride = inputs.page_table.stride(0) if inputs.page_table is not None else 0
        p.batch, p.heads_q, p.heads_k, p.head_dim = batch, heads_q, heads_k, problem.head_dim
        p.seqlen_q = seqlen_q
        p.seqlen_k = min(problem.max_seqlen_k, capacity) if keys_packed else capacity
        p.total_q, p.total_k = rows_q, capacity
        p.page_size, p.num_pages = (k.shape[1], k.shape[0]) if paged else (1, 0)
        p.softmax_scale, p.softcap = problem.softmax_scale, problem.softcap
        p.window_left, p.window_right = problem.effective_window
        p.num_m_blocks = max(-(-seqlen_q * group // variant.block_m), 1)
        p.heads_per_section = min(3 * (heads_q // heads_k), heads_q * batch)
        p.heads_of_first_section = (heads_q * batch - 1) % p.heads_per_section + 1
        p.q_aligned = _aligned(q)
        p.kv_aligned = _aligned(k) and _aligned(v)
        p.ticket = 5 if problem.seed % 2 else -1
        p.num_splits = (problem.num_splits or 3) if variant.splits_keys else 1
        # As where lengths differ, among more CTAs than there are tiles or fewer.
        p.slots = problem.seed % 3 * 7 if p.num_splits > 1 else 0
        rows = p.num_splits * lse.numel()
        partial = torch.full((rows, problem.head_dim + 1), torch.nan)
        p.partial_out = partial.data_ptr()
        p.partial_lse = partial.data_ptr() + 4 * rows * problem.head_dim
        call = Call(params=p, ctas=3, seed=problem.seed % 2**32)
        call.q_sizes[:], call.k_sizes[:] = _map_sizes(q), _map_sizes(k)
        self._run(variant, "emulate", call)
        return out, lse

    def _append(self, problem: Problem, inputs: Inputs) -> None:
        """As ``flash_attn_with_kvcache`` does before it computes."""
        new_k, new_v, k, v = inputs.k_new, inputs.v_new, inputs.k, inputs.v
        table = inputs.page_table
        p = AppendParams()
        p.new_k, p.new_v, p.k, p.v = (t.data_ptr() for t in (new_k, new_v, k, v))
        p.new_k_stride, p.new_v_stride = _strides(new_k), _strides(new_v)
        p.k_stride, p.v_stride = _strides(k), _strides(v)
        p.lengths, p.page_table = _pointer(inputs.cache_seqlens), _pointer(table)
        p.page_table_stride = 0 if table is None else table.stride(0)
        p.batch, p.rows, p.heads, p.head_dim = new_k.shape
        p.page_size, p.num_pages = k.shape[1], k.shape[0]
        p.capacity = k.shape[1] * (1 if table is None else table.shape[1])
        p.aligned = all(map(_aligned, (new_k, new_v, k, v)))
        unmasked: dict[str, Any] = {"group": 1, "causal": False, "window": (-1, -1)}
        one_query: dict[str, Any] = {"seqlen_q": 1, "seqlen_k": p.capacity, "layout": "paged"}
        variant = self._table[class_of(self._table, problem, **one_query, **unmasked)]
        self._run(variant, "emulate_append", p)

    def _run(self, variant: Variant, function: str, argument: ctypes.Structure) -> None:
        message = ctypes.create_string_buffer(4096)
        emulate = getattr(self.library(variant), function)
        if emulate(ctypes.byref(argument), message, len(message)):
            raise RuntimeError(f"{variant.name}: {message.value.decode()}")


def _strides(tensor: torch.Tensor) -> Strides:
    steps = [
        0 if size <= 1 else step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    return Strides(steps[0] if tensor.dim() == 4 else 0, steps[-3], steps[-2])


def _map_sizes(tensor: torch.Tensor) -> tuple[int, int, int, int]:
    return (
        tensor.shape[-1],
        tensor.shape[-3],
        tensor.shape[-2],
        (tensor.shape[0] if tensor.dim() == 4 else 1),
    )


def _aligned(tensor: torch.Tensor) -> bool:
    s = _strides(tensor)
    return tensor.data_ptr() % 16 == 0 and all(step % 8 == 0 for step in (s.batch, s.row, s.head))


def _pointer(tensor: Any) -> int | None:
    return None if tensor is None else tensor.data_ptr()
