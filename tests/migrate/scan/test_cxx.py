"""What the scanner of C++ finds, and what it must not find, in files that stand alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import DIFFERENCE
from wanted import found, wanted

from fa3_matrix.migrate.scan import cxx

SNIPPETS = {
    "names that CCCL keeps to itself": """
namespace thrust { namespace detail {
template <> struct is_proxy<mine::proxy> : true_type {};  // want: CCCL-REMOVED~medium
} }
template <> struct thrust::detail::is_proxy<int> {};  // want: CCCL-REMOVED~medium
namespace mine { namespace detail {
template <class T> struct is_proxy {};
template <> struct is_proxy<int> {};
bool b = detail::is_proxy<int>::value, c = thrust::detail::is_proxy<int>::value;  // want: CCCL-REMOVED~medium
} }
""",
    "fields by the type of their owner": """
#include <cuda_runtime.h>
typedef cudaDeviceProp Prop;
using Props = std::vector<cudaDeviceProp>;
struct Info { cudaDeviceProp prop; cudaDeviceProp *list; int clockRate; };
struct Derived : cudaDeviceProp { int f() { return clockRate; } };  // want: FIELD-REMOVED
cudaDeviceProp global;
cudaDeviceProp query(int device);
int f(const cudaDeviceProp &ref, cudaDeviceProp *pointer, Info *info, struct cudaDeviceProp plain) {
  int a = ref.clockRate + pointer->clockRate;  // want: FIELD-REMOVED FIELD-REMOVED
  a += info->clockRate;
  a += info->prop.clockRate + info->list[2].clockRate;  // want: FIELD-REMOVED FIELD-REMOVED
  a += plain.computeMode + global.computeMode;  // want: FIELD-REMOVED FIELD-REMOVED
  auto made = cudaDeviceProp{};
  auto *fresh = new cudaDeviceProp;
  auto asked = query(0);
  a += made.clockRate + fresh->clockRate;  // want: FIELD-REMOVED FIELD-REMOVED
  a += asked.clockRate;  // want: FIELD-REMOVED
  a += query(1).clockRate;  // want: FIELD-REMOVED
  a += (*pointer).clockRate + (&plain)->clockRate;  // want: FIELD-REMOVED FIELD-REMOVED
  Prop alias; Props many(2); std::unique_ptr<cudaDeviceProp> held;
  a += alias.clockRate;  // want: FIELD-REMOVED
  a += many[0].clockRate + many.at(1).clockRate;  // want: FIELD-REMOVED FIELD-REMOVED
  a += held->clockRate;  // want: FIELD-REMOVED
  for (const auto &each : many) a += each.clockRate;  // want: FIELD-REMOVED
  a += static_cast<cudaDeviceProp *>(nullptr)->clockRate;  // want: FIELD-REMOVED
  int cudaDeviceProp::*member = &cudaDeviceProp::clockRate;  // want: FIELD-REMOVED
  size_t at = offsetof(cudaDeviceProp, clockRate);  // want: FIELD-REMOVED
  Derived derived;
  a += derived.clockRate;  // want: FIELD-REMOVED
  return a;
}
struct Holder { cudaDeviceProp prop_; int g(); };
int Holder::g() { return prop_.clockRate + this->prop_.clockRate; }  // want: FIELD-REMOVED FIELD-REMOVED
""",
    "the same field of something else": """
#include <cuda_runtime.h>
struct Prop { int clockRate; int computeMode() const; };
int f(Prop p, hipDeviceProp_t h, cudaDeviceProp q) {
  int clockRate = 1;
  { Prop q; clockRate += q.clockRate; }
  auto lambda = [&](Prop q) { return q.clockRate; };
  return p.clockRate + h.clockRate + p.computeMode() + clockRate + q.memoryBusWidth;
}
template <class T> int g(T t) { return T::clockRate; }
""",
    "owners whose type cannot be told": """
#include <cuda_runtime.h>
int f() {
  auto x = elsewhere(); unknown_t y;
  cudaGetDeviceProperties(&z, 0);
  int a = x.clockRate + z.clockRate;  // want: FIELD-REMOVED~medium FIELD-REMOVED~medium
  return unknown().clockRate;  // want: FIELD-REMOVED~medium
}
template <class T> int g(T t) { return t.clockRate; }  // want: FIELD-REMOVED~medium
""",
    "designated initializers": """
