// mma.sync m16n8k16 with fp32 accumulators, and the conversions that feed it (PTX ISA, "mma", sm_80).
// Fragments of lane l, with g = l / 4 and t = l % 4:
//   d[0..1]: row g,     columns 2t, 2t+1        d[2..3]: row g + 8
//   a[0]: row g, k 2t..   a[1]: row g + 8, k 2t..   a[2]: row g, k 8+2t..   a[3]: row g + 8, k 8+2t..
//   b0: k 2t.., column g          b1: k 8+2t.., column g
#pragma once

#include <cstdint>

namespace fa3 {

struct Bf16 {};
struct Fp16 {};

namespace ptx {

// d = a * b + c; a literal zero c costs no register.
template <typename Element>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                             const float (&c)[4]);

template <>
__device__ __forceinline__ void mma_m16n8k16<Bf16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                                   const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<Fp16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                                   const float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Two fp32 values rounded to nearest even, `low` in the low half.
template <typename Element>
__device__ __forceinline__ uint32_t pack(float low, float high);

template <>
__device__ __forceinline__ uint32_t pack<Bf16>(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <>
__device__ __forceinline__ uint32_t pack<Fp16>(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace ptx
}  // namespace fa3
