// Shared memory of the Hopper forward kernel, and the descriptors by which wgmma reads it.
//
// A tile of (rows, head_dim) elements is stored panel after panel: all rows of the first kPanel columns, then of the
// next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/special_registers.cuh"
#include "sm90/tile_state.h"
#include "sm90/traits.cuh"

namespace fa3::sm90 {

template <typename Traits>
struct SharedStorage {
  static constexpr int kStagesK = Traits::kStagesK, kStagesV = Traits::kStagesV;
  static constexpr int kStagesQ = Traits::kStagesQ;
  static constexpr int kConsumers = Traits::kConsumers;
  static constexpr int kTiles = 2;  // that may be announced and not left by everybody

  alignas(1024) uint8_t q[kStagesQ][kConsumers][Traits::kTileBytesQ];
  alignas(1024) uint8_t k[kStagesK][Traits::kTileBytesKV];
  alignas(1024) uint8_t v[kStagesV][Traits::kTileBytesKV];
  // "full" ends a phase when TMA has filled the stage or the state is written, "empty" when all are done with it: a
  // warpgroup each for Q, K and V, which only wgmma reads, but for Q's place in staging output; the consumers' threads
  // and the one that loads keys for the state. Each warpgroup has its own rows of Q. "due": two blocks are left to load.
  alignas(16) uint64_t q_full[kStagesQ][kConsumers], q_empty[kStagesQ][kConsumers];
  uint64_t k_full[kStagesK], k_empty[kStagesK], v_full[kStagesV], v_empty[kStagesV];
  uint64_t tile_full[kTiles], tile_empty[kTiles], next_tile_due;
  TileState tile[kTiles];

  __device__ void init_barriers() {
    for (int stage = 0; stage < kStagesQ; ++stage) {
      for (int group = 0; group < kConsumers; ++group) {
        ptx::mbarrier_init(ptx::shared_address(&q_full[stage][group]), 1);
        ptx::mbarrier_init(ptx::shared_address(&q_empty[stage][group]), 1);
      }
    }
    for (int slot = 0; slot < kTiles; ++slot) {
      ptx::mbarrier_init(ptx::shared_address(&tile_full[slot]), 1);
      ptx::mbarrier_init(ptx::shared_address(&tile_empty[slot]), 128 * kConsumers + 1);
    }
    ptx::mbarrier_init(ptx::shared_address(&next_tile_due), 1);
    for (int stage = 0; stage < kStagesK; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&k_full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&k_empty[stage]), kConsumers);
    }
    for (int stage = 0; stage < kStagesV; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&v_full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&v_empty[stage]), kConsumers);
    }
    ptx::mbarrier_init_fence();
  }
};

// A position in a ring of stages, and the parity of the barrier phase to wait for there: how many stages have been passed
// in one register where that divides by shifts, or else both in one each.
template <int kStages>
class RingPosition {
  static constexpr bool kCounts = (kStages & (kStages - 1)) == 0;

 public:
  // Consumers start at phase 0; the producer finds every stage free, as if a phase had gone before.
  __device__ __forceinline__ explicit RingPosition(int phases_before)
      : position_(kCounts ? phases_before * kStages : 0), phase_(phases_before) {}
  __device__ __forceinline__ void advance() {
    if (++position_ == kStages && not kCounts) position_ = 0, phase_ ^= 1;
  }
  __device__ __forceinline__ int stage() const { return kCounts ? position_ % kStages : position_; }
  __device__ __forceinline__ int parity() const { return kCounts ? position_ / kStages % 2 : phase_; }

 private:
  uint32_t position_;
  int phase_;
};

// wgmma matrix descriptors (PTX ISA, "Matrix Descriptor Format"): addresses and offsets in units of 16 bytes. The upper
// word is constant, and the lower made visibly uniform once: or else every wgmma waits for its own descriptor to reach
// a uniform register.
template <typename Traits>
class Descriptor {
 public:
  // Q or K, K-major: eight rows repeat after the stride; the leading offset is unused with a swizzle.
  __device__ __forceinline__ static Descriptor k_major(uint32_t tile) { return Descriptor(tile, 16); }
  // V, MN-major: a panel of columns follows after the leading offset, eight rows after the stride.
  __device__ __forceinline__ static Descriptor mn_major(uint32_t tile) {
    return Descriptor(tile, Traits::kBlockN * Traits::kPanelBytes);
  }

  // Columns 16 * step.. of a K-major tile of `rows` rows.
  __device__ __forceinline__ uint64_t columns(int step, int rows) const {
    constexpr int kSteps = Traits::kPanel / 16;
    return at(step / kSteps * rows * Traits::kPanelBytes + step % kSteps * 32);
  }
  // Rows 16 * step.. of an MN-major tile.
  __device__ __forceinline__ uint64_t rows(int step) const { return at(step * 16 * Traits::kPanelBytes); }

 private:
  static constexpr uint32_t kStride = 8 * Traits::kPanelBytes;
  static constexpr uint32_t kSwizzle = Traits::kPanel == 64 ? 1 : 2;  // of 128 or 64 bytes
  static constexpr uint32_t kHigh = kStride >> 4 | kSwizzle << 30;

  __device__ __forceinline__ Descriptor(uint32_t tile, uint32_t leading)
      : low_(ptx::warp_uniform((tile & 0x3FFFF) >> 4 | leading >> 4 << 16)) {}
  // A 64-bit addition would be two dependent instructions more by 12.4, and is no faster by 13.3. No carry leaves the
  // address.
  __device__ __forceinline__ uint64_t at(uint32_t bytes) const {
    return uint64_t{kHigh} << 32 | (static_cast<uint32_t>(low_) + (bytes >> 4));
  }

  int low_;
};

}  // namespace fa3::sm90