cudaDeviceProp p = {.clockRate = 1};  // want: FIELD-REMOVED
Other o = {.clockRate = 1};
""",
    "comments and strings": """
// p.clockRate cudaThreadSynchronize()
/* cudaThreadSynchronize() \\
   cudaDeviceProp p; p.clockRate */
const char *m = "cudaThreadSynchronize()", *r = R"x(cudaThreadSynchronize() " )x";
// a comment that goes on \\
cudaThreadSynchronize();
int big = 1'000'000; char c = '"'; char d = '\\'';
void f() { cudaThreadSynchronize(); }  // want: FN-REMOVED
""",
    "calls that are migrated": """
void f(void *p, cudaStream_t s, int device, cudaMemLocation where, cudaMemLocation *w, C &c) {
  cudaMemPrefetchAsync(p, 4, where, 0, s);
  cudaMemPrefetchAsync(p, 4, *w, 0);
  cudaMemPrefetchAsync(p, 4, {cudaMemLocationTypeDevice, device}, 0);
  cudaMemPrefetchAsync(p, 4, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0);
  cudaMemAdvise(p, 4, cudaMemAdviseSetReadMostly, where);
  cudaMemAdvise(p, 4, cudaMemAdviseSetReadMostly, make_location(device));  // want: FN-SIG~low
  cuCtxCreate(&ctx, nullptr, 0, dev);
  cudaStreamGetCaptureInfo(s, &st, &id);
  cudaStreamGetCaptureInfo(s, &st, &id, &g, &d, &e, &n);
}
""",
    "calls that are not": """
#define DEVICE 0
void f(void *p, cudaStream_t s, int device, std::vector<int> devices, const C &c) {
  cudaMemPrefetchAsync(p, 4, device, s);  // want: FN-SIG
  ::cudaMemPrefetchAsync(p, 4, device);  // want: FN-SIG
  cudaMemPrefetchAsync(p, 4, cudaCpuDeviceId, s);  // want: FN-SIG
  cudaMemPrefetchAsync(p, 4, devices[0], s);  // want: FN-SIG
  cudaMemPrefetchAsync(p, 4, device + 1, s);  // want: FN-SIG
  cudaMemPrefetchAsync(p, 4, DEVICE, s);  // want: FN-SIG
  cudaMemPrefetchAsync(p, 4, c.device(), s);  // want: FN-SIG
  cudaMemAdvise(p, 4, cudaMemAdviseSetReadMostly, device);  // want: FN-SIG
  auto run = [=] { return cuCtxCreate(&ctx, 0, device); };  // want: FN-SIG
  std::thread t([&]() { cudaThreadSynchronize(); });  // want: FN-REMOVED
  if (cudaThreadSynchronize() != cudaSuccess) return;  // want: FN-REMOVED
}
template <class... T> auto call(T... t) { return cudaMemPrefetchAsync(t...); }  // want: FN-SIG~low
""",
    "functions of that name that are others": """
struct X { void cudaThreadSynchronize(); static int cuCtxCreate(int, int, int); };
namespace fake { int cuCtxCreate(int a, int b, int c); int g() { return cuCtxCreate(1, 2, 3); } }
void f(X x, X *y, CUresult (*cuCtxCreate)(CUcontext *, int, int)) {
  x.cudaThreadSynchronize(); y->cudaThreadSynchronize(); hip::cudaThreadSynchronize();
  cuCtxCreate(c, 0, d); fake::cuCtxCreate(1, 2, 3); X::cuCtxCreate(1, 2, 3);
}
void g() { auto cudaThreadSynchronize = [] {}; cudaThreadSynchronize(); }
enum { cudaDevAttrCooperativeMultiDeviceLaunch = 3 };
int h() { return cudaDevAttrCooperativeMultiDeviceLaunch; }
""",
    "pointers to functions": """
auto p = &cudaThreadSynchronize;  // want: FN-REMOVED
void g(void) { register_call(cuCtxCreate); }  // want: FN-SIG~medium
decltype(cudaMemPrefetchAsync) *q;  // want: FN-SIG~medium
""",
    "macros": """
