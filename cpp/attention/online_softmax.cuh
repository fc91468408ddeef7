// Online softmax over the accumulator fragments of m16n8k16 (see ptx/mma.cuh): a row's keys are spread over four lanes.
//
// Scores arrive in units that `scale` turns into base-2 exponents. Each row keeps a reference exponent: its running
// maximum, except that it follows the maximum only when that has grown by more than kSlack (the idea of
// FlashAttention-4). Probabilities then stay below 2^kSlack, which neither fp16 operands nor fp32 sums overflow, and
// the output is rarely rescaled. The decision is a row's own: its result does not depend on its neighbours.
#pragma once

#include <cfloat>
#include <cstdint>

#include "attention/fragment_rows.cuh"
#include "ptx/math.cuh"

namespace fa3 {

template <int kMmaM>
struct OnlineSoftmax {
  static constexpr float kSlack = 8.f;

  float scale;                // positive
  float reference[kMmaM][2];  // in exponents; -FLT_MAX until the row has seen a key
  float sum[kMmaM][2];        // of this lane's keys

  __device__ __forceinline__ explicit OnlineSoftmax(float scale_) : scale(scale_) {
#pragma unroll
    for (int m = 0; m < kMmaM; ++m) {
      reference[m][0] = reference[m][1] = -FLT_MAX;
      sum[m][0] = sum[m][1] = 0.f;
    }
  }

  // Takes in the maxima of new scores; rescales `out` where a reference moves.
  template <int kTilesN, int kTilesD>
  __device__ __forceinline__ void update(const float (&scores)[kMmaM][kTilesN][4], float (&out)[kMmaM][kTilesD][4]) {
    float maximum[kMmaM][2];
    bool grown = false;
#pragma unroll
    for (int m = 0; m < kMmaM; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float best = fmaxf(scores[m][0][2 * r], scores[m][0][2 * r + 1]);
#pragma unroll
        for (int n = 1; n < kTilesN; ++n) best = fmaxf(best, fmaxf(scores[m][n][2 * r], scores[m][n][2 * r + 1]));
        maximum[m][r] = best * scale;
        grown |= maximum[m][r] - kSlack > reference[m][r];
      }
    }
    if (__any_sync(~0u, grown)) follow(maximum, out);
  }

  // exp2 of a score relative to its row's reference, added to the row's sum.
  __device__ __forceinline__ float probability(float score, int m, int r) {
    const float p = ptx::exp2_approx(fmaf(score, scale, -reference[m][r]));
    sum[m][r] += p;
    return p;
  }

  // The sum over all keys of row (m, r).
  __device__ __forceinline__ float total(int m, int r) const { return quad_sum(sum[m][r]); }

 private:
  template <int kTilesD>
  __device__ __forceinline__ void follow(const float (&maximum)[kMmaM][2], float (&out)[kMmaM][kTilesD][4]) {
#pragma unroll
    for (int m = 0; m < kMmaM; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float best = quad_maximum(maximum[m][r]);
        const float next = best - kSlack > reference[m][r] ? best : reference[m][r];
        const float rescale = ptx::exp2_approx(reference[m][r] - next);  // 1 where nothing moved
        reference[m][r] = next;
        sum[m][r] *= rescale;
#pragma unroll
        for (int d = 0; d < kTilesD; ++d) out[m][d][2 * r] *= rescale, out[m][d][2 * r + 1] *= rescale;
      }
    }
  }
};

}  // namespace fa3
