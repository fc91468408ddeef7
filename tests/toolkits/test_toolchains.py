"""The real toolkits, from the developer's own cache: found, probed, and they compile."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fa3_matrix.errors import ToolkitError
from fa3_matrix.toolkits import (
    ToolkitRoot,
    clean_environment,
    find,
    host_compiler,
    inspection,
    report,
    text,
    torch_headers,
)
from fa3_matrix.toolkits.__main__ import main

pytestmark = pytest.mark.toolkit

KERNEL = """\
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda/std/utility>
extern "C" __global__ void kernel(std::uint32_t* a, const __nv_bfloat16* b, const __half* c) {
  a[threadIdx.x] = __float2uint_rn(__bfloat162float(b[threadIdx.x])) + __half2int_rn(c[0]);
}
"""

# Every header of the interface that an operator library may include; the closure must be complete.
OPERATORS = """\
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
using torch::stable::Tensor;
static Tensor copy(Tensor x) { return torch::stable::empty_like(x); }
STABLE_TORCH_LIBRARY(test_toolkits, m) { m.def("copy(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(test_toolkits, CUDA, m) { m.impl("copy", TORCH_BOX(&copy)); }
"""


@pytest.fixture(scope="module", params=["12.4", "13.3"])
def toolkit(request: pytest.FixtureRequest) -> ToolkitRoot:
    return find(request.param)


@pytest.mark.parametrize(
    "version, gencode",
    [
        ("12.4", "arch=compute_80,code=sm_80"),
        ("12.4", "arch=compute_90a,code=sm_90a"),
        ("12.4", "arch=compute_90,code=compute_90"),
        ("13.3", "arch=compute_80,code=sm_80"),
        ("13.3", "arch=compute_90a,code=sm_90a"),
        ("13.3", "arch=compute_100f,code=sm_100f"),
    ],
)
def test_compiles_a_fatbin(version: str, gencode: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(KERNEL)
    fatbin = tmp_path / "kernel.fatbin"
    toolkit = find(version)
    command = [toolkit.nvcc, "--fatbin", "-std=c++17", "-ccbin", host_compiler(toolkit)]
    command += ["-gencode", gencode, "-o", fatbin, source]
    subprocess.run(command, check=True, env=clean_environment())
    listing = "-lptx" if "code=compute" in gencode else "-lelf"
    listed = subprocess.run(
        [inspection().cuobjdump, listing, fatbin], check=True, capture_output=True, text=True
    ).stdout
    # cuobjdump lists the family target sm_100f without its suffix.
    assert listed.count(f".{gencode.split('=')[-1].replace('compute', 'sm').rstrip('f')}.") == 1


def test_passes_cmakes_compiler_check(toolkit: ToolkitRoot, tmp_path: Path) -> None:
    """With no extra flag, and with CMake's own link of the run-time library."""
    (tmp_path / "kernel.cu").write_text(KERNEL)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 4.1)\nproject(check LANGUAGES CUDA)\n"
        "add_library(fatbin OBJECT kernel.cu)\n"
        "set_target_properties(fatbin PROPERTIES CUDA_FATBIN_COMPILATION ON "
        "CUDA_ARCHITECTURES 90a-real)\n"
    )
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are not on PATH")
    configure = ["cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build"]
    configure += [f"-DCMAKE_CUDA_COMPILER={toolkit.nvcc}"]
    configure += [f"-DCMAKE_CUDA_HOST_COMPILER={host_compiler(toolkit)}"]
    said = subprocess.run(
        configure, check=True, capture_output=True, text=True, env=clean_environment()
    ).stdout
    assert f"CUDA compiler identification is NVIDIA {toolkit.probe().release}" in said
    assert "Detecting CUDA compiler ABI info - done" in said
    subprocess.run(["cmake", "--build", tmp_path / "build"], check=True, env=clean_environment())
    assert list(tmp_path.rglob("*.fatbin"))


def test_probe_of_12_4() -> None:
    probe = find("12.4").probe()
    assert probe.release.startswith("12.4.")
    assert {"sm_80", "sm_90"} <= probe.codes
    assert "sm_90a" in probe.targets
    assert not any("100" in target for target in probe.targets)
    assert probe.ptx_isa == (8, 4)
    assert (probe.gcc_max, probe.clang_max) == (13, 17)
    assert not probe.compress_mode
    assert "--warn-on-spills" in probe.ptxas_options


