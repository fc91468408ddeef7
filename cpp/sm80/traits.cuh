// The compile-time shape of one portable forward kernel.
#pragma once

#include <cstdint>

namespace fa3::sm80 {

template <typename Element_, int kHeadDim_, int kBlockM_, int kBlockN_, int kWarps_, int kStages_, bool kQInRegisters_>
struct ForwardTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kBlockM = kBlockM_;
  static constexpr int kBlockN = kBlockN_;
  static constexpr int kThreads = 32 * kWarps_;
  static constexpr int kStages = kStages_;
  static constexpr bool kQInRegisters = kQInRegisters_;

  static constexpr int kWarpRows = kBlockM / kWarps_;
  static constexpr int kMmaM = kWarpRows / 16;   // 16-row MMA tiles of a warp
  static constexpr int kStepsD = kHeadDim / 16;  // MMA k-steps of Q.K^T, and pairs of n8 tiles of P.V
  static constexpr int kStepsN = kBlockN / 16;   // the same with roles swapped

  static constexpr int kTileBytesQ = kBlockM * kHeadDim * 2;
  static constexpr int kTileBytesKV = kBlockN * kHeadDim * 2;
  static constexpr int kSharedBytes = kTileBytesQ + 2 * kStages * kTileBytesKV;

  static_assert(kHeadDim % 32 == 0 && kBlockN % 16 == 0 && kBlockM % (16 * kWarps_) == 0);
  static_assert(kStages == 1 || kStages == 2);
};

}  // namespace fa3::sm80
