"""Proof by compiling: with the real compilers where they are at hand, and the parts that need none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fa3_matrix import toolkits
from fa3_matrix.errors import ToolkitError
from fa3_matrix.migrate.prove import Diagnostic, ProofError, diagnostics, prove, read_database
from fa3_matrix.migrate.rules import Proof, State
from fa3_matrix.toolkits import ToolkitRoot

from .small_difference import finding


@pytest.fixture(scope="session")
def both() -> tuple[ToolkitRoot, ToolkitRoot]:
    try:
        return toolkits.find("12.4", provision=False), toolkits.find("13.3", provision=False)
    except ToolkitError as error:
        pytest.skip(f"needs both toolkits: {error}")


FILES = {
    "include/util.h": "#pragma once\n#include <cuda_runtime.h>\ninline void sync() { cudaThreadSynchronize(); }\n",
    "src/a.cu": '#include "util.h"\nvoid f(void* p) {\n  cudaMemPrefetchAsync(p,\n    4,\n    0,\n    0);\n}\n',
    "src/b.cpp": "#include <cuda.h>\nvoid f(CUcontext* c, CUdevice d) { cuCtxCreate(c, 0, d); }\n",
    "src/c.cu": '#include "missing.h"\n#include <cuda_runtime.h>\nvoid f() { cudaThreadExit(); }\n',
    "src/d.cu": "#include <cuda_runtime.h>\nvoid f() { cudaDeviceReset(); }\n",
    "src/e.cu": "#include <cuda_runtime.h>\nint f(cudaDeviceProp p) { return p.clockRate; }\n",
    "lonely.h": "inline void f() { cudaThreadExit(); }\n",
    "src/$(touch pwned).cu": "void f() { cudaThreadExit(); }\n",
}


@pytest.mark.toolkit
def test_findings_are_proved_refuted_or_said_to_be_unprovable(
    tmp_path: Path, both: tuple[ToolkitRoot, ToolkitRoot]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    given = [
        finding(file="include/util.h", line=3, name="cudaThreadSynchronize"),
        finding("FN-SIG", file="src/a.cu", line=3, name="cudaMemPrefetchAsync"),
        finding("FN-SIG", file="src/b.cpp", line=2, name="cuCtxCreate"),
        finding(file="src/c.cu", line=3),
        finding(file="src/d.cu", line=2, name="cudaDeviceReset"),  # a false alarm
        finding("SONAME", file="src/d.cu", line=1),  # no matter of compiling
        finding(file="lonely.h"),
        finding(file="src/$(touch pwned).cu"),
        replace(finding(file="src/d.cu", line=2), state=State.INACTIVE),
    ]
    done = prove(tmp_path, given, *both, jobs=1)
    assert [(f.proof, f.confidence) for f in done.findings] == [
        (Proof.COMPILED, "high"),
        (Proof.COMPILED, "high"),
        (Proof.COMPILED, "high"),
        (Proof.HEADERS, "high"),
        (Proof.HEADERS, "low"),
        (Proof.HEADERS, "high"),
        (Proof.HEADERS, "high"),
        (Proof.HEADERS, "high"),
        (Proof.HEADERS, "high"),
    ]
    notes = "\n".join(done.notes)
    assert "src/c.cu: could not be compiled by the old toolkit (12.4) either: " in notes
    assert "missing.h" in notes
    assert "lonely.h: no translation unit of the tree includes it" in notes
    assert "src/$(touch pwned).cu: its name means something to a shell" in notes
    assert "1 findings are in files that CUDA 13.3 compiled without an error" in notes
    assert (
        "4 translation units were given to both toolkits, 1 of them the old one refused; 3 findings"
        in notes
    )
    assert not list(tmp_path.rglob("pwned*")), "a name was executed"


@pytest.mark.toolkit
def test_an_error_that_no_finding_explains_is_told(
    tmp_path: Path, both: tuple[ToolkitRoot, ToolkitRoot]
) -> None:
    (tmp_path / "e.cu").write_text(FILES["src/e.cu"] + "void g() { cudaThreadExit(); }\n")
    done = prove(tmp_path, [finding(file="e.cu", line=3)], *both, jobs=1)
    assert done.findings[0].proof is Proof.COMPILED
    (note,) = [n for n in done.notes if "no finding explains" in n]
    assert "clockRate" in note


@pytest.mark.toolkit
def test_the_databases_options_are_used_and_nothing_of_it_is_executed(
    tmp_path: Path, both: tuple[ToolkitRoot, ToolkitRoot]
) -> None:
    source = "#include <header.h>\n#ifdef OLD\nvoid f() { cudaThreadExit(); }\n#endif\n"
    (tmp_path / "a.cu").write_text(source)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "header.h").write_text("#include <cuda_runtime.h>\n")
    row = {
        "directory": str(tmp_path / "elsewhere"),
        "file": "../a.cu",
        "command": "touch pwned1 -DOLD '-DX=$(touch pwned2)' -I. -ccbin evil -Xcompiler -fplugin=evil.so -c ../a.cu",
    }
    (tmp_path / "compile_commands.json").write_text(json.dumps([row]))
    done = prove(tmp_path, [finding(file="a.cu", line=3)], *both, jobs=1)
    assert done.findings[0].proof is Proof.COMPILED, done.notes
    assert not list(tmp_path.rglob("pwned*"))


def test_a_database_states_what_is_compiled(tmp_path: Path) -> None:
    toolkit = tmp_path / "cuda" / "include"
    toolkit.mkdir(parents=True)
    (toolkit / "cuda_runtime_api.h").write_text("")
    rows = [
        {
            "directory": str(tmp_path / "build"),
            "file": str(tmp_path / "a.cu"),
            "arguments": [
                "nvcc",
                "-I../include",
                "-isystem",
                str(toolkit),
                "-DA=1",
                "-U",
                "B",
                "-std=c++17",
            ]
            + [
                "--expt-relaxed-constexpr",
                "-gencode=arch=compute_70,code=sm_70",
                "-O3",
                "-x",
                "cu",
                "-o",
                "a.o",
            ],
        },
        {
            "directory": str(tmp_path),
            "file": "b.cpp",
            "command": "g++ -include pre.h -std c++20 -c b.cpp",
        },
        {"directory": "/", "file": "/elsewhere/c.cpp", "command": "g++ -c c.cpp"},
    ]
    path = tmp_path / "compile_commands.json"
    path.write_text(json.dumps(rows))
    units = read_database(path, tmp_path)
    assert set(units) == {"a.cu", "b.cpp"}
    assert units["a.cu"].cuda
    assert units["a.cu"].options == (
        *(f"-I{tmp_path / 'include'}", "-DA=1", "-UB", "-std=c++17", "--expt-relaxed-constexpr"),
    )
    assert not units["b.cpp"].cuda
    assert units["b.cpp"].options == ("-include", str(tmp_path / "pre.h"), "-std=c++20")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a": 1}',
        "[1]",
        '[{"file": "a.cu"}]',
        '[{"directory": "/", "file": "/a", "command": "\'"}]',
    ],
)
def test_a_damaged_database(tmp_path: Path, text: str) -> None:
    path = tmp_path / "compile_commands.json"
    path.write_text(text)
    with pytest.raises(ProofError, match="not a compilation database"):
        read_database(path, Path("/"))


def test_what_compilers_print_is_read(tmp_path: Path) -> None:
    output = f"""\
{tmp_path}/src/a.cu(3): error: identifier "cudaThreadExit" is undefined
    void f() {{ cudaThreadExit(); }}
               ^
{tmp_path}/inc/t.cuh(7): error #135: class "X" has no member "y"
          detected during instantiation of "void f<T>() [with T=int]" at line 12 of {tmp_path}/src/a.cu
src/b.cpp: In function 'void f()':
src/b.cpp:2:44: error: too few arguments to function
src/c.cpp:9:3:   required from here
/usr/include/x.h:1:10: fatal error: missing.h: No such file or directory
src/d.cu(4): warning #1444-D: function "old" was declared deprecated
2 errors detected in the compilation of "src/a.cu".
"""
    read = list(diagnostics(output, tmp_path))
    assert [(d.error, d.places) for d in read] == [
        (True, (("src/a.cu", 3),)),
        (True, (("inc/t.cuh", 7), ("src/a.cu", 12))),
        (True, (("src/b.cpp", 2),)),
        (True, (("/usr/include/x.h", 1), ("src/c.cpp", 9))),
        (False, (("src/d.cu", 4),)),
    ]
    assert isinstance(read[0], Diagnostic)
    assert "cudaThreadExit" in read[0].text