def test_probe_of_13_3() -> None:
    probe = find("13.3").probe()
    assert probe.release.startswith("13.3.")
    assert {"sm_80", "sm_90", "sm_100"} <= probe.codes
    assert {"sm_90a", "sm_100a", "sm_100f", "compute_100f"} <= probe.targets
    assert probe.ptx_isa == (9, 3)
    assert (probe.gcc_max, probe.clang_max) == (15, 21)
    assert probe.compress_mode


def test_installed_files_are_the_pinned_ones(toolkit: ToolkitRoot) -> None:
    assert toolkit.damaged() == []


def test_environment_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    root = find("13.3").root
    monkeypatch.setenv("FA3_CUDA_13_3_ROOT", str(root))
    chosen = find("13.3")
    assert (chosen.root, chosen.source) == (root, "environment")
    assert chosen.damaged() == []


def test_environment_variable_with_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FA3_CUDA_12_4_ROOT", str(find("13.3").root))
    with pytest.raises(
        ToolkitError, match=r"FA3_CUDA_12_4_ROOT=.* is CUDA 13\.3\.\d+, and 12\.4 is"
    ):
        find("12.4")


def test_inspection_needs_all_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find("13.3")
    shutil.copytree(real.root / "bin", tmp_path / "bin", symlinks=True, copy_function=os.symlink)
    (tmp_path / "include").symlink_to(real.include)
    (tmp_path / "bin/nvdisasm").unlink()
    monkeypatch.setenv("FA3_CUDA_13_3_ROOT", str(tmp_path))
    with pytest.raises(ToolkitError, match=r"\(environment\) has no nvdisasm; install"):
        inspection()


def test_host_compiler_is_within_the_ceiling(toolkit: ToolkitRoot) -> None:
    assert Path(host_compiler(toolkit)).is_file()


def test_newer_host_compiler_is_refused(
    toolkit: ToolkitRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_new = toolkit.probe().gcc_max + 1
    compiler = tmp_path / "g++"
    compiler.write_text(f"#!/bin/sh\necho '#define __GNUC__ {too_new}'\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CUDAHOSTCXX", str(compiler))
    with pytest.raises(
        ToolkitError, match=rf"g\+\+ is g\+\+ {too_new}\. Install g\+\+-{too_new - 1} "
    ):
        host_compiler(toolkit)


def test_torch_headers_compile_an_operator_library(tmp_path: Path) -> None:
    source = tmp_path / "operators.cpp"
    source.write_text(OPERATORS)
    command = ["g++", "-std=c++20", "-fPIC", "-shared", f"-I{torch_headers()}"]
    command += [
        "-DTORCH_TARGET_VERSION=0x020a000000000000",
        "-o",
        tmp_path / "operators.so",
        source,
    ]
    subprocess.run(command, check=True, env=clean_environment())
    size = sum(path.stat().st_size for path in torch_headers().rglob("*") if path.is_file())
    assert size < 1_000_000


def test_cmake_variables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["cmake", "13.3"]) == 0
    script = tmp_path / "toolkit.cmake"
    script.write_text(capsys.readouterr().out + 'message("${FA3_NVCC}|${FA3_CUDA_VERSION}")\n')
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not on PATH")
    done = subprocess.run(["cmake", "-P", script], check=True, capture_output=True, text=True)
    toolkit = find("13.3")
    assert done.stderr.strip() == f"{toolkit.nvcc}|{toolkit.probe().release}"


def test_report_of_both() -> None:
    states = report()
    assert [state.problem for state in states] == ["", ""]
    assert "sm_90[a] sm_100[af]" in text(states)
    assert states[1].as_dict()["ptx_isa"] == [9, 3]


def test_table_of_both() -> None:
    console = pytest.importorskip("rich.console")
    from fa3_matrix.toolkits import table

    printed = console.Console(width=200, record=True)
    printed.print(table(report()))
    shown = printed.export_text()
    assert "12.4." in shown
    # Not eaten as rich's markup.
    assert "sm_90[a]" in shown
