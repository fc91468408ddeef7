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
#include "ptx/schedule.cuh"
#include "ptx/special_registers.cuh"

namespace fa3::sm90 {

template <typename Traits>
class RowSoftmax {
  using Element = typename Traits::Element;
  // Of a lane's sum over a block, so that no probability overflows fp16. Smaller ones lose nothing: the largest of a
  // row is at least 1 from the block on that set its reference.
  static constexpr float kLimit = 16384.f;

 public:
  __device__ __forceinline__ explicit RowSoftmax(float scale) : scale_(ptx::warp_uniform(scale)) {}

  // The first block of a row tile. The maximum over a quarter of its keys is the reference to begin with.
  template <int kCount>
  __device__ __forceinline__ void begin(const float (&s)[kCount], uint32_t (&p)[kCount / 2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) reference_[r] = fmaxf(maximum<4>(s, r), -FLT_MAX), sum_[r] = 0.f;
    float rescale[2];  // of nothing yet
    update(s, p, rescale, [] {});
  }

  // A further block's scores to probabilities. True if a reference of the warp has moved: `rescale` then multiplies the
  // output of the blocks before. Each row's reference is its own affair: it does not depend on its neighbours.
  // `free_p`: called before p is written.
  template <int kCount, typename FreeP>
  __device__ __forceinline__ bool update(const float (&s)[kCount], uint32_t (&p)[kCount / 2], float (&rescale)[2],
                                         const FreeP& free_p) {
    float block_sum[2];
    exponentiate(s, p, block_sum, free_p);
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
      exponentiate(s, p, block_sum, [] {});
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
  template <int kCount, typename FreeP>
  __device__ __forceinline__ void exponentiate(const float (&s)[kCount], uint32_t (&p)[kCount / 2],
                                               float (&block_sum)[2], const FreeP& free_p) const {
    block_sum[0] = block_sum[1] = 0.f;
    if constexpr (Traits::kOrdersSoftmax) {
      exponentiate_in_order(s, p, block_sum, free_p);
    } else {
      free_p();
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const float reference = reference_[i / 2 % 2];
        const float even = ptx::exp2_approx(fmaf(s[i], scale_, -reference));
        const float odd = ptx::exp2_approx(fmaf(s[i + 1], scale_, -reference));
        block_sum[i / 2 % 2] += even + odd;
        p[i / 2] = ptx::pack<Element>(even, odd);
      }
    }
  }

  // An exponential takes its time, the more so beside a running wgmma, and the compilers would let what follows wait for
  // it. So in steps of two: some exponents early, two exponentials, and sums well behind them; and P once P V of the block
  // before has left it, up to four a step until they have caught up.
  template <int kCount, typename FreeP>
  __device__ __forceinline__ void exponentiate_in_order(const float (&s)[kCount], uint32_t (&p)[kCount / 2],
                                                        float (&sum)[2], const FreeP& free_p) const {
    constexpr int kEarly = 8, kBehind = Traits::kSumsBehind, kFree = Traits::kExponentialsBeforeP;
    constexpr int kCatchUp = kFree - kCount / 2, kLast = kCount + (kBehind > kCatchUp ? kBehind : kCatchUp);
    static_assert(kEarly <= kCount && kFree <= kCount);
    const auto rounded_before = [](int i) {
      const int most = 2 * (i - kFree) < i - kBehind ? 2 * (i - kFree) : i - kBehind;
      return most < 0 ? 0 : most < kCount ? most : kCount;
    };
    float x[kCount];  // exponents, and then their probabilities
    const auto make_exponent = [&](int i) {
      if (i < kCount) x[i] = ptx::fma_in_place(s[i], scale_, -reference_[i / 2 % 2]);
    };
#pragma unroll
    for (int i = 0; i < kEarly; ++i) make_exponent(i);
#pragma unroll
    for (int i = 0; i < kLast; i += 2) {
      ptx::keep_order(scale_ < 0.f);
      if (i == kFree) free_p();
#pragma unroll
      for (int n = 0; n < Traits::kExponentsAStep; ++n) make_exponent(kEarly + i / 2 * Traits::kExponentsAStep + n);
      if (i < kCount) x[i] = ptx::exp2_approx(x[i]), x[i + 1] = ptx::exp2_approx(x[i + 1]);
      const int k = i - kBehind;
      if (k >= 0 && k < kCount) sum[k / 2 % 2] = ptx::add_in_place(sum[k / 2 % 2], ptx::add_in_place(x[k], x[k + 1]));
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        const int r = rounded_before(i) + n;
        if (r < rounded_before(i + 2)) p[r / 2] = ptx::pack<Element>(x[r], x[r + 1]);
      }
    }
  }

  float scale_;         // turns scores into base-2 exponents; positive
  float reference_[2];  // in exponents
  float sum_[2];        // of this lane's keys
};

}  // namespace fa3::sm90