#define CHECK(x) do { if (x) abort(); } while (0)
#define SYNC() cudaThreadSynchronize()  // want: FN-REMOVED
#define PREFETCH(p, n) \\
  CHECK(cudaMemPrefetchAsync(p, n, 0, 0))  // want: FN-SIG
#define FORWARD(...) cudaMemPrefetchAsync(__VA_ARGS__)
#define CALL(f, ...) CHECK(f(__VA_ARGS__))
#define ALIAS cuCtxCreate
#define RATE(p) (p)->clockRate  // want: FIELD-REMOVED~medium
#define STRING "cudaThreadSynchronize"
#include <cuda_runtime.h>
void f(void *p, cudaMemLocation where) {
  CHECK(cudaThreadSynchronize());  // want: FN-REMOVED
  FORWARD(p, 4, 0, 0);  // want: FN-SIG
  FORWARD(p, 4, where, 0);
  CALL(cudaMemPrefetchAsync, p, 4, 0, 0);  // want: FN-SIG
  CALL(cudaMemPrefetchAsync, p, 4, where, 0, 0);
  CALL(cudaThreadSynchronize);  // want: FN-REMOVED
  ALIAS(c, 0, d);  // want: FN-SIG
  ALIAS(c, 0, 0, d);
}
""",
    "members of templates, and what CUDA has as well": """
#include <limits>
#include <cub/cub.cuh>
using namespace cub;
int a = std::numeric_limits<int>::Max();
int b = Max();  // want: CCCL-REMOVED~medium
int c = std::numeric_limits < int > :: Max();
""",
    "names of CCCL": """
#include <vector>
#include <cub/device/device_reduce.cuh>
namespace c = cub;
namespace cg = cooperative_groups;
using DR = cub::DeviceReduce;
cub::Sum a;  // want: CCCL-REMOVED
::cub::Max b;  // want: CCCL-REMOVED
c::Sum d;  // want: CCCL-REMOVED
cub::TransformInputIterator<float, O, int *> e(p, O{});  // want: CCCL-REMOVED
mylib::cub::Sum f;  // want: CCCL-REMOVED~medium
using cub::Max;  // want: CCCL-REMOVED
Max used;
std::vector<cub::Sum> v;  // want: CCCL-REMOVED
struct F : public thrust::unary_function<int, int> {};  // want: CCCL-REMOVED
__global__ void k() {
  auto g = cg::this_multi_grid();  // want: FN-REMOVED
  cooperative_groups::this_multi_grid().sync();  // want: FN-REMOVED
}
void f() {
  DR::Sum(t, n, i, o, 10, s, true);  // want: CCCL-SIG
  c::DeviceReduce::Sum(t, n, i, o, 10, s);
  cub::DeviceReduce::Sum(t, n, i, o, 10, s, true);  // want: CCCL-SIG
  cub::DeviceScan::ExclusiveSum(t, n, i, o, 10, _cuda_stream);
  cub::DeviceScan::ExclusiveSum(t, n, i, o, 10, streams[0]);
  cub::DeviceScan::ExclusiveSum(t, n, i, o, 10, debug);  // want: CCCL-SIG~low
  cub::DeviceScan::ExclusiveSum(t, n, i, o, 10, true);  // want: CCCL-SIG
  int x = CUB_MIN(1, 2);  // want: CCCL-REMOVED
  std::Sum y; other::Max z;
  cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING, 1, 1, 700>::TempStorage bad;  // want: CCCL-SIG
  cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING, 1, 1>::TempStorage good;
  typedef cub::BlockReduce<T, N> Reduce;
}
""",
    "using directives": """
#include <thrust/functional.h>
struct Before : unary_function<int, int> {};
using namespace thrust;
struct After : unary_function<int, int> {};  // want: CCCL-REMOVED
void f() { using namespace cub; Max m; }  // want: CCCL-REMOVED~medium
void g() { Max m; }
namespace cub { Sum inside; }  // want: CCCL-REMOVED~medium
""",
    "names that headers no longer bring in": """
#include <thrust/device_vector.h>
auto t = thrust::make_tuple(1, 2);  // want: INCLUDE-TRANSITIVE
auto u = thrust::make_tuple(1, 2);
""",
    "names whose header is included": """
#include <thrust/device_vector.h>
#include <thrust/tuple.h>
auto t = thrust::make_tuple(1, 2);
""",
    "names that some other header brings in": """
