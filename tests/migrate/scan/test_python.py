"""Python, requirements and Cython."""

import time

import pytest

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan import python

from ..small_difference import DIFFERENCE, SAME_MAJOR, applied


def found(text: str, file: str = "a.py") -> list[Finding]:
    return list(python.find(file, text, DIFFERENCE))


def rows(text: str, file: str = "a.py") -> list[tuple[int, str, str]]:
    return sorted((f.line, f.rule, str(f.state)) for f in found(text, file))


@pytest.mark.parametrize(
    "path, head, accepted",
    [
        ("setup.py", b"", True),
        ("a.pyx", b"", True),
        ("pyproject.toml", b"", True),
        ("requirements-dev.txt", b"", True),
        ("requirements/cuda.in", b"", True),
        ("Pipfile", b"", True),
        ("conda/environment.yml", b"", True),
        ("recipe/meta.yaml", b"", True),
        ("tool", b"#!/usr/bin/env python3\n", True),
        ("notes.txt", b"", False),
        ("ci.yml", b"", False),
    ],
)
def test_which_files_are_read(path: str, head: bytes, accepted: bool) -> None:
    assert python.accepts(path, head) is accepted


@pytest.mark.parametrize(
    "line, after",
    [
        ("from cuda import cudart", "from cuda.bindings import runtime as cudart"),
        ("from cuda import cudart as rt", "from cuda.bindings import runtime as rt"),
        ("from cuda import cuda, nvrtc", "from cuda.bindings import driver as cuda, nvrtc"),
        ("from cuda import cudart, other", None),
        ("from cuda.cudart import cudaMalloc", "from cuda.bindings.runtime import cudaMalloc"),
        ("import cuda.cudart as rt", "import cuda.bindings.runtime as rt"),
        ("import cuda.cudart", None),
        ("x = importlib.import_module('cuda.cudart')", "x = importlib.import_module('cuda.bindings.runtime')"),
        ("é = 1; from cuda import cudart", "é = 1; from cuda.bindings import runtime as cudart"),
    ],
)  # fmt: skip
def test_moved_modules(line: str, after: str | None) -> None:
    findings = found(line)
    assert findings
    assert {f.rule for f in findings} == {"PY-IMPORT"}
    edits = tuple(edit for f in findings for edit in f.edits)
    assert applied(line, edits) == (after or line)
    if after:
        assert found(applied(line, edits)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from cuda.bindings import runtime",
        "from cuda import core",
        "from .cuda import cudart",
        "import torch.cuda",
        "from torch import cuda",
        "'''from cuda import cudart; nvidia-cublas-cu12 -arch=sm_70'''",
        "# libcudart.so.12\nx = 1",
        "x = sm_70",
        "flags = ['-gencode=arch=compute_80,code=sm_80']",
        "os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0;9.0'",
        "name = 'nvidia-cublas'",
        "path = 'nvidia/cudnn/lib'",
        "",
    ],
)
def test_what_is_no_break(text: str) -> None:
    assert rows(text) == []


@pytest.mark.parametrize(
    "text, states",
    [
        ("try:\n    from cuda.bindings import runtime\nexcept ImportError:\n    from cuda import cudart", "inactive"),
        ("try:\n    from cuda import cudart\nexcept ImportError:\n    from cuda.bindings import runtime", "inactive"),
        ("try:\n    from cuda import cudart\nexcept ImportError:\n    cudart = None", "latent"),
        ("try:\n    from cuda import cudart\nexcept OSError:\n    pass", "active"),
        ("if torch.version.cuda.startswith('12'):\n    from cuda import cudart", "inactive"),
        ("if int(torch.version.cuda.split('.')[0]) >= 13:\n    from cuda import cudart", "active"),
        ("if int(torch.version.cuda.split('.')[0]) < 13:\n    from cuda import cudart\n"
         "else:\n    from cuda import nvrtc",
         "inactive active"),
        ("if CUDA_VERSION < (13, 0):\n    from cuda import cudart", "inactive"),
        ("if Version(cuda_version) >= Version('13.0'):\n    from cuda import cudart", "active"),
        ("if bare_metal_version >= Version('11.8'):\n    from cuda import cudart\nelse:\n    from cuda import cuda",
         "active inactive"),
        ("if not cuda_version < '13':\n    from cuda import cudart", "active"),
        ("if sys.platform == 'win32':\n    from cuda import cudart", "latent"),
        ("if CUDA_VERSION < 13000 and X:\n    from cuda import cudart", "inactive"),
        ("if os.environ.get('TORCH_CUDA_ARCH_LIST', None) is None:\n    from cuda import cudart", "active"),
        ("if not torch.cuda.is_available():\n    from cuda import cudart", "latent"),
        ("if importlib.util.find_spec('cuda.cudart'):\n    from cuda import cudart", "latent"),
        ("if __name__ == '__main__':\n    from cuda import cudart", "active"),
        ("def f():\n    from cuda import cudart", "active"),
    ],
)  # fmt: skip
def test_conditions(text: str, states: str) -> None:
    assert [row[2] for row in rows(text)] == states.split()


