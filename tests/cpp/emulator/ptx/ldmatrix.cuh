// Stand-in for cpp/ptx/ldmatrix.cuh.
#pragma once

#include "ptx/shared.cuh"

namespace fa3::ptx {

inline void ldmatrix(uint32_t (&d)[4], uint32_t address, bool transposed) {
  const auto rows = emulator::cta().exchange(address, "ldmatrix");
  const int lane = threadIdx.x % 32;
  const auto element = [&](int matrix, int row, int column) -> uint32_t {
    return reinterpret_cast<const uint16_t*>(emulator::at(rows[matrix * 8 + row], 16))[column];
  };
  for (int m = 0; m < 4; ++m) {
    const int row = lane / 4, column = lane % 4 * 2;
    d[m] = transposed ? element(m, column, row) | element(m, column + 1, row) << 16
                      : element(m, row, column) | element(m, row, column + 1) << 16;
  }
}
inline void ldmatrix_x4(uint32_t (&d)[4], uint32_t address) {
  ldmatrix(d, address, false);
}
inline void ldmatrix_x4_trans(uint32_t (&d)[4], uint32_t address) {
  ldmatrix(d, address, true);
}

}  // namespace fa3::ptx
