"""CMake files: architectures, targets, dialects, conditions."""

import time

import pytest

from fa3_matrix.migrate.finding import Finding
from fa3_matrix.migrate.scan import cmake

from ..small_difference import DIFFERENCE, applied


def found(text: str, file: str = "CMakeLists.txt") -> list[Finding]:
    return list(cmake.find(file, text, DIFFERENCE))


def rows(text: str) -> list[tuple[int, str, str, str]]:
    return [(f.line, f.rule, f.name, str(f.state)) for f in found(text)]


@pytest.mark.parametrize(
    "path, accepted",
    [
        ("CMakeLists.txt", True),
        ("cmake/Find.cmake", True),
        ("a.cmake.in", True),
        ("CMakePresets.json", True),
        ("x.json", False),
    ],
)
def test_which_files_are_read(path: str, accepted: bool) -> None:
    assert cmake.accepts(path, b"") is accepted


@pytest.mark.parametrize(
    "text, after",
    [
        ("set(CMAKE_CUDA_ARCHITECTURES 60 70-real 80)", "set(CMAKE_CUDA_ARCHITECTURES 80)"),
        ('set(CMAKE_CUDA_ARCHITECTURES "80;70;60")', 'set(CMAKE_CUDA_ARCHITECTURES "80")'),
        ('set(CMAKE_CUDA_ARCHITECTURES "70" CACHE STRING "of 60")', None),
        ("set_target_properties(x PROPERTIES CUDA_ARCHITECTURES \"60;80\" OUTPUT_NAME y)",
         "set_target_properties(x PROPERTIES CUDA_ARCHITECTURES \"80\" OUTPUT_NAME y)"),
        ("set_property(TARGET x PROPERTY CUDA_ARCHITECTURES 70 80)",
         "set_property(TARGET x PROPERTY CUDA_ARCHITECTURES 80)"),
        ("list(APPEND CMAKE_CUDA_ARCHITECTURES 70)", None),
        ("set(CMAKE_CUDA_ARCHITECTURES ${OLD} 70)", None),
        ('set(CMAKE_CUDA_FLAGS "-gencode arch=compute_70,code=sm_70 -gencode arch=compute_80,code=sm_80")',
         'set(CMAKE_CUDA_FLAGS "-gencode arch=compute_80,code=sm_80")'),
        ("target_compile_options(x PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_70,code=sm_70>)", None),
        ("list(APPEND CUDA_NVCC_FLAGS -gencode\n  arch=compute_70,code=sm_70\n  -gencode arch=compute_80,code=sm_80)",
         None),
        ("cuda_select_nvcc_arch_flags(FLAGS 7.0 8.0)", "cuda_select_nvcc_arch_flags(FLAGS 8.0)"),
    ],
)  # fmt: skip
def test_architectures_and_what_is_left_of_lists(text: str, after: str | None) -> None:
    findings = found(text)
    assert {f.rule for f in findings} == {"ARCH-REMOVED"}
    edits = tuple(edit for f in findings for edit in f.edits)
    # Where nothing would remain, or the list is computed or broken over lines, a person decides.
    assert applied(text, edits) == (after or text)


@pytest.mark.parametrize(
    "text",
    [
        "# set(CMAKE_CUDA_ARCHITECTURES 70)",
        "#[[ set(CMAKE_CUDA_ARCHITECTURES 70)\n]]",
        "#[==[ ]] set(CMAKE_CUDA_ARCHITECTURES 70) ]==]",
        'message("-arch=sm_70 is not supported")',
        "set(CMAKE_CUDA_ARCHITECTURES 75 80)",
        "set(CMAKE_CUDA_ARCHITECTURES native)",
        "set(SIZE 70)",
        'set(CMAKE_CUDA_FLAGS "-gencode arch=compute_${CC},code=sm_${CC}")',
        "target_link_libraries(x PRIVATE CUDA::cudart CUDA::nvtx3)",
        "set(CMAKE_CXX_STANDARD 14)",
        "find_package(CUDAToolkit 12.4 REQUIRED)",
        "find_package(CUDAToolkit 13.0 EXACT)",
    ],
)
def test_what_is_no_break(text: str) -> None:
    assert rows(text) == []