#include "all_of_thrust.h"
auto t = thrust::make_tuple(1, 2);
""",
    "headers": """
#include <texture_fetch_functions.h>  // want: HDR-REMOVED
#  include  "thrust/optional.h"  // want: HDR-REMOVED
#if CUDART_VERSION < 13000
#include <texture_fetch_functions.h>  // want: HDR-REMOVED:inactive
#endif
#include "my/texture_fetch_functions.h"
#include THE_HEADER
""",
    "literals": """
void *a = dlopen("libcudart.so.12", RTLD_LAZY);  // want: SONAME
void *b = dlopen("/usr/local/cuda/lib64/libcudart.so.12.4.127", 1);  // want: SONAME
const char *c = "cudart64_12.dll";  // want: SONAME
const char *d[] = {"libcudart.so", "cannot load libcudart.so.12", "libcudart.so.120"};
const char *options[] = {
    "--gpu-architecture=compute_70",  // want: ARCH-REMOVED
    "-arch=sm_75", "sm_70 is old",
    "sm_70"};  // want: ARCH-REMOVED~medium
void *g = dlsym(lib, "cudaThreadSynchronize");  // want: FN-REMOVED
""",
    "kernel templates": """
template <class T> __global__ void elsewhere(T *);  // want: LINK-STUB~medium
template <class T> __global__ void here(T *);
template <class T> __global__ void here(T *) {}
template <class T> __global__ void not_launched(T *);
void f(int *p) { elsewhere<int><<<1, 1>>>(p); here<<<1, 1>>>(p); }
""",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_finds_what_a_snippet_wants_and_nothing_else(name: str) -> None:
    code = SNIPPETS[name]
    assert found(cxx.find("a.cu", code, DIFFERENCE)) == wanted(code)


@pytest.mark.parametrize("name", SNIPPETS)
def test_line_ends_of_windows_change_nothing(name: str) -> None:
    code = SNIPPETS[name].replace("\n", "\r\n")
    assert found(cxx.find("a.cu", code, DIFFERENCE)) == wanted(code)


def edited(code: str) -> str:
    """``code`` with all edits done."""
    lines = code.split("\n")
    edits = [edit for finding in cxx.find("a.cu", code, DIFFERENCE) for edit in finding.edits]
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    return "\n".join(lines)


def test_edits_replace_names_alone() -> None:
    code = """#include <thrust/device_vector.h>
namespace c = cub;
void f() { CHECK(cudaThreadSynchronize()); /* ü */ cudaThreadSynchronize(); }
cub::Sum a; ::cub::Sum b; c::Sum d;
auto t = thrust::make_tuple(1, 2);
#if CUDART_VERSION < 13000
void g() { cudaThreadSynchronize(); }
#endif
"""
    assert (
        edited(code)
        == """#include <thrust/tuple.h>
