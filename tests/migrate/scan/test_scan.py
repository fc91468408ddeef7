"""Whole trees: headers, what files tell each other, and what cannot be read."""

import os
import subprocess
from pathlib import Path

import pytest
from small import DIFFERENCE
from wanted import found, wanted

from fa3_matrix.errors import Fa3Error
from fa3_matrix.migrate.fix import patch
from fa3_matrix.migrate.scan import Scan, scan
from fa3_matrix.migrate.scan.tree import Tree
from fa3_matrix.migrate.scan.walk import LARGEST


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def assert_wanted(scanned: Scan, files: dict[str, str]) -> None:
    for name, code in files.items():
        assert found(f for f in scanned.findings if f.file == name) == wanted(code), name


TREES = {
    "classes that derive from a struct in another file": {
        "properties.h": "struct Properties : cudaDeviceProp { bool usable() const; };\nstruct Other { int f(); };\n",
        "properties.inl": """#include "properties.h"
bool Properties::usable() const { return computeMode != 2; }  // want: FIELD-REMOVED
int Other::f() { return computeMode; }
""",
    },
    "headers that moved, read by sources of the host's": {
        "include/a.h": """#ifdef __CUDACC__
#include <cub/cub.cuh>
#endif
#include "b.h"
#include <thrust/copy.h>
""",
        "include/b.h": "#pragma once\n#include <thrust/complex.h>  // want: HDR-MOVED~medium\n",
        "include/device.h": "#include <thrust/sort.h>\n",
        "include/optional.h": "#ifdef MINE\n#include <thrust/sort.h>  // want: HDR-MOVED~medium:latent\n#endif\n",
        "one.cpp": '#include "a.h"  // no __device__\n#include <thrust/sort.h>\n',
        "two.cc": '#include "b.h"\n',
        "three.cpp": '#include "optional.h"\n',
        "itself.cpp": "#include <thrust/sort.h>  // want: HDR-MOVED~medium\n",
        "kernels.cpp": '#include "device.h"\n__global__ void kernel();\n',
        "unit.cu": '#include "device.h"\n#include "a.h"\n',
    },
    "headers that moved, where the build names CCCL": {
        "CMakeLists.txt": "target_link_libraries(a PRIVATE CCCL::CCCL)\n",
        "b.h": "#include <thrust/complex.h>  // want: HDR-MOVED~medium:latent\n",
        "a.cpp": '#include "b.h"\n',
    },
    "a library of CCCL that the tree has itself": {
        "third_party/thrust/detail/traits.h": "#include <thrust/other.h>\n",
        "a.cu": "thrust::detail::is_proxy<int> a;\n",
    },
    "types of fields that headers declare": {
        "src/a.cu": """
#include "context.h"
int f(Context *c, Info &i) { return c->prop.clockRate + c->info.clockRate + i.clockRate; }  // want: FIELD-REMOVED
int g() { return device_prop.clockRate + current().clockRate; }  // want: FIELD-REMOVED FIELD-REMOVED
int Context::rate() { return prop.clockRate; }  // want: FIELD-REMOVED
auto unknown = elsewhere.clockRate;  // want: FIELD-REMOVED~low
""",
        "include/context.h": """
#pragma once
struct Info { int clockRate; };
struct Context { cudaDeviceProp prop; Info info; int rate(); };
extern cudaDeviceProp device_prop;
cudaDeviceProp &current();
""",
    },
    "a tree that has nothing to do with CUDA": {
        "a.cpp": "int f() { return device.clockRate; }\n",
    },
    "names that headers declare anew": {
        "dynlink.h": "typedef int CUresult;\nextern CUresult (*cuCtxCreate)(int, int, int);\n",
        "a.cpp": '#include "dynlink.h"\nvoid f() { cuCtxCreate(1, 2, 3); }\n',
        "b.cpp": "void f() { cuCtxCreate(1, 2, 3); }  // want: FN-SIG\n",
    },
    "names that headers define as macros": {
        "compat.h": "#define cudaThreadSynchronize cudaDeviceSynchronize\n",
        "a.cu": '#include "compat.h"\nvoid f() { cudaThreadSynchronize(); }\n',
    },
    "macros of headers in conditions": {
        "common/config.h": "#include <cuda_runtime.h>\n#define OLD_API (CUDART_VERSION < 13000)\n",
        "common/all.h": '#pragma once\n#include "config.h"\n',
        "src/a.cu": """
#include "common/all.h"
#if OLD_API
  int a = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#else
  int b = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
""",
        "src/b.cu": """
#if OLD_API
  int a = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
""",
    },
    "macros that headers define in turn": {
        "config.h": '#define GPU\n#ifdef MPI\n#include "mpi.h"\n#endif\n#undef OLD\n',
        "mpi.h": "#define PARALLEL\n#define OLD\n",
        "src/kernel.cu": '#include "../config.h"\n',
        "src/a.cu": """
#ifdef GPU
  int before = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
#include "kernel.cu"
#ifdef GPU
  int a = cudaThreadSynchronize();  // want: FN-REMOVED
#else
  int b = cudaThreadSynchronize();
#endif
#ifdef PARALLEL
  int c = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#else
  int d = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#ifdef OLD
  int e = cudaThreadSynchronize();
#endif
""",
    },
    "macros of headers that paste or call what they are given": {
        "wrap.h": "#define PFN(symbol) pfn_##symbol\n#define CALL(f, ...) check(f(__VA_ARGS__))\n"
        "#define CHECK(x) check(x)\n",
        "a.cpp": """
#include <cuda.h>
#include "wrap.h"
void f(CUcontext *c, CUdevice d) {
  if (PFN(cuCtxCreate) == nullptr) return;
  PFN(cuCtxCreate(c, 0, d));
  CALL(cuCtxCreate, c, 0, d);  // want: FN-SIG
  CALL(cuCtxCreate, c, nullptr, 0, d);
  CHECK(cuCtxCreate(c, 0, d));  // want: FN-SIG
  UNKNOWN(cuCtxCreate(c, 0, d));  // want: FN-SIG
}
""",
    },
    "headers that ask whether a library's was read before": {
        "helper.h": """
#ifdef _CUFFT_H_
inline int old(int error) { return error == cudaDevAttrCooperativeMultiDeviceLaunch; }  // want: ENUM-REMOVED:latent
#endif
""",
        "all.h": '#include "helper.h"\n',
        "fft.cu": '#include <cufft.h>\n#include "all.h"  // want: ENUM-REMOVED\n',
        "late.cu": '#include "helper.h"\n#include <cufft.h>\n',
        "other.cu": '#include "helper.h"\n',
    },
    "the standard library's names that Thrust brought in": {
        "lost.cu": """
#include <thrust/sort.h>
#include <stdio.h>
using namespace std;
int main() {
  std::vector<int> v(3);  // want: INCLUDE-TRANSITIVE
  std::sort(v.begin(), v.end());  // want: INCLUDE-TRANSITIVE
  cout << std::min(1, 2);  // want: INCLUDE-TRANSITIVE
}
""",
        "kept.cu": "#include <thrust/device_vector.h>\n#include <iostream>\nstd::vector<int> v;\n"
        "void f() { std::cout << 1; }\n",
        "own.cu": "#include <thrust/sort.h>\n#include <vector>\n#include <algorithm>\n"
        "void f(std::vector<int> v) { std::sort(v.begin(), v.end()); }\n",
        "third.cu": '#include <thrust/sort.h>\n#include "opencv2/core.hpp"\nstd::vector<int> v;\n',
        "tree.h": "#include <vector>\n",
        "through.cu": '#include <thrust/sort.h>\n#include "tree.h"\nstd::vector<int> v;\n',
        "other.cu": "#include <cuda_runtime.h>\nint thrust; void f() { std::cout << 1; }\n",
    },
    "headers that some builds read": {
        "hip.h": "#define __shfl_sync(m, v) cudaThreadSynchronize()  // want: FN-REMOVED:latent\n",
        "mpi.h": "inline void f() { cudaThreadSynchronize(); }  // want: FN-REMOVED:latent\n",
        "old.h": "inline void f() { cudaThreadSynchronize(); }  // want: FN-REMOVED:inactive\n",
        "inner.h": "inline void f() { cudaThreadSynchronize(); }  // want: FN-REMOVED:latent\n",
        "both.h": "inline void f() { cudaThreadSynchronize(); }  // want: FN-REMOVED\n",
        "public.h": '#include "public.inl"\nvoid f();\n',
        "public.inl": '#include "public.h"\ninline void f() { cudaThreadExit(); '
        "cudaThreadSynchronize(); }  // want: FN-REMOVED\n",
        "outer.h": '#include "inner.h"\n',
        "a.cu": """
#ifdef __HIPCC__
#include "hip.h"
#endif
#ifdef WITH_MPI
#include "mpi.h"
#include "outer.h"
#include "both.h"
#endif
#if CUDART_VERSION < 13000
#include "old.h"
#endif
""",
        "b.cu": '#include "both.h"\n',
    },
    "headers are scanned themselves": {
        "a.h": """
#ifndef A_H
#define A_H
#include <texture_fetch_functions.h>  // want: HDR-REMOVED
#if CUDART_VERSION < 13000
inline void f() { cudaThreadSynchronize(); }  // want: FN-REMOVED:inactive
#endif
#endif
""",
        "b.cpp": '#include "a.h"\n',
    },
    "headers of the tree that have the names of the toolkit's": {
        "third_party/thrust/optional.h": "",
        "third_party/texture_fetch_functions.h": "",
        "src/a.cu": "#include <thrust/optional.h>\n#include <texture_fetch_functions.h>\n",
    },
    "includes through the tree": {
        "with.h": "#include <thrust/sort.h>\n#include <thrust/tuple.h>\n",
        "without.h": "#include <thrust/sort.h>\n",
        "a.cu": '#include "with.h"\nauto t = thrust::make_tuple(1);\n',
        "b.cu": '#include "without.h"\nauto t = thrust::make_tuple(1);  // want: INCLUDE-TRANSITIVE\n',
    },
    "headers that rely on what their sources include": {
        "always.cuh": "auto a() { return thrust::make_tuple(1); }\n",
        "never.cuh": "#include <thrust/sort.h>\nauto a() { return thrust::make_tuple(1); }"
        "  // want: INCLUDE-TRANSITIVE\n",
        "rescued.cuh": "#include <thrust/sort.h>\nauto a() { return thrust::make_tuple(1); }\n",
        "alone.cuh": "#include <thrust/sort.h>\nauto a() { return thrust::make_tuple(1); }"
        "  // want: INCLUDE-TRANSITIVE~medium\n",
        "a.cu": '#include <thrust/tuple.h>\n#include "always.cuh"\n#include "rescued.cuh"\n',
        "b.cu": '#include "never.cuh"\n',
    },
    "kernel templates that a header defines": {
        "kernel.cuh": "template <class T> __global__ void k(T *p) { *p = 1; }\n",
        "a.cu": """
#include "kernel.cuh"
template <class T> __global__ void k(T *);
void f(int *p) { k<int><<<1, 1>>>(p); }
""",
    },
    "headers that include each other": {
        "a.h": '#pragma once\n#include "b.h"\n#if CUDART_VERSION\n#endif\n',
        "b.h": '#pragma once\n#include "a.h"\n#include "b.h"\n',
        "c.cu": '#include "a.h"\nvoid f() { cudaThreadSynchronize(); }  // want: FN-REMOVED\n',
    },
}


