"""States of what stands between directives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import DIFFERENCE
from wanted import found, wanted

from fa3_matrix.migrate.scan import cxx
from fa3_matrix.migrate.scan.index import index_of
from fa3_matrix.migrate.scan.unit import unit_of

SNIPPETS = {
    "versions": """
#if CUDART_VERSION < 13000
  int a = (cudaThreadSynchronize(), 1);  // want: FN-REMOVED:inactive
#elif defined(SOMETHING)
  int b = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#else
  int c = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#if CUDART_VERSION >= 13000
  int d = cudaThreadSynchronize();  // want: FN-REMOVED
#elif defined(SOMETHING)
  int e = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#endif
#ifdef CUDART_VERSION
  int f = cudaThreadSynchronize();  // want: FN-REMOVED
#else
  int g = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#endif
#if CUDART_VERSION < 4000
  int h = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#endif
""",
    "what nobody compiles": """
#if 0
  int a = cudaThreadSynchronize();
#elif 1
  int b = cudaThreadSynchronize();  // want: FN-REMOVED
#else
  int c = cudaThreadSynchronize();
#endif
#if CUDART_VERSION < 13000
  int e = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#if 0
  int f = cudaThreadSynchronize();
#endif
#endif
#ifdef __HIP_PLATFORM_AMD__
  int d = cudaThreadSynchronize();
#endif
""",
    "macros of the project": """
#ifdef UM_HINTS
  int a = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
#define USE_OLD (CUDART_VERSION < 13000)
#if USE_OLD
  int b = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#endif
#if CUDART_VERSION >= 13000
#define NEW_API
#endif
#ifndef NEW_API
  int c = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
#endif
#define FLAG 1
#if FLAG
  int d = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#undef FLAG
#if FLAG
  int e = cudaThreadSynchronize();
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#ifdef BLOCK
  int f = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#if BLOCK > 128
  int g = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
""",
    "what holds where the build says nothing": """
#ifndef WITH_HIP
  int a = cudaThreadSynchronize();  // want: FN-REMOVED
#else
  int b = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
#if !defined(WITH_HIP) && CUDART_VERSION >= 13000
  int c = cudaThreadSynchronize();  // want: FN-REMOVED
#elif !WITH_HIP
  int d = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
#if LEVEL > 2
  int e = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#elif LEVEL == 2
  int f = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#else
  int g = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#ifdef WITH_HIP
#undef BLOCKING
#else
#define BLOCKING
#endif
#ifdef BLOCKING
  int h = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#define FAST
#ifdef WITH_HIP
#undef FAST
#endif
#ifdef FAST
  int i = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
""",
    "guards of the toolkit's headers": """
#ifdef __DRIVER_TYPES_H__
  int a = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#ifdef _CUFFT_H_
  int b = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
""",
    "compilers and platforms": """
#ifdef __CUDACC__
  int a = cudaThreadSynchronize();  // want: FN-REMOVED
#else
  int b = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
#if defined(_WIN32) && defined(MINE)
  int c = cudaThreadSynchronize();  // want: FN-REMOVED:latent
#elif __CUDA_ARCH__ >= 700
  int d = cudaThreadSynchronize();  // want: FN-REMOVED
#endif
""",
    "an include guard": """
#ifndef MY_HEADER_H
#define MY_HEADER_H
inline int a() { return cudaThreadSynchronize(); }  // want: FN-REMOVED
#endif
""",
    "an include guard with a value": """
#if !defined(MY_HEADER_H)
#define MY_HEADER_H 1
inline int a() { return cudaThreadSynchronize(); }  // want: FN-REMOVED
#endif /* MY_HEADER_H */
""",
    "statements that guards cut in two": """
void f(void *p, int device, cudaStream_t s, cudaMemLocation where) {
  if (device) {
    cudaMemPrefetchAsync(p, 4,
#if CUDART_VERSION < 13000
      device,
#else
      where, 0,
#endif
      s);
#ifdef MORE
  } else if (p) {
    cudaThreadSynchronize();  // want: FN-REMOVED:latent
#endif
  }
}
#if CUDART_VERSION < 13000
void g(int x) {
#else
void g(long x) {
#endif
  cudaThreadSynchronize();  // want: FN-REMOVED
}
""",
    "macros whose definition depends on the toolkit": """
#if CUDART_VERSION < 13000
#define SYNC cudaThreadSynchronize  // want: FN-REMOVED:inactive
#else
#define SYNC cudaDeviceSynchronize
#endif
void f() { SYNC(); }
""",
    "directives that continue, and odd ones": """
# if CUDART_VERSION \\
   < 13000
  int a = cudaThreadSynchronize();  // want: FN-REMOVED:inactive
# endif
#endif
#else
#if
#ifdef
#elif (
#nonsense cudaThreadSynchronize
#error don't use cudaThreadSynchronize()
  int b = cudaThreadSynchronize();  // want: FN-REMOVED:latent
""",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_states(name: str) -> None:
    code = SNIPPETS[name]
    assert found(cxx.find("a.cu", code, DIFFERENCE)) == wanted(code)


_LINES = st.lists(
    st.sampled_from(
        [
            "#if CUDART_VERSION < 13000",
            "#ifdef A",
            "#if !defined(A)",
            "#if 0",
            "#elif B",
            "#else",
            "#endif",
            "#define A 1",
            "cudaThreadSynchronize();",
            "{",
            "}",
        ]
    ),
    max_size=40,
)


@given(_LINES)
def test_views_show_every_use_that_has_a_state(lines: list[str]) -> None:
    code = "\n".join(lines)
    unit = unit_of("a.cu", code, index_of(DIFFERENCE))
    offsets = [i for i in range(len(code)) if code.startswith("cudaThreadSynchronize", i)]
    shown = set()
    for view, branches in unit.guards.views(offsets):
        assert len(view) == len(code)
        assert view.count(b"\n") == code.count("\n")
        here = {o for o in offsets if view.startswith(b"cudaThreadSynchronize", o)}
        assert here == {o for o in offsets if unit.guards.at(o) in branches}
        shown |= here
    assert shown == {o for o in offsets if unit.guards.at(o).state is not None}
