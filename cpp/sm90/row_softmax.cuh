// Online softmax over one warpgroup accumulator: each thread holds two rows' scores, a row's keys spread over four
// lanes.
//
// Optimistic: a block's scores become probabilities by the reference that the blocks before have left, without looking
// for their maximum. Only if that makes them large is the maximum found, the reference moved to it, and the block done
// again from its scores; it is rare, and saves a comparison an element, four shuffles, and the rescale of the output.
// Unlike attention/online_softmax.cuh, which looks before it exponentiates.
#pragma once

#include <cfloat>
#include <cstdint>

#include "attention/fragment_rows.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"

namespace fa3::sm90 {

template <typename Element>
class RowSoftmax {
  // Of a lane's sum over a block, so that no probability overflows fp16. Smaller ones lose nothing: the largest of a
  // row is at least 1 from the block on that set its reference.
  static constexpr float kLimit = 16384.f;

 public:
  __device__ __forceinline__ explicit RowSoftmax(float scale) : scale_(scale) {}

  // The first block of a row tile. The maximum over a quarter of its keys is the reference to begin with.
  template <int kCount>
  __device__ __forceinline__ void begin(const float (&s)[kCount], uint32_t (&p)[kCount / 2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) reference_[r] = fmaxf(maximum<4>(s, r), -FLT_MAX), sum_[r] = 0.f;
    float rescale[2];  // of nothing yet
    update(s, p, rescale);
  }

  // A further block's scores to probabilities. True if a reference of the warp has moved: `rescale` then multiplies the
  // output of the blocks before. Each row's reference is its own affair: it does not depend on its neighbours.
  template <int kCount>
  __device__ __forceinline__ bool update(const float (&s)[kCount], uint32_t (&p)[kCount / 2], float (&rescale)[2]) {
    float block_sum[2];
    exponentiate(s, p, block_sum);
    const bool moved = __any_sync(~0u, block_sum[0] > kLimit || block_sum[1] > kLimit);
    if (moved) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float best = maximum<1>(s, r);  // by all lanes, whichever row is theirs: they exchange values
        const float next = quad_maximum(block_sum[r]) > kLimit ? best : reference_[r];
        rescale[r] = ptx::exp2_approx(reference_[r] - next);
        reference_[r] = next;
        sum_[r] *= rescale[r];
      }
      exponentiate(s, p, block_sum);
    }
    sum_[0] += block_sum[0], sum_[1] += block_sum[1];
    return moved;
  }

  // Exponent that row r's probabilities are relative to; -FLT_MAX if it has seen no key.
  __device__ __forceinline__ float reference(int r) const { return reference_[r]; }

  // The sum over all keys of row r.
  __device__ __forceinline__ float total(int r) const { return quad_sum(sum_[r]); }

 private:
  // Of row r, over its first column tile and every kEvery-th after, in exponents.
  template <int kEvery, int kCount>
  __device__ __forceinline__ float maximum(const float (&s)[kCount], int r) const {
    float even = s[2 * r], odd = s[2 * r + 1];
#pragma unroll
    for (int i = 4 * kEvery; i < kCount; i += 4 * kEvery)
      even = fmaxf(even, s[i + 2 * r]), odd = fmaxf(odd, s[i + 2 * r + 1]);
    return quad_maximum(fmaxf(even, odd)) * scale_;
  }

  // Accumulators of S, rounded in pairs, already have the layout of P's fragments.
  template <int kCount>
  __device__ __forceinline__ void exponentiate(const float (&s)[kCount], uint32_t (&p)[kCount / 2],
                                               float (&block_sum)[2]) const {
    float sums[2] = {};
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const int r = i / 2 % 2;
      const float even = ptx::exp2_approx(fmaf(s[i], scale_, -reference_[r]));
      const float odd = ptx::exp2_approx(fmaf(s[i + 1], scale_, -reference_[r]));
      sums[r] += even + odd;
      p[i / 2] = ptx::pack<Element>(even, odd);
    }
    block_sum[0] = sums[0], block_sum[1] = sums[1];
  }

  float scale_;         // turns scores into base-2 exponents; positive
  float reference_[2];  // in exponents
  float sum_[2];        // of this lane's keys
};

}  // namespace fa3::sm90