def test_build_scripts() -> None:
    text = (
        "import os, ctypes\n"
        "os.environ['TORCH_CUDA_ARCH_LIST'] = '7.0;8.0'\n"
        "os.environ.setdefault('TORCH_CUDA_ARCH_LIST', 'Volta Ampere')\n"
        "args = {'nvcc': ['-O3', '-gencode', 'arch=compute_70,code=sm_70', '-gencode', 'arch=compute_80,code=sm_80']}\n"
        "cmake = f'-DCMAKE_CUDA_ARCHITECTURES=70;80'\n"
        "ctypes.CDLL('libcudart.so.12')\n"
        "lib = os.path.join(site, 'nvidia', 'cuda_runtime', 'lib')\n"
        "requires = ['nvidia-cuda-runtime-cu12', 'nvidia-nccl-cu12']\n"
    )
    assert rows(text) == [
        (2, "ARCH-REMOVED", "active"),
        (3, "ARCH-REMOVED", "active"),
        (4, "ARCH-REMOVED", "active"),
        (5, "ARCH-REMOVED", "active"),
        (6, "SONAME", "active"),
        (7, "PY-WHEEL", "active"),
        (8, "PY-WHEEL", "active"),
        (8, "PY-WHEEL", "active"),
    ]
    after = applied(text, tuple(edit for f in found(text) for edit in f.edits)).split("\n")
    assert after[1:4] == [
        "os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0'",
        "os.environ.setdefault('TORCH_CUDA_ARCH_LIST', 'Ampere')",
        "args = {'nvcc': ['-O3', '-gencode', 'arch=compute_80,code=sm_80']}",
    ]
    assert after[5] == "ctypes.CDLL('libcudart.so.13')"
    assert after[7] == "requires = ['nvidia-cuda-runtime', 'nvidia-nccl-cu13']"
    compile("\n".join(after), "after", "exec")


@pytest.mark.parametrize(
    "file, text, expected",
    [
        ("requirements.txt", "nvidia-cublas-cu12==12.4.5.8 # nvidia-x-cu12\n", [(1, "PY-WHEEL", "active")]),
        ("requirements-cu12.txt", "nvidia-cublas-cu12\n", [(1, "PY-WHEEL", "latent")]),
        ("requirements.txt", "cuda-python==12.4\ncuda-python>=12\n", [(1, "PY-WHEEL", "active")]),
        ("requirements.txt", "--extra-index-url https://example.org/whl/cu124\n", [(1, "PY-WHEEL", "active")]),
        ("pyproject.toml", '[x]\ncu12 = ["a-cu12"]\ncu13 = ["a-cu13"]\n', [(2, "PY-WHEEL", "inactive")]),
        ("setup.cfg", "install_requires =\n    cupy-cuda12x\n", [(2, "PY-WHEEL", "active")]),
        ("Pipfile", '[packages]\nnvidia-cudnn-cu12 = "*"\n', [(2, "PY-WHEEL", "active")]),
        ("environment.yml", "dependencies:\n  - cuda-version=12.4\n  - cuda-version=13.0\n", [(2, "IMAGE", "active")]),
        ("meta.yaml", "host:\n  - cuda-version 12.4\n  - numpy 12.4\n", [(2, "IMAGE", "active")]),
    ],
)  # fmt: skip
def test_requirements(file: str, text: str, expected: list[tuple[int, str, str]]) -> None:
    assert rows(text, file) == expected


