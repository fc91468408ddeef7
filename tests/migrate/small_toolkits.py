"""Toolkits of a few lines, read by the real libclang and g++."""

import hashlib
from pathlib import Path

from fa3_matrix.migrate.model import Model
from fa3_matrix.migrate.read import read

HOST_CONFIG = """
#if __GNUC__ > 13
#endif
#if (__clang_major__ >= 18)
#endif
#if _MSC_VER < 1910 || _MSC_VER >= 1950
#endif
#error -- unsupported ICC configuration! Only ICC 15.0 and 20.x on Linux x86_64 are supported!
"""
CUDA = """
#pragma once
#define CUDA_VERSION 12040
#define __API(api) api
#define cuOpen cuOpen_v2
#define cuInfo __API(cuInfo_v3)
#define CU_FLAG 0x02
#define CU_SQUARE(x) ((x) * (x))
extern "C" {
typedef struct CUplace_st { int type; union { int id; void *handle; }; } CUplace_v1;
typedef CUplace_v1 CUplace;
typedef enum CUkind_enum { CU_KIND_A = 1, CU_KIND_MAX = 0x7 } CUkind;
int cuOpen(int flags, CUplace place);
int cuInfo(void *stream, unsigned long *id);
}
"""
RUNTIME = """
#pragma once
#include <cuda.h>
struct cudaDesc { int size; struct { int width; } res; };
extern "C" {
__attribute__((deprecated("use cudaSync"))) int cudaOldSync(void);
int cudaSync(void *stream = 0, int flags = 0);
}
template <class T> int cudaPut(T *to, int count, void *stream = 0);
int cudaPut(void *to, int count);
namespace cooperative_groups {
namespace __v1 { class grid_group {}; grid_group this_grid(); namespace details { void hidden(); } }
using namespace __v1;
}
"""
THRUST_VERSION = (
    "#pragma once\n#define THRUST_VERSION 200302\n#define THRUST_NODISCARD [[nodiscard]]\n"
)
PAIR = """
#pragma once
#include <thrust/version.h>
namespace thrust { inline namespace v1 {
template <class A, class B> struct pair {};
template <class A, class B> pair<A, B> make_pair(A a, B b);
namespace detail { struct secret {}; }
template <class T> constexpr bool is_pair_v = false;
} }
namespace cub { struct DeviceReduce {
template <class T> static int Sum(T in, int n, bool debug_synchronous = false);
}; }
"""


VECTOR = """
#pragma once
#include <thrust/pair.h>
namespace thrust { struct vector; }
namespace thrust { struct vector {}; }
"""
FILES = {
    "cuda.h": CUDA,
    "cuda_runtime.h": RUNTIME,
    "crt/host_config.h": HOST_CONFIG,
    "thrust/version.h": THRUST_VERSION,
    "thrust/pair.h": PAIR,
    "thrust/vector.h": VECTOR,
}
Edit = tuple[str, str, str]  # header, what stands there, what shall


class Toolkits:
    """Toolkits of the texts above; headers may be replaced, removed (empty text), or edited in one place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[Path, Model] = {}

    def root(self, headers: dict[str, str] | None = None, edit: Edit | None = None) -> Path:
        """Its folder."""
        files = FILES | (headers or {})
        if edit:
            header, before, after = edit
            assert before in files[header]
            files[header] = files[header].replace(before, after)
        root = self._folder / hashlib.sha256(repr(files).encode()).hexdigest()[:16]
        for name, text in files.items():
            if text and not (root / "include" / name).exists():
                (root / "include" / name).parent.mkdir(parents=True, exist_ok=True)
                (root / "include" / name).write_text(text)
        return root

    def __call__(self, headers: dict[str, str] | None = None, edit: Edit | None = None) -> Model:
        """Its model; each is read once."""
        root = self.root(headers, edit)
        if root not in self._models:
            self._models[root] = read(root)
        return self._models[root]
