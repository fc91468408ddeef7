// What the kernels that test the PTX layer share.
#pragma once

#include <cstdint>

namespace fa3::test {

// A NaN to whoever reads it as bf16, fp16 or fp32, and no test writes it: what was to be written and was not, shows.
constexpr uint32_t kPoison = 0xFFFFFFFF;

extern __shared__ __align__(1024) uint8_t shared_memory[];

// Called by all threads; they may use the memory on return.
__device__ __forceinline__ void poison_shared(int bytes) {
  for (int i = threadIdx.x * 4; i < bytes; i += blockDim.x * 4) {
    *reinterpret_cast<uint32_t*>(shared_memory + i) = kPoison;
  }
  __syncthreads();
}

// By all threads, in 16-byte pieces; the caller synchronises.
__device__ __forceinline__ void copy_bytes(void* to, const void* from, int bytes) {
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
    static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
  }
}

}  // namespace fa3::test
