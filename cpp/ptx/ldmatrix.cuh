// ldmatrix: four 8x8 matrices of 16-bit elements from shared memory into a warp's MMA fragments (sm_75).
// Lanes 8i..8i+7 give the addresses of matrix i's rows; lane l receives elements 2(l%4), 2(l%4)+1 of row l/4 of each.
// The transposed form hands out columns in place of rows.
#pragma once

#include <cstdint>

namespace fa3::ptx {

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&d)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&d)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address));
}

}  // namespace fa3::ptx
