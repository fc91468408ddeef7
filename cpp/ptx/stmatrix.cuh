// stmatrix: four 8x8 matrices of 16-bit elements from a warp's registers to shared memory, the way back of ldmatrix
// (sm_90). Lanes 8i..8i+7 give the addresses of matrix i's rows; lane l brings elements 2(l%4), 2(l%4)+1 of row l/4 of
// each.
#pragma once

#include <cstdint>

namespace fa3::ptx {

__device__ __forceinline__ void stmatrix_x4(uint32_t address, const uint32_t (&d)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(d[0]), "r"(d[1]),
               "r"(d[2]), "r"(d[3])
               : "memory");
}

}  // namespace fa3::ptx
