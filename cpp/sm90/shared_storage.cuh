// Shared memory of the Hopper forward kernel, and the descriptors by which wgmma reads it.
//
// A tile of (rows, head_dim) elements is stored panel after panel: all rows of the first kPanel columns, then of the next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "sm90/tile_state.h"
#include "sm90/traits.cuh"

namespace fa3::sm90 {

template <typename Traits>
struct SharedStorage {
  static constexpr int kStages = Traits::kStages;

  static constexpr int kStagesQ = Traits::kStagesQ;

  alignas(1024) uint8_t q[kStagesQ][Traits::kTileBytesQ];
  alignas(1024) uint8_t k[kStages][Traits::kTileBytesKV];
  alignas(1024) uint8_t v[kStages][Traits::kTileBytesKV];
  // "full" ends a phase when TMA has filled the tile, "empty" when every consumer is done with it.
  alignas(16) uint64_t q_full[kStagesQ], q_empty[kStagesQ];
  uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  TileState state[kStagesQ];  // travels with the Q tile

  __device__ void init_barriers() {
    for (int stage = 0; stage < kStagesQ; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&q_full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&q_empty[stage]), Traits::kConsumers);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&k_full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&v_full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&k_empty[stage]), Traits::kConsumers);
      ptx::mbarrier_init(ptx::shared_address(&v_empty[stage]), Traits::kConsumers);
    }
    ptx::mbarrier_init_fence();
  }
};

// A position in a ring of stages, and the parity of the barrier phase to wait for there: one register.
template <int kStages>
class RingPosition {
 public:
  // Consumers start at phase 0; the producer finds every stage free, as if a phase had gone before.
  __device__ __forceinline__ explicit RingPosition(int phases_before) : count_(phases_before * kStages) {}
  __device__ __forceinline__ void advance() { ++count_; }
  __device__ __forceinline__ int stage() const { return count_ % kStages; }
  __device__ __forceinline__ int parity() const { return count_ / kStages % 2; }

 private:
  uint32_t count_;
};

// wgmma matrix descriptors (PTX ISA, "Matrix Descriptor Format"): addresses and offsets in units of 16 bytes.
template <typename Traits>
struct Descriptor {
  static constexpr uint64_t kSwizzle = Traits::kPanel == 64 ? 1 : 2;  // of 128 or 64 bytes

  __device__ __forceinline__ static constexpr uint64_t make(uint32_t address, uint32_t leading, uint32_t stride) {
    return uint64_t{(address & 0x3FFFF) >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 | kSwizzle << 62;
  }

  // Q or K, K-major: eight rows repeat after `stride`; `leading` is unused with a swizzle.
  __device__ __forceinline__ static uint64_t k_major(uint32_t tile) { return make(tile, 16, 8 * Traits::kPanelBytes); }
  // Offset of columns 16 * step..
  __device__ __forceinline__ static constexpr uint64_t columns(int step, int rows) {
    constexpr int kSteps = Traits::kPanel / 16;
    return (step / kSteps * rows * Traits::kPanelBytes + step % kSteps * 32) >> 4;
  }

  // V, MN-major: a panel of columns follows after `leading`, eight rows after `stride`.
  __device__ __forceinline__ static uint64_t mn_major(uint32_t tile) {
    return make(tile, Traits::kBlockN * Traits::kPanelBytes, 8 * Traits::kPanelBytes);
  }
  // Offset of rows 16 * step..
  __device__ __forceinline__ static constexpr uint64_t rows(int step) { return (step * 16 * Traits::kPanelBytes) >> 4; }
};

}  // namespace fa3::sm90
