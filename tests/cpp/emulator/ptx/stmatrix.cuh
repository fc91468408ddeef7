// Stand-in for cpp/ptx/stmatrix.cuh.
#pragma once

#include "ptx/shared.cuh"

namespace fa3::ptx {

inline void stmatrix_x4(uint32_t address, const uint32_t (&d)[4]) {
  const auto rows = emulator::cta().exchange(address, "stmatrix");
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t m = 0; m < 4; ++m)
    reinterpret_cast<uint32_t*>(emulator::at(rows[m * 8 + lane / 4], 16))[lane % 4] = d[m];
}

}  // namespace fa3::ptx
