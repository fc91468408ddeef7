// What every kernel does with the rows of its accumulators: a thread holds pairs of columns of each n8 tile, and a row
// is spread over four lanes (see ptx/mma.cuh).
#pragma once

#include <cmath>

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
// from `first_key` on. Without kHasBegin, keys.begin is taken to be no later than that.
template <int kTilesN, bool kHasBegin, typename Score>
__device__ __forceinline__ void mask_row(const KeyRange& keys, int first_key, const Score& score) {
  const int begin = keys.begin - first_key, end = keys.end - first_key;
#pragma unroll
  for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = n * 8 + i;
      if ((kHasBegin && key < begin) || key >= end) score(n, i) = -INFINITY;
    }
  }
}

}  // namespace fa3
