// The compile-time shape of one Hopper forward kernel.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"

namespace fa3::sm90 {

template <typename Element_, int kHeadDim_, int kBlockM_, int kBlockN_, int kStagesK_, int kStagesV_, int kStagesQ_,
          bool kPingPong_>
struct ForwardTraits {
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kBlockM = kBlockM_;
  static constexpr int kBlockN = kBlockN_;
  static constexpr int kStagesK = kStagesK_, kStagesV = kStagesV_;
  static constexpr int kStagesQ = kStagesQ_;                     // two: Q of the next tile loads under this one
  static constexpr bool kPingPong = kPingPong_ && kBlockM > 64;  // warpgroups take turns at the tensor cores

  static constexpr int kConsumers = kBlockM / 64;  // warpgroups; each owns 64 query rows
  static constexpr int kThreads = 128 * (kConsumers + 1);
  // Pages of 8 to 64 keys make up a block, or blocks a page of a multiple of 128. Three consumer warpgroups leave the
  // producer too few registers.
  static constexpr bool kReadsPages = kConsumers < 3 && 128 % kBlockN == 0;

  // 64K registers less the producer's share; both counts are multiples of eight.
  static constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 40;
  static constexpr int kConsumerRegisters = kConsumers == 1 ? 240 : kConsumers == 2 ? 232 : 160;

  // The softmax keeps to an order of its own (row_softmax.cuh), for which three consumer warpgroups have no registers, nor
  // the need: two are in their softmax at a time. In steps of two exponentials: exponents made in each, exponentials by
  // which sums follow, and those before P is written, by when P V of the block before has left it.
  static constexpr bool kOrdersSoftmax = kConsumers < 3;
  static constexpr int kExponentsAStep = kHeadDim > 64 ? 2 : 8;
  static constexpr int kSumsBehind = kHeadDim > 64 ? 12 : 4;
  static constexpr int kExponentialsBeforeP = kHeadDim > 64 ? 32 : 16;

  // Columns of a swizzle panel: TMA and wgmma permute the 16-byte chunks of a panel's rows of 128 or 64 bytes.
  static constexpr int kPanel = kHeadDim % 64 == 0 ? 64 : 32;
  static constexpr int kPanelBytes = 2 * kPanel;  // a row of it
  static constexpr int kPanels = kHeadDim / kPanel;

  static constexpr int kTileBytesQ = kQueryBoxRows * kHeadDim * 2;  // of one warpgroup
  static constexpr int kTileBytesKV = kBlockN * kHeadDim * 2;

  static_assert(kBlockM % 64 == 0 && kConsumers <= 3 && kBlockN % 16 == 0 && kBlockN <= 256 && kHeadDim % 32 == 0);
};

}  // namespace fa3::sm90