@pytest.mark.parametrize(
    "condition, state",
    [
        ("CUDAToolkit_VERSION VERSION_LESS 13", "inactive"),
        ('CUDAToolkit_VERSION VERSION_LESS "13.0"', "inactive"),
        ("CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0", "active"),
        ("CUDA_VERSION VERSION_LESS 13.5", "active"),
        ("CUDA_VERSION_MAJOR LESS 13", "inactive"),
        ("CUDA_VERSION_MAJOR EQUAL 13", "active"),
        ("NOT CUDAToolkit_VERSION VERSION_LESS 13", "active"),
        ("NOT (CUDA_VERSION VERSION_GREATER_EQUAL 13)", "inactive"),
        ("${CUDA_VERSION} VERSION_LESS 13 AND WIN32", "inactive"),
        ("CUDA_VERSION VERSION_GREATER_EQUAL 13 AND WIN32", "latent"),
        ("13 VERSION_GREATER CUDA_VERSION", "inactive"),
        ("USE_CUDA", "active"),
        ("CUDAToolkit_FOUND", "active"),
        ("NOT DEFINED CMAKE_CUDA_ARCHITECTURES", "active"),
        ("WIN32", "latent"),
    ],
)
def test_conditions(condition: str, state: str) -> None:
    text = f"if({condition})\n  set(CMAKE_CUDA_ARCHITECTURES 70)\nendif()\nset(CMAKE_CUDA_ARCHITECTURES 60)"
    assert [row[3] for row in rows(text)] == [state, "active"]


def test_else_and_elseif() -> None:
    text = (
        "if(CUDA_VERSION VERSION_GREATER_EQUAL 13)\n set(CMAKE_CUDA_ARCHITECTURES 80)\n"
        "elseif(X)\n set(CMAKE_CUDA_ARCHITECTURES 70)\nelse()\n set(CMAKE_CUDA_ARCHITECTURES 60)\nendif()"
    )
    assert [row[3] for row in rows(text)] == ["inactive", "inactive"]


def test_targets_packages_and_dialects() -> None:
    text = (
        "find_package(CUDA 10 REQUIRED)\n"
        "find_package(CUDAToolkit 12.4 EXACT)\n"
        "target_link_libraries(x PRIVATE CUDA::nvToolsExt)\n"
        "set(CMAKE_CUDA_STANDARD 14)\n"
        "target_compile_features(x PUBLIC cuda_std_11)\n"
        'set(CMAKE_CUDA_FLAGS "-std=c++14 --host-relocatable-link")\n'
        "set(CMAKE_CUDA_HOST_COMPILER /opt/intel/icpc)\n"
    )
    assert rows(text) == [
        (1, "DEPRECATED", "FindCUDA", "active"),
        (2, "IMAGE", "CUDAToolkit 12.4", "active"),
        (3, "SONAME", "CUDA::nvToolsExt", "active"),
        (4, "DIALECT", "c++14", "latent"),
        (5, "DIALECT", "c++11", "latent"),
        (6, "DIALECT", "c++14", "latent"),
        (6, "FLAG-CHANGED", "--host-relocatable-link", "active"),
        (7, "HOSTCC", "icc", "active"),
    ]
    assert rows("# uses\nset(CMAKE_CUDA_STANDARD 14)\nfind_package(Thrust)")[0][3] == "active"


def test_a_project_without_architectures_takes_the_default() -> None:
    assert rows("project(x LANGUAGES CXX CUDA)")[0][1] == "ARCH-DEFAULT"
    assert rows("project(x LANGUAGES CXX)") == []
    assert rows("project(x LANGUAGES CUDA)\nset(CMAKE_CUDA_ARCHITECTURES 80)") == []


def test_presets() -> None:
    text = '{"cacheVariables": {"CMAKE_CUDA_ARCHITECTURES": "70;80"}}'
    (one,) = found(text, "CMakePresets.json")
    assert applied(text, one.edits) == '{"cacheVariables": {"CMAKE_CUDA_ARCHITECTURES": "80"}}'


@pytest.mark.parametrize(
    "text",
    [
        "set(" * 20_000,
        '"' * 30_001,
        "#[" * 30_000,
        "set(X " + "$<" * 20_000,
        "[" + "=" * 50_000,
        ")" * 50_000,
    ],
)
def test_time_does_not_explode(text: str) -> None:
    started = time.perf_counter()
    found(text)
    assert time.perf_counter() - started < 5