@pytest.mark.parametrize("name", TREES)
def test_trees(tmp_path: Path, name: str) -> None:
    assert_wanted(scan(written(tmp_path, TREES[name]), DIFFERENCE), TREES[name])


def test_a_header_that_moved_names_the_sources_that_miss_it(tmp_path: Path) -> None:
    files = {f"{n}.cpp": '#include "a.h"\n' for n in range(5)} | {"a.h": "#include <cub/cub.cuh>\n"}
    (finding,) = scan(written(tmp_path, files), DIFFERENCE).findings
    assert (finding.file, finding.line, finding.construct) == ("a.h", 1, "cub/cub.cuh")
    assert "It is read by 0.cpp, 1.cpp, 2.cpp and 2 more" in finding.message


def test_processes_come_to_the_same(tmp_path: Path) -> None:
    files = {
        f"{i}/{name}": text for i, name in enumerate(TREES) for name, text in TREES[name].items()
    }
    root = written(tmp_path, files)
    calls: list[tuple[int, int]] = []
    many = scan(
        root, DIFFERENCE, processes=2, progress=lambda done, total: calls.append((done, total))
    )
    assert many == scan(root, DIFFERENCE, processes=1)
    assert many.findings
    total = sum(len(text.encode()) for text in files.values())
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_counts_files_and_lines_that_it_understands(tmp_path: Path) -> None:
    files = {
        "a.cu": "int a;\nint b;\n",
        "b.h": "int a;",
        "image.png": "no",
        "notes.md": "no\n",
        "c.cpp": "",
    }
    scanned = scan(written(tmp_path, files), DIFFERENCE)
    assert (scanned.files, scanned.lines) == (3, 3)
    assert scanned.skipped == ()


