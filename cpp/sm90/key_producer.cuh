// One thread that keeps the tiles' blocks of K and V in flight.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"
#include "sm90/shared_storage.cuh"
#include "sm90/tile_loads.cuh"
#include "sm90/tile_state.h"

namespace fa3::sm90 {

template <typename Traits>
class KeyProducer {
  static constexpr int kN = Traits::kBlockN;

 public:
  __device__ __forceinline__ KeyProducer(const TmaForwardParams& params, SharedStorage<Traits>& shared)
      : params_(params), shared_(shared) {}

  // In the order of need: Q K^T of a block comes before P V of the block before, and its stage is free earlier.
  __device__ void run() {
#pragma unroll 1
    while (true) {
      const int slot = tiles_.stage();
      ptx::mbarrier_wait(ptx::shared_address(&shared_.tile_full[slot]), tiles_.parity());
      tiles_.advance();
      const TileState& tile = shared_.tile[slot];
      if (not tile.valid) return;
      const KeyCoordinates keys = tile.keys;
      const int begin = tile.blocks.begin, end = tile.blocks.end;
      ptx::mbarrier_arrive(ptx::shared_address(&shared_.tile_empty[slot]));
      if (begin >= end) {
        ptx::mbarrier_arrive(ptx::shared_address(&shared_.next_tile_due));
        continue;
      }
      // The next tile is asked for when two blocks are left. Not much earlier: a tile that waits for a busy CTA is one
      // that an idle CTA did not get.
      const int due = begin + 1 < end ? begin + 1 : begin;
#pragma unroll 1
      for (int block = end - 1; block >= begin; --block) {
        if (block == due) ptx::mbarrier_arrive(ptx::shared_address(&shared_.next_tile_due));
        load_k(keys, block);
        if (block + 1 < end) load_v(keys, block + 1);
      }
      load_v(keys, begin);
    }
  }

 private:
  __device__ __forceinline__ void load_k(const KeyCoordinates& keys, int block) {
    load_block(shared_.k, params_.k, shared_.k_full, shared_.k_empty, k_, keys, block);
  }

  __device__ __forceinline__ void load_v(const KeyCoordinates& keys, int block) {
    load_block(shared_.v, params_.v, shared_.v_full, shared_.v_empty, v_, keys, block);
  }

  template <int kStages>
  __device__ __forceinline__ void load_block(const uint8_t (&tiles)[kStages][Traits::kTileBytesKV],
                                             const TensorMap& map, uint64_t (&full)[kStages],
                                             uint64_t (&empty)[kStages], RingPosition<kStages>& ring,
                                             const KeyCoordinates& keys, int block) {
    const int stage = ring.stage();
    ptx::mbarrier_wait(ptx::shared_address(&empty[stage]), ring.parity());
    ring.advance();
    const int first = block * kN;
    if constexpr (Traits::kReadsPages) {
      if (params_.forward.page_table != nullptr) return load_pages(tiles[stage], map, full[stage], keys, first);
    }
    load_tile<Traits, kN>(tiles[stage], map, full[stage], keys.row + first, keys.head, keys.batch);
  }

  // As many boxes as pages make up the block. A page that the cache does not have arrives as zeros.
  __device__ __forceinline__ void load_pages(const uint8_t* tile, const TensorMap& map, uint64_t& full,
                                             const KeyCoordinates& keys, int first) const {
    const ForwardParams& p = params_.forward;
    const uint32_t page_size = p.page_size, barrier = ptx::shared_address(&full);
    ptx::mbarrier_expect(barrier, Traits::kTileBytesKV);
    uint32_t index = first / page_size, row = first - index * page_size;  // a division takes as long as a box
#pragma unroll 1
    for (int done = 0; done < kN;) {
      int page = -1;
      if (first + done < p.total_k) page = p.page_table[keys.batch * p.page_table_stride + index];
      load_panels<Traits, kN>(ptx::shared_address(tile) + done * Traits::kPanelBytes, map, barrier, row, keys.head,
                              page);
      done += page_size;
      index += 1, row = 0;
    }
  }

  const TmaForwardParams& params_;
  SharedStorage<Traits>& shared_;
  RingPosition<Traits::kStagesK> k_{1};
  RingPosition<Traits::kStagesV> v_{1};
  RingPosition<SharedStorage<Traits>::kTiles> tiles_{0};
};

}  // namespace fa3::sm90
