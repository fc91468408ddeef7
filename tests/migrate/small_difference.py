"""A small difference of two toolkits, with a row of each kind that build files meet, and helpers around findings."""

from dataclasses import replace
from typing import Any

from fa3_matrix.migrate.difference import BrokenCall, Change, Difference, Remedy
from fa3_matrix.migrate.finding import Edit, Finding
from fa3_matrix.migrate.rules import RULES, State


def change(rule: str, name: str, kind: str, **more: Any) -> Change:
    """A row since 13.0; ``replacement``: of its remedy."""
    replacement = more.pop("replacement", None)
    values: dict[str, Any] = {"where": "", "since": "13.0", "old": None, "new": None}
    if replacement:
        values |= {"new": replacement, "remedy": Remedy("Write it anew.", replacement=replacement)}
    return Change(rule, name, kind, **(values | more))


DIFFERENCE = Difference(
    "12.4",
    "13.3",
    "2.3.2",
    "3.5.0",
    (
        *(change("ARCH-REMOVED", f"sm_{n}", "arch") for n in (50, 52, 53, 60, 61, 62, 70, 72)),
        change("ARCH-DEFAULT", "-arch", "arch", old="sm_52", new="sm_75"),
        change(
            "FLAG-CHANGED", "-r", "flag", old="--host-relocatable-link", new="--relocatable-link"
        ),
        change("FLAG-CHANGED", "--host-relocatable-link", "flag"),
        change("HOSTCC", "icc", "host-compiler"),
        change("SONAME", "libcudart.so.12", "library", replacement="libcudart.so.13"),
        change("SONAME", "CUDA::nvToolsExt", "library"),
        change("PY-WHEEL", "nvidia-cublas-cu12", "wheel", replacement="nvidia-cublas"),
        change("PY-WHEEL", "nvidia-cuda-runtime-cu12", "wheel", replacement="nvidia-cuda-runtime"),
        change("PY-WHEEL", "nvidia-nccl-cu12", "wheel", replacement="nvidia-nccl-cu13"),
        change("PY-WHEEL", "nvidia-cudnn-cu12", "wheel", replacement="nvidia-cudnn-cu13"),
        change("PY-WHEEL", "nvidia/cuda_runtime", "wheel", new="nvidia/cu13"),
        change("PY-WHEEL", "nvidia/cublas", "wheel", new="nvidia/cu13"),
        change("PY-IMPORT", "cuda.cuda", "module", replacement="cuda.bindings.driver"),
        change("PY-IMPORT", "cuda.cudart", "module", replacement="cuda.bindings.runtime"),
        change("PY-IMPORT", "cuda.nvrtc", "module", replacement="cuda.bindings.nvrtc"),
        change("PY-IMPORT", "cuda.ccudart", "module", replacement="cuda.bindings.cyruntime"),
        change("FN-REMOVED", "cudaThreadSynchronize", "function", where="cuda_runtime_api.h"),
        change("FIELD-REMOVED", "cudaDeviceProp::clockRate", "field", where="driver_types.h"),
        change(
            "FN-SIG",
            "cudaMemPrefetchAsync",
            "function",
            broken_calls=(
                BrokenCall(3, 2, "int", "struct cudaMemLocation"),
                BrokenCall(4, 2, "int", "struct cudaMemLocation", certain=False),
            ),
        ),
    ),
)
SAME_MAJOR = replace(DIFFERENCE, new="12.9", changes=())


def finding(rule: str = "FN-REMOVED", line: int = 1, **more: Any) -> Finding:
    """A finding in a.cu."""
    values: dict[str, Any] = {
        "severity": RULES[rule].severity,
        "state": State.ACTIVE,
        "confidence": "high",
        "file": "a.cu",
        "column": 1,
        "construct": "cudaThreadExit()",
        "name": "cudaThreadExit",
        "message": "It is gone.",
    }
    return Finding(rule=rule, line=line, **(values | more))


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    """``text`` after edits of different places."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    return "\n".join(lines)
