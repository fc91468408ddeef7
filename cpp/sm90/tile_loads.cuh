// Tiles of Q, K and V by TMA: one box for each swizzle panel of columns.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/tma.cuh"

namespace fa3::sm90 {

// Boxes of a tile of kRows rows whose bytes `barrier` expects. `to` may lie inside the tile: a box has as many rows as
// its map says.
template <typename Traits, int kRows>
__device__ __forceinline__ void load_panels(uint32_t to, const TensorMap& map, uint32_t barrier, int row, int head,
                                            int batch) {
#pragma unroll
  for (int panel = 0; panel < Traits::kPanels; ++panel) {
    ptx::tma_load(to + panel * kRows * Traits::kPanelBytes, &map, barrier, panel * Traits::kPanel, row, head, batch);
  }
}

template <typename Traits, int kRows>
__device__ __forceinline__ void load_tile(const uint8_t* tile, const TensorMap& map, uint64_t& full, int row, int head,
                                          int batch) {
  const uint32_t barrier = ptx::shared_address(&full);
  ptx::mbarrier_expect(barrier, kRows * Traits::kHeadDim * 2);
  load_panels<Traits, kRows>(ptx::shared_address(tile), map, barrier, row, head, batch);
}

}  // namespace fa3::sm90
