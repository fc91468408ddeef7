// Online softmax over one warpgroup accumulator: each thread holds two rows' scores, a row's keys spread over four lanes.
//
// Unlike attention/online_softmax.cuh the reference follows the maximum at every block: a branch around accumulators that wgmma
// owns costs more than the rescale it would save (measured: 4%).
#pragma once

#include <cfloat>

#include "ptx/math.cuh"

namespace fa3::sm90 {

struct RowSoftmax {
  float scale;       // turns scores into base-2 exponents; positive
  float maximum[2];  // in exponents; -FLT_MAX until the row has seen a key
  float sum[2];      // of this lane's keys

  __device__ __forceinline__ explicit RowSoftmax(float scale_) : scale(scale_) { reset(); }

  __device__ __forceinline__ void reset() {
    maximum[0] = maximum[1] = -FLT_MAX;
    sum[0] = sum[1] = 0.f;
  }

  // Turns scores into probabilities; `rescale` is what multiplies the output so far.
  template <int kCount>
  __device__ __forceinline__ void update(float (&s)[kCount], float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float best = fmaxf(s[2 * r], s[2 * r + 1]);
#pragma unroll
      for (int i = 4; i < kCount; i += 4) best = fmaxf(best, fmaxf(s[i + 2 * r], s[i + 2 * r + 1]));
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
      best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
      best = fmaxf(best * scale, maximum[r]);
      rescale[r] = ptx::exp2_approx(maximum[r] - best);
      maximum[r] = best;
      float block_sum = 0.f;
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = s[i + 2 * r + c];
          x = ptx::exp2_approx(fmaf(x, scale, -best));
          block_sum += x;
        }
      }
      sum[r] = sum[r] * rescale[r] + block_sum;
    }
  }

  // The sum over all keys of row r.
  __device__ __forceinline__ float total(int r) const {
    const float s = sum[r] + __shfl_xor_sync(~0u, sum[r], 1);
    return s + __shfl_xor_sync(~0u, s, 2);
  }
};

}  // namespace fa3::sm90