#include <thrust/device_vector.h>
namespace c = cub;
void f() { CHECK(cudaDeviceSynchronize()); /* ü */ cudaDeviceSynchronize(); }
::cuda::std::plus<> a; ::cuda::std::plus<> b; ::cuda::std::plus<> d;
auto t = thrust::make_tuple(1, 2);
#if CUDART_VERSION < 13000
void g() { cudaThreadSynchronize(); }
#endif
"""
    )


def test_headers_that_moved_break_host_compilers_alone() -> None:
    code = "#include <thrust/complex.h>\n#include <cub/cub.cuh>\n"
    rows = [(f.rule, f.severity.value) for f in cxx.find("a.cpp", code, DIFFERENCE)]
    assert rows == [("HDR-MOVED", "break")]
    behind = cxx.find("a.cpp", "#ifdef MINE\n#include <cub/cub.cuh>\n#endif\n" + code, DIFFERENCE)
    assert [f.line for f in behind] == [4]
    assert [f.severity.value for f in cxx.find("a.cu", code, DIFFERENCE)] == ["info"]
    assert [f.severity.value for f in cxx.find("a.hpp", code, DIFFERENCE)] == ["info"]
    assert [
        f.severity.value for f in cxx.find("a.cpp", code + "__global__ void k();", DIFFERENCE)
    ] == ["info"]


def test_a_finding_says_where_and_what() -> None:
    code = "/* ü */ int x = 1; void f() {\n  CHECK(\tcuCtxCreate(&c,\n      0, d)); }"
    (finding,) = cxx.find("src/a.cu", code, DIFFERENCE)
    assert (finding.file, finding.line, finding.column) == ("src/a.cu", 2, 10)
    assert finding.construct == "cuCtxCreate(&c, 0, d)"
    assert finding.message == "cuCtxCreate takes 4 arguments now; this call has 3."
    assert finding.since == "13.0"


def test_ptx_files() -> None:
    code = ".version 7.0\n.target sm_70, debug\n.target sm_80\n"
    (finding,) = cxx.find("k.ptx", code, DIFFERENCE)
    assert (finding.rule, finding.line, finding.severity.value) == ("PTX-ISA", 2, "info")
    (finding,) = cxx.find("k.cpp", f'const char *ptx = R"({code})";', DIFFERENCE)
    assert (finding.rule, finding.line) == ("PTX-ISA", 2)


ODD = {
    "a comment that does not end": "void f() { cudaThreadSynchronize(); }\n/* cudaThreadSynchronize(",
    "a string that does not end": 'void f() { cudaThreadSynchronize(); }\nconst char *s = "cudaThread',
    "a raw string that does not end": 'void f() { cudaThreadSynchronize(); }\nconst char *s = R"x(cudaThread',
    "braces that do not match": "}}} void f() { cudaThreadSynchronize(); } {{{ ((( ]]]",
    "letters outside of ASCII": "int größe = 1; /* \ufffd */ void f() { cudaThreadSynchronize(); } // 🚀",
    "a byte order mark": "\ufeff#include <x>\nvoid f() { cudaThreadSynchronize(); }",
    "zero bytes": "void f() { \0 cudaThreadSynchronize(); }",
    "many parentheses": "int x = " + "(" * 5000 + "cudaThreadSynchronize()" + ")" * 5000 + ";",
    "many braces": "void f() " + "{" * 5000 + "cudaThreadSynchronize();" + "}" * 5000,
    "templates in templates": "T<" * 2000
    + "int"
    + ">" * 2000
    + " x; void f() { cudaThreadSynchronize(); }",
    "macros that double": "".join(f"#define M{i}(x) M{i + 1}(x) M{i + 1}(x)\n" for i in range(40))
    + "#define M40(x) x()\nvoid f() { cudaThreadSynchronize(); }",
    "macros of themselves": "#define A(f, ...) B(f, __VA_ARGS__)\n#define B(f, ...) A(f, __VA_ARGS__) f(1)\n"
    "void f() { A(cudaMemPrefetchAsync, 1); cudaThreadSynchronize(); }",
    "types of themselves": "typedef a b; typedef b a; using c = c; a x; "
    "void f() { auto y = y; x.clockRate; y.clockRate; cudaThreadSynchronize(); }",
    "namespaces of themselves": "namespace a = b; namespace b = a; a::Sum x; void f() { cudaThreadSynchronize(); }",
}


@pytest.mark.parametrize("name", ODD)
def test_survives(name: str) -> None:
    rules = {finding.rule for finding in cxx.find("a.cu", ODD[name], DIFFERENCE)}
    assert "FN-REMOVED" in rules


_PIECES = st.sampled_from(
    [
        *(
            "cudaThreadSynchronize",
            "cudaDeviceProp",
            "clockRate",
            "cub",
            "::",
            "Sum",
            "p",
            ".",
            "->",
            "(",
            ")",
        ),
        *(
            "{",
            "}",
            "<",
            ">",
            ";",
            ",",
            "&",
            "*",
            "=",
            "struct ",
            "template",
            "typedef ",
            "using ",
            "namespace ",
        ),
        *(
            "\n#define M(x) ",
            "\n#if X\n",
            "\n#else\n",
            "\n#endif\n",
            "\\\n",
            "//",
            "/*",
            "*/",
            '"',
            "'",
            'R"(',
        ),
        *(
            "auto ",
            "[&]",
            "operator",
            "cudaMemPrefetchAsync",
            "__VA_ARGS__",
            "...",
            "#",
            "##",
            "<<<",
            ">>>",
            "\r\n",
        ),
    ]
)


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_no_text_stops_it(code: str) -> None:
    for finding in cxx.find("a.cu", code, DIFFERENCE):
        assert 1 <= finding.line <= code.count("\n") + 1
        assert finding.column >= 1
