// wgmma: matrix multiply-accumulate of a warpgroup, asynchronous, fp32 accumulators in registers (PTX ISA, "wgmma",
// sm_90a).
//
// A warpgroup is four consecutive warps whose first index is a multiple of four; warp w owns rows 16w..16w+15 of the
// 64. In each warp the accumulator of an n8 column tile is laid out as d of m16n8k16 (see mma.cuh), and so is A when it
// comes from registers. B comes from shared memory through a descriptor: N x 16 elements, K-major (kTransB = 0),
// or 16 x N, MN-major (kTransB = 1).
#pragma once

#include <cstdint>

#include "ptx/mma.cuh"

namespace fa3::ptx {

// Orders this warpgroup's register writes before the wgmma that read or accumulate into them.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Returns once at most `kPending` of the newest groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads of accumulators before the wait that makes them valid.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Zeroes accumulators at this very place: a plain assignment may be moved under a running wgmma, which serialises it
// (C7515).
template <int kCount>
__device__ __forceinline__ void wgmma_clear(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("mov.b32 %0, 0;" : "=f"(d[i]));
}

// Under a branch, an assignment may become a selection that every thread makes at every time.
__device__ __forceinline__ void clear_if(bool condition, float& x) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n@p mov.b32 %0, 0;\n}"
               : "+f"(x)
               : "r"(static_cast<uint32_t>(condition)));
}

template <typename Element, int kN, int kTransB>
struct Wgmma;

// Operand lists of 8 * n accumulators, and the one asm statement that all shapes share: operand numbers must be
// literals.
// clang-format off
#define FA3_LIST_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FA3_LIST_2 FA3_LIST_1 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define FA3_LIST_3 FA3_LIST_2 ", " "%16, %17, %18, %19, %20, %21, %22, %23"
#define FA3_LIST_4 FA3_LIST_3 ", " "%24, %25, %26, %27, %28, %29, %30, %31"
#define FA3_LIST_5 FA3_LIST_4 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define FA3_LIST_6 FA3_LIST_5 ", " "%40, %41, %42, %43, %44, %45, %46, %47"
#define FA3_LIST_7 FA3_LIST_6 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define FA3_LIST_8 FA3_LIST_7 ", " "%56, %57, %58, %59, %60, %61, %62, %63"
#define FA3_LIST_9 FA3_LIST_8 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define FA3_LIST_10 FA3_LIST_9 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define FA3_LIST_11 FA3_LIST_10 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define FA3_LIST_12 FA3_LIST_11 ", " "%88, %89, %90, %91, %92, %93, %94, %95"
#define FA3_LIST_13 FA3_LIST_12 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define FA3_LIST_14 FA3_LIST_13 ", " "%104, %105, %106, %107, %108, %109, %110, %111"
#define FA3_LIST_15 FA3_LIST_14 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define FA3_LIST_16 FA3_LIST_15 ", " "%120, %121, %122, %123, %124, %125, %126, %127"

#define FA3_EIGHT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define FA3_REGS_1 FA3_EIGHT(0)
#define FA3_REGS_2 FA3_REGS_1, FA3_EIGHT(8)
#define FA3_REGS_3 FA3_REGS_2, FA3_EIGHT(16)
#define FA3_REGS_4 FA3_REGS_3, FA3_EIGHT(24)
#define FA3_REGS_5 FA3_REGS_4, FA3_EIGHT(32)
#define FA3_REGS_6 FA3_REGS_5, FA3_EIGHT(40)
#define FA3_REGS_7 FA3_REGS_6, FA3_EIGHT(48)
#define FA3_REGS_8 FA3_REGS_7, FA3_EIGHT(56)
#define FA3_REGS_9 FA3_REGS_8, FA3_EIGHT(64)
#define FA3_REGS_10 FA3_REGS_9, FA3_EIGHT(72)
#define FA3_REGS_11 FA3_REGS_10, FA3_EIGHT(80)
#define FA3_REGS_12 FA3_REGS_11, FA3_EIGHT(88)
#define FA3_REGS_13 FA3_REGS_12, FA3_EIGHT(96)
#define FA3_REGS_14 FA3_REGS_13, FA3_EIGHT(104)
#define FA3_REGS_15 FA3_REGS_14, FA3_EIGHT(112)
#define FA3_REGS_16 FA3_REGS_15, FA3_EIGHT(120)

