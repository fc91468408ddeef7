// What a thread knows of itself, and what its warp agrees on.
#pragma once

#include <cstdint>

namespace fa3::ptx {

// threadIdx.x, read anew at every use: a value that the compiler need not keep costs no register in a long loop.
__device__ __forceinline__ uint32_t thread_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

// A value that is the same in all lanes, made visible as such to the compiler. wgmma under a branch that might diverge
// is serialised (C7519).
template <typename T>
__device__ __forceinline__ T warp_uniform(T value) {
  return __shfl_sync(~0u, value, 0);
}

}  // namespace fa3::ptx
