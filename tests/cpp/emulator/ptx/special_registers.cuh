// Stand-in for cpp/ptx/special_registers.cuh.
#pragma once

#include "emulator.h"

namespace fa3::ptx {

inline uint32_t thread_index() {
  return threadIdx.x;
}
template <typename T>
T warp_uniform(T value) {
  const T uniform = __shfl_sync(~0u, value, 0);
  if (uniform != value) throw emulator::Failure("warp_uniform of a value that is not");
  return uniform;
}

}  // namespace fa3::ptx
