// Special registers, read anew at every use: a value that the compiler need not keep costs no register in a long loop.
#pragma once

#include <cstdint>

namespace fa3::ptx {

__device__ __forceinline__ uint32_t thread_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

}  // namespace fa3::ptx
