// Scores that an online softmax can't take as they are: softcap bends them, and a scale that isn't positive would turn
// the maximum into the minimum. Both are turned into base-2 exponents first.
#pragma once

#include <cstddef>

#include "attention/forward_params.h"
#include "ptx/math.cuh"

namespace fa3 {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

struct ScoreTransform {
  float scale, softcap;

  __device__ __forceinline__ explicit ScoreTransform(const ForwardParams& p)
      : scale(p.softmax_scale), softcap(p.softcap) {}
  __device__ __forceinline__ bool needed() const { return softcap != 0.f || not(scale > 0.f); }
  // What turns a score into an exponent once the transform, if needed, is done.
  __device__ __forceinline__ float softmax_scale() const { return needed() ? 1.f : scale * kLog2E; }

  // Takes an array of scores of any rank.
  template <typename Scores>
  __device__ __forceinline__ void operator()(Scores& scores) const {
    if (softcap == 0.f) {
      const float factor = scale * kLog2E;
      for_each(scores, [=](float score) { return score * factor; });
    } else {
      // tanh(x) = 1 - 2 / (1 + e^2x): tanh.approx has only 11 good bits.
      const float inner = scale / softcap * (2.f * kLog2E), outer = softcap * kLog2E;
      for_each(scores, [=](float score) {
        return outer - 2.f * outer * ptx::reciprocal_approx(1.f + ptx::exp2_approx(score * inner));
      });
    }
  }

 private:
  template <typename F>
  __device__ __forceinline__ static void for_each(float& score, const F& f) {
    score = f(score);
  }
  template <typename T, size_t kCount, typename F>
  __device__ __forceinline__ static void for_each(T (&scores)[kCount], const F& f) {
#pragma unroll
    for (size_t i = 0; i < kCount; ++i) for_each(scores[i], f);
  }
};

}  // namespace fa3