#define FA3_WGMMA_OF(ELEMENT, TYPE, N, CHUNKS, I0, I1, I2, I3, I4)                                                      \
  template <int kTransB>                                                                                              \
  struct Wgmma<ELEMENT, N, kTransB> {                                                                                 \
    /* d = a b, or d += a b when `accumulate`; both operands in shared memory, A K-major. */                           \
    __device__ __forceinline__ static void shared(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {         \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " I2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE  \
                   "." TYPE " {" FA3_LIST_##CHUNKS "}, " I0 ", " I1 ", p, 1, 1, 0, " I3 ";\n}\n"                       \
                   : FA3_REGS_##CHUNKS                                                                                \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransB));                                                  \
    }                                                                                                                 \
    /* d += a b with A in registers. */                                                                               \
    __device__ __forceinline__ static void registers(float (&d)[N / 2], const uint32_t* a, uint64_t b) {               \
      asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "."     \
                   TYPE " {" FA3_LIST_##CHUNKS "}, {" I0 ", " I1 ", " I2 ", " I3 "}, " I4 ", p, 1, 1, "                   \
                   FA3_TRANS_##CHUNKS ";\n}\n"                                                                          \
                   : FA3_REGS_##CHUNKS                                                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransB));                               \
    }                                                                                                                 \
  };
#define FA3_WGMMA(N, CHUNKS, ...)                          \
  FA3_WGMMA_OF(Bf16, "bf16", N, CHUNKS, __VA_ARGS__)       \
  FA3_WGMMA_OF(Fp16, "f16", N, CHUNKS, __VA_ARGS__)

#define FA3_TRANS_1 "%13"
#define FA3_TRANS_2 "%21"
#define FA3_TRANS_3 "%29"
#define FA3_TRANS_4 "%37"
#define FA3_TRANS_5 "%45"
#define FA3_TRANS_6 "%53"
#define FA3_TRANS_7 "%61"
#define FA3_TRANS_8 "%69"
#define FA3_TRANS_9 "%77"
#define FA3_TRANS_10 "%85"
#define FA3_TRANS_11 "%93"
#define FA3_TRANS_12 "%101"
#define FA3_TRANS_13 "%109"
#define FA3_TRANS_14 "%117"
#define FA3_TRANS_15 "%125"
#define FA3_TRANS_16 "%133"

FA3_WGMMA(16, 1, "%8", "%9", "%10", "%11", "%12")
FA3_WGMMA(32, 2, "%16", "%17", "%18", "%19", "%20")
FA3_WGMMA(48, 3, "%24", "%25", "%26", "%27", "%28")
FA3_WGMMA(64, 4, "%32", "%33", "%34", "%35", "%36")
FA3_WGMMA(80, 5, "%40", "%41", "%42", "%43", "%44")
FA3_WGMMA(96, 6, "%48", "%49", "%50", "%51", "%52")
FA3_WGMMA(112, 7, "%56", "%57", "%58", "%59", "%60")
FA3_WGMMA(128, 8, "%64", "%65", "%66", "%67", "%68")
FA3_WGMMA(144, 9, "%72", "%73", "%74", "%75", "%76")
FA3_WGMMA(160, 10, "%80", "%81", "%82", "%83", "%84")
FA3_WGMMA(176, 11, "%88", "%89", "%90", "%91", "%92")
FA3_WGMMA(192, 12, "%96", "%97", "%98", "%99", "%100")
FA3_WGMMA(208, 13, "%104", "%105", "%106", "%107", "%108")
FA3_WGMMA(224, 14, "%112", "%113", "%114", "%115", "%116")
FA3_WGMMA(240, 15, "%120", "%121", "%122", "%123", "%124")
FA3_WGMMA(256, 16, "%128", "%129", "%130", "%131", "%132")
// clang-format on

#undef FA3_WGMMA
#undef FA3_WGMMA_OF

}  // namespace fa3::ptx
