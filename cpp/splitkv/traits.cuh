// The compile-time shape of one split-KV kernel.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fa3::splitkv {

template <typename Element_, int kHeadDim_, int kBlockM_, int kBlockN_, int kRowWarps_, int kKeyGroups_, int kStages_>
struct ForwardTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kBlockM = kBlockM_;        // rows: (query, head of the group) pairs
  static constexpr int kBlockN = kBlockN_;        // keys of a step of all groups
  static constexpr int kRowWarps = kRowWarps_;    // of 16 rows each
  static constexpr int kKeyGroups = kKeyGroups_;  // groups of kRowWarps warps, each with keys and a pipeline of its own
  static constexpr int kStages = kStages_;

  static constexpr int kGroupThreads = 32 * kRowWarps;
  static constexpr int kThreads = kGroupThreads * kKeyGroups;
  static constexpr int kGroupKeys = kBlockN / kKeyGroups;  // of one step

  // What sm80::WarpMma asks of its traits.
  struct Mma {
    using Element = Element_;
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kBlockN = kGroupKeys;
    static constexpr int kMmaM = 1;
    static constexpr int kStepsD = kHeadDim / 16;
    static constexpr int kStepsN = kGroupKeys / 16;
    static constexpr bool kQInRegisters = kHeadDim <= 128;
  };

  static constexpr int kTileBytesQ = kBlockM * kHeadDim * 2;
  static constexpr int kTileBytesKV = kGroupKeys * kHeadDim * 2;
  static constexpr int kGroupBytes = 2 * kStages * kTileBytesKV;
  // At the end the groups' outputs, references and sums take the place of Q, K and V.
  static constexpr int kMergeBytes = kKeyGroups * kBlockM * (kHeadDim + 2) * 4;
  static constexpr int kSharedBytes = std::max(kTileBytesQ + kKeyGroups * kGroupBytes, kMergeBytes);

  static_assert(kBlockM == 16 * kRowWarps && kBlockN % (16 * kKeyGroups) == 0 && kHeadDim % 32 == 0 && kStages >= 2);
  static_assert(kGroupKeys <= 32, "a warp's lanes look up the pages of a step, one key each");
  static_assert(kRowWarps == 1 || kKeyGroups == 1, "a group is a warp or the CTA, which synchronise by themselves");
};

}  // namespace fa3::splitkv