def test_one_file(tmp_path: Path) -> None:
    written(tmp_path, {"a.cu": "void f() { cudaThreadSynchronize(); }"})
    (finding,) = scan(tmp_path / "a.cu", DIFFERENCE).findings
    assert finding.file == "a.cu"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(Fa3Error, match="no such file or folder"):
        scan(tmp_path / "missing", DIFFERENCE)
    assert scan(tmp_path, DIFFERENCE) == Scan((), 0, 0, ())


def test_a_virtual_environment_of_any_name_is_none_of_the_tree(tmp_path: Path) -> None:
    code = "void f() { cudaThreadSynchronize(); }"
    inside = "tools/python/lib/nvidia/b.cu"
    written(tmp_path, {"a.cu": code, "tools/python/pyvenv.cfg": "home = /usr/bin", inside: code})
    assert [f.file for f in scan(tmp_path, DIFFERENCE).findings] == ["a.cu"]
    # Asked for, it is scanned.
    found = scan(tmp_path / "tools" / "python", DIFFERENCE).findings
    assert [f.file for f in found] == ["lib/nvidia/b.cu"]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    written(
        tmp_path,
        {"a.cu": "void f() { cudaThreadSynchronize(); }", ".git/b.cu": "cudaThreadExit();"},
    )
    (tmp_path / "binary.h").write_bytes(b"\x7fELF\0\0cudaThreadSynchronize")
    (tmp_path / "latin.cu").write_bytes(b"// \xe9\xff\nvoid f() { cudaThreadSynchronize(); }\n")
    with (tmp_path / "large.cu").open("wb") as file:
        file.truncate(LARGEST + 1)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self.cu").symlink_to(tmp_path / "self.cu")
    (tmp_path / "nowhere.cu").symlink_to(tmp_path / "missing.cu")
    (tmp_path / "again.cu").symlink_to(tmp_path / "a.cu")
    os.mkfifo(tmp_path / "pipe.cu")
    scanned = scan(tmp_path, DIFFERENCE)
    assert [(f.file, f.line) for f in scanned.findings] == [("a.cu", 1), ("latin.cu", 2)]
    assert {skipped.file: skipped.reason for skipped in scanned.skipped} == {
        "binary.h": "binary",
        "large.cu": "20 MB; files of more than 20 MB are not read",
        "self.cu": "link that leads nowhere",
        "nowhere.cu": "link that leads nowhere",
        "pipe.cu": "not a regular file",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_without_permission_are_said(tmp_path: Path) -> None:
    written(tmp_path, {"a.cu": "x", "folder/b.cu": "x"})
    (tmp_path / "a.cu").chmod(0)
    (tmp_path / "folder").chmod(0)
    try:
        reasons = {skipped.file: skipped.reason for skipped in scan(tmp_path, DIFFERENCE).skipped}
    finally:
        (tmp_path / "folder").chmod(0o700)
    assert reasons == {
        "a.cu": "cannot be read: Permission denied",
        "folder": "cannot be listed: Permission denied",
    }


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.cu"
    Path(os.fsdecode(path)).write_text("void f() { cudaThreadSynchronize(); }")
    (finding,) = scan(tmp_path, DIFFERENCE).findings
    assert finding.line == 1


def test_data_that_calls_itself_a_header_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fa3_matrix.migrate.scan import syntax

    monkeypatch.setattr(syntax, "PARSE_SECONDS", 0.05)
    written(tmp_path, {"a.h": "void f() { cudaThreadSynchronize(); }\n" + "}{)(<>::" * 60_000})
    scanned = scan(tmp_path, DIFFERENCE)
    assert [skipped.file for skipped in scanned.skipped] == ["a.h"]
    assert [finding.line for finding in scanned.findings] == [1]


def test_added_includes_make_a_patch_that_applies(tmp_path: Path) -> None:
    before = "#include <thrust/sort.h>\nauto t = thrust::make_tuple(1);\n"
    written(tmp_path, {"a.cu": before})
    text = patch(tmp_path, scan(tmp_path, DIFFERENCE).findings).text
    run = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=text, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    assert (tmp_path / "a.cu").read_text() == "#include <thrust/tuple.h>\n" + before


def test_the_nearest_header_is_the_one_that_is_included(tmp_path: Path) -> None:
    files = {"a/config.h", "b/config.h", "b/src/x.cu", "b/include/lib/y.h", "b/src/z.h"}
    tree = Tree(tmp_path, frozenset(files))
    assert tree.resolve("b/src/x.cu", "z.h") == "b/src/z.h"
    assert tree.resolve("b/src/x.cu", "config.h") == "b/config.h"
    assert tree.resolve("b/src/x.cu", "../config.h") == "b/config.h"
    assert tree.resolve("b/src/x.cu", "lib/y.h") == "b/include/lib/y.h"
    assert tree.resolve("b/src/x.cu", "ib/y.h") is None
    assert tree.resolve("b/src/x.cu", "vector") is None
