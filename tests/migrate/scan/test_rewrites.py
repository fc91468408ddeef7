"""What `--fix` makes of calls and fields that changed: scanned again it is clean, and both compilers take it."""

import subprocess
from pathlib import Path

import pytest

from fa3_matrix import toolkits
from fa3_matrix.migrate import fix
from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.prove import compile_unit, guessed
from fa3_matrix.migrate.rules import Severity, State
from fa3_matrix.migrate.scan import scan
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.migrate.store import load_difference

UNIT = """\
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>

#define CHECK(call) report((call), #call)
template <class Error>
void report(Error error, const char* call) { std::printf("%s: %d\\n", call, static_cast<int>(error)); }

void memory(float* data, size_t bytes, int device, cudaStream_t stream) {
  CHECK(cudaMemAdvise(data, bytes, cudaMemAdviseSetReadMostly, device));
  CHECK(cudaMemPrefetchAsync(data, bytes, cudaCpuDeviceId));
  CHECK(cudaMemPrefetchAsync(data, bytes, device + 0, stream));
}

void driver(CUdeviceptr data, size_t bytes, CUdevice device, CUstream stream) {
  CUcontext context;
  CHECK(cuCtxCreate(&context, 0, device));
  CHECK(cuMemPrefetchAsync(data, bytes, device, stream));
}

void graphs(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphNodeParams* params) {
  size_t edges = 0;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, nullptr, 0, params));
  CHECK(cudaGraphAddDependencies(graph, from, to, 1));
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
}

void properties(const cudaDeviceProp* other) {
  cudaDeviceProp own;
  cudaGetDeviceProperties(&own, 0);
  std::printf("%d kHz, %d kHz, mode %d\\n", own.clockRate, other->memoryClockRate, own.computeMode);
  std::printf("%s\\n", own.deviceOverlap ? "copies beside kernels" : "one thing at a time");
  std::printf("%d\\n", own.cooperativeMultiDeviceLaunch);
}
"""


def breaks(folder: Path) -> list[Finding]:
    found = scan(folder, load_difference("12.4", "13.3")).findings
    return [f for f in found if f.severity is Severity.BREAK and f.state is State.ACTIVE]


def fixed(folder: Path, text: str, name: str = "unit.cu") -> str:
    """`text` after the patch, with its line ends."""
    (folder / name).write_bytes(text.encode())
    made = fix.patch(folder, breaks(folder))
    assert made.left == ()
    if made.text:
        subprocess.run(["git", "apply", "-"], cwd=folder, input=made.text, check=True)
    return (folder / name).read_bytes().decode()


def test_what_is_mended_is_clean_when_scanned_again(tmp_path: Path) -> None:
    after = fixed(tmp_path, UNIT)
    assert breaks(tmp_path) == []
    for line in (
        "  CHECK(cudaMemAdvise(data, bytes, cudaMemAdviseSetReadMostly, CUDA_LOCATION(device)));",
        "  CHECK(cudaMemPrefetchAsync(data, bytes, CUDA_PREFETCH_TO(device + 0), stream));",
        "  CHECK(cuCtxCreate(&context, CU_NO_CTX_PARAMS 0, device));",
        "  CHECK(cudaGraphAddNode(&node, graph, nullptr, CUDA_NO_EDGE_DATA 0, params));",
        "  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, CUDA_NO_EDGE_DATA &edges));",
    ):
        assert line in after.splitlines()
    assert "CUDA_PROPERTY(*other, memoryClockRate, cudaDevAttrMemoryClockRate)" in after
    assert "((own).asyncEngineCount > 0) ?" in after
    # Each is defined once, below the includes.
    assert after.count("#define CUDA_NO_EDGE_DATA NULL,") == 1
    assert after.index("#include <cuda_runtime.h>") < after.index("#ifndef CUDA_LOCATION")


@pytest.mark.parametrize(
    "line",
    [
        "void set(cudaDeviceProp& p) { p.clockRate = 1; }",  # written: there is nothing to write to
        "int* where(cudaDeviceProp& p) { return &p.clockRate; }",
        "int width(cudaDeviceProp& p) { return p.maxTexture1DLinear; }",  # depends on a format
        "auto prefetch = static_cast<cudaError_t (*)(const void*, size_t, int, cudaStream_t)>(cudaMemPrefetchAsync);",
    ],
)
def test_what_is_not_mechanical_stays(tmp_path: Path, line: str) -> None:
    text = f"#include <cuda_runtime.h>\n{line}\n"
    assert fixed(tmp_path, text) == text
    assert breaks(tmp_path)


OBJECTS = """\
#include <cub/cub.cuh>
#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>

using Longest = cub::Max;

cudaError_t add(void* room, size_t& bytes, const int* in, int* out, int n) {
  return cub::DeviceReduce::Reduce(room, bytes, in, out, n, cub::Sum(), 0);
}

void select(const int* from, const bool* flags, int* to, int n) {
  thrust::copy_if(thrust::device, from, from + n, flags, to, thrust::identity<bool>());
}
"""


def test_function_objects_become_those_of_both(tmp_path: Path) -> None:
    after = fixed(tmp_path, OBJECTS)
    assert "using Longest = thrust::maximum<>;" in after
    assert "n, cuda::std::plus<>(), 0)" in after
    assert "to, cuda::std::identity());" in after
    assert after.count("#include <cuda/std/functional>\n") == 1
    assert breaks(tmp_path) == []


def test_line_ends_of_windows_are_kept(tmp_path: Path) -> None:
    text = "#include <cuda.h>\nvoid f(CUcontext* c, CUdevice d) { cuCtxCreate(c, 0, d); }\n"
    after = fixed(tmp_path, text.replace("\n", "\r\n"))
    assert "\n" not in after.replace("\r\n", "")
    assert "cuCtxCreate(c, CU_NO_CTX_PARAMS 0, d)" in after


def test_c_takes_what_needs_no_cpp(tmp_path: Path) -> None:
    text = (
        "#include <cuda.h>\n#include <cuda_runtime_api.h>\n"
        "void f(CUcontext* c, CUdevice d) { cuCtxCreate(c, 0, d); }\n"
        "void g(void* p, int d) { cudaMemPrefetchAsync(p, 1, d, 0); }\n"
    )
    after = fixed(tmp_path, text, "unit.c")
    assert "cuCtxCreate(c, CU_NO_CTX_PARAMS 0, d)" in after
    assert "cudaMemPrefetchAsync(p, 1, d, 0)" in after


@pytest.mark.toolkit
@pytest.mark.parametrize("text", [UNIT, OBJECTS], ids=["calls and fields", "function objects"])
def test_both_compilers_take_what_is_mended(tmp_path: Path, text: str) -> None:
    old, new = toolkits.find("12.4"), toolkits.find("13.3")

    def taken(toolkit: toolkits.ToolkitRoot) -> bool:
        unit = guessed("unit.cu", Tree(tmp_path, frozenset(["unit.cu"])), toolkit)
        return compile_unit(unit, tmp_path, toolkit).succeeded

    (tmp_path / "unit.cu").write_text(text)
    assert (taken(old), taken(new)) == (True, False)
    fixed(tmp_path, text)
    assert (taken(old), taken(new)) == (True, True)
