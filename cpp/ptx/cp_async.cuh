// cp.async: 16-byte copies from global to shared memory that bypass registers (PTX ISA, "cp.async", sm_80).
#pragma once

#include <cstdint>

namespace fa3::ptx {

// Copies 16 bytes, or writes 16 zero bytes and reads nothing when `valid` is false.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Returns once at most `kPending` of this thread's newest groups are still in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace fa3::ptx
