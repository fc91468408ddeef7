// What every kernel does with the rows of its accumulators: a thread holds pairs of columns of each n8 tile, and a row
// is spread over four lanes (see ptx/mma.cuh).
#pragma once

#include <cmath>
#include <cstdint>

#include "attention/mask.h"

namespace fa3 {

__device__ __forceinline__ float quad_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// This lane's first key of a block that begins at `first`.
__device__ __forceinline__ int lane_key(int first) {
  return first + threadIdx.x % 4 * 2;
}

// Minus infinity for the keys that a row may not see. `score(n, i)`: this lane's of column tile n and half i, counted
// from `first_key` on. By a bit a score, since the compilers move bits to predicates seven at a time.
template <int kTilesN, typename Score>
__device__ __forceinline__ void mask_row(const KeyRange& keys, int first_key, const Score& score) {
  constexpr int kWordTiles = kMaskKeys / 8;
#pragma unroll
  for (int first = 0; first < kTilesN; first += kWordTiles) {
    const uint32_t seen = seen_scores(keys, first_key + first * 8);
#pragma unroll
    for (int n = first; n < first + kWordTiles && n < kTilesN; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if ((seen >> (2 * (n - first) + i) & 1) == 0) score(n, i) = -INFINITY;
      }
    }
  }
}

}  // namespace fa3