def test_packages_of_the_wheels_files() -> None:
    text = "import nvidia.cublas\nfrom nvidia import cuda_runtime\nimport nvidia.cudnn\nimport nvidia\n"
    assert rows(text) == [(1, "PY-WHEEL", "active"), (2, "PY-WHEEL", "active")]


def test_a_wheel_of_an_unknown_name_is_not_guessed() -> None:
    (one,) = found("nvidia-thing-cu12\n", "requirements.txt")
    assert (one.name, one.edits) == ("nvidia-thing-cu12", ())
    (other,) = found("cudf-cu12\n", "requirements.txt")
    assert applied("cudf-cu12\n", other.edits) == "cudf-cu13\n"


def test_cython_declarations_by_arity_block_and_condition() -> None:
    text = (
        "from cuda cimport ccudart\n"
        'cdef extern from "cuda_runtime_api.h":\n'
        '    ctypedef struct cudaDeviceProp "cudaDeviceProp":\n'
        "        int clockRate\n"
        "        int other\n"
        "    ctypedef struct Mine:\n"
        "        int clockRate\n"
        "    cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t)\n"
        "    cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, cudaStream_t)\n"
        "    cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t)\n"
        "IF CUDA_VERSION < 13000:\n"
        "    cdef extern cudaError_t cudaThreadSynchronize()\n"
        "ELSE:\n"
        "    cdef extern cudaError_t cudaThreadSynchronize()\n"
        "cdef extern cudaError_t cudaThreadSynchronize() # cudaThreadSynchronize\n"
    )
    assert rows(text, "a.pxd") == [
        (1, "PY-IMPORT", "active"),
        (4, "FIELD-REMOVED", "active"),
        (8, "FN-SIG", "active"),
        (12, "FN-REMOVED", "inactive"),
        (14, "FN-REMOVED", "active"),
        (15, "FN-REMOVED", "active"),
    ]


def test_calls_in_cython_and_what_strings_say() -> None:
    text = (
        "status = cudaMemPrefetchAsync(p, n, device, s)\n"
        "status = cudaMemPrefetchAsync(p, n, loc, s)\n"
        "status = cudaMemPrefetchAsync(p, n, _Location(device), s)\n"
        "names = {1: 'cudaThreadSynchronize'}\n"
        '"""cudaThreadSynchronize\n"""\n'
    )
    assert [(f.line, f.confidence) for f in found(text, "a.pyx")] == [(1, "medium")]


def test_a_field_behind_a_dot_counts_only_where_the_struct_is_named() -> None:
    assert rows("x = p.clockRate\n", "a.pyx") == []
    assert rows("cdef cudaDeviceProp p\nx = p.clockRate\n", "a.pyx") == [
        (2, "FIELD-REMOVED", "active")
    ]


def test_what_does_not_parse_is_read_by_lines() -> None:
    text = "print 'x'\nfrom cuda import cudart\nflags = '-arch=sm_70'\n"
    assert rows(text) == [(2, "PY-IMPORT", "active"), (3, "ARCH-REMOVED", "active")]


def test_carriage_returns() -> None:
    text = "import os\r\nfrom cuda import cudart\r\n"
    (one,) = found(text)
    assert (one.line, one.column, one.construct) == (2, 1, "from cuda import cudart")
    assert (
        applied(text, one.edits) == "import os\r\nfrom cuda.bindings import runtime as cudart\r\n"
    )


def test_within_a_major_wheels_keep_their_names() -> None:
    text = "x = ['nvidia-cublas-cu12', 'nvidia/cublas/lib', 'libcudart.so.12']"
    assert list(python.find("a.py", text, SAME_MAJOR)) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 5000,
        "x = " + "1+" * 20_000 + "1",
        "x = '" + "a-" * 50_000 + "'",
        "x = '" + "nvidia." * 20_000 + "'",
        "x = '" + "a/" * 20_000 + "'",
        "if x:\n" * 3,
        "\0",
    ],
)  # fmt: skip
def test_odd_files_are_no_trouble(text: str) -> None:
    started = time.perf_counter()
    assert found(text) == []
    assert time.perf_counter() - started < 5
