// What the compilers would order otherwise.
#pragma once

namespace fa3::ptx {

// What is written before comes before what is written after, at no cost: `ptxas` schedules the blocks between branches,
// and only then removes a branch whose condition an earlier one has settled. One of them stays. So it does in kernels of
// thousands of instructions, both toolkits (tests/cpp/test_softmax_order.py); in small ones it joins the blocks first.
// `never` must be false and not known to be, as of a comparison with an argument.
__device__ __forceinline__ void keep_order(bool never) {
  if (never) asm volatile("exit;");
}

// a * b + c, rounded once, at this very place: a plain one moves down to where it is needed.
__device__ __forceinline__ float fma_in_place(float a, float b, float c) {
  float d;
  asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

__device__ __forceinline__ float add_in_place(float a, float b) {
  float sum;
  asm volatile("add.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

}  // namespace fa3::ptx
