// The producer: one thread that walks the CTA's tiles and keeps TMA loads of Q, K and V in flight.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "sm90/shared_storage.cuh"
#include "sm90/tile_state.h"

namespace fa3::sm90 {

// Zero between launches. One for each launch that may be running: the host sees to that.
static __device__ uint32_t tickets[kTicketCounters];

template <typename Traits>
class Producer {
 public:
  __device__ __forceinline__ Producer(const TmaForwardParams& params_, SharedStorage<Traits>& shared_)
      : params(params_), shared(shared_) {}

  __device__ void run() {
    const ForwardParams& p = params.forward;
    const auto draw = [&](uint32_t tiles) {
      return atomicInc(&tickets[p.ticket], tiles - 1);
    };  // the last draw resets it
    TileWalk<Traits::kBlockM, Traits::kBlockN, decltype(draw)> walk(p, blockIdx.x, gridDim.x, draw);
    int slot = 0;
    bool v_is_due = false;  // the last block's, of the tile in `slot`
    shared.tile[slot].valid = 0;
    // In the order of need: Q K^T of a block comes before P V of the block before, and its stage is free earlier. So
    // does the next tile's Q, unless it must wait for this tile's end.
    constexpr bool kEarlyQ = Traits::kStagesQ > 1;
#pragma unroll 1
    while (true) {
      if (not kEarlyQ && v_is_due) load_last_v(shared.tile[slot]);
      const int next = announce(walk, slot);
      const TileState& tile = shared.tile[next];
      const bool has_keys = tile.valid && tile.has_keys();
      if (kEarlyQ && has_keys) load_q(tile);
      if (kEarlyQ && v_is_due) load_last_v(shared.tile[slot]);
      if (not tile.valid) return;
      slot = next;
      v_is_due = has_keys;
      if (not has_keys) continue;
      const Keys keys(params.forward, tile);
      int block = tile.blocks.end - 1;
      load_k(keys, block);
      if (not kEarlyQ) load_q(tile);
#pragma unroll 1
      for (; block > tile.blocks.begin; --block) {
        if (block - tile.blocks.begin <= 2) walk.draw_ahead();
        load_k(keys, block - 1);
        load_v(keys, block);
      }
    }
  }

 private:
  // Where a tile's keys are in the maps of K and V.
  struct Keys {
    int row, head, batch;
    __device__ __forceinline__ Keys(const ForwardParams& p, const TileState& tile)
        : row(tile.k_row),
          head(tile.head / (p.heads_q / p.heads_k)),
          batch(p.cu_seqlens_k != nullptr ? 0 : tile.batch) {}
  };

  __device__ __forceinline__ void load_k(const Keys& keys, int block) {
    const int stage = k.stage();
    ptx::mbarrier_wait(ptx::shared_address(&shared.k_empty[stage]), k.parity());
    load_keys(shared.k[stage], params.k, shared.k_full[stage], keys, block);
    k.advance();
  }

  __device__ __forceinline__ void load_v(const Keys& keys, int block) {
    const int stage = v.stage();
    ptx::mbarrier_wait(ptx::shared_address(&shared.v_empty[stage]), v.parity());
    load_keys(shared.v[stage], params.v, shared.v_full[stage], keys, block);
    v.advance();
  }

  __device__ __forceinline__ void load_keys(const uint8_t* tile, const TensorMap& map, uint64_t& full, const Keys& keys,
                                            int block) const {
    const int first = block * Traits::kBlockN;
    if constexpr (Traits::kReadsPages) {
      if (params.forward.page_table != nullptr) return load_pages(tile, map, full, keys, first);
    }
    load<Traits::kBlockN>(tile, map, full, keys.row + first, keys.head, keys.batch);
  }

  // As many boxes as pages make up the block. A page that the cache does not have arrives as zeros.
  __device__ __forceinline__ void load_pages(const uint8_t* tile, const TensorMap& map, uint64_t& full,
                                             const Keys& keys, int first) const {
    const ForwardParams& p = params.forward;
    const uint32_t page_size = p.page_size, barrier = ptx::shared_address(&full);
    ptx::mbarrier_expect(barrier, Traits::kTileBytesKV);
    uint32_t index = first / page_size, row = first - index * page_size;  // a division takes as long as a box
#pragma unroll 1
    for (int done = 0; done < Traits::kBlockN;) {
      int page = -1;
      if (first + done < p.total_k) page = p.page_table[keys.batch * p.page_table_stride + index];
      load_panels<Traits::kBlockN>(ptx::shared_address(tile) + done * Traits::kPanelBytes, map, barrier, row, keys.head,
                                   page);
      done += page_size;
      index += 1, row = 0;
    }
  }

  __device__ __forceinline__ void load_last_v(const TileState& tile) {
    load_v(Keys(params.forward, tile), tile.blocks.begin);
  }

  // Hands the tile after that in `slot` to the consumers; returns its slot.
  template <typename Walk>
  __device__ __forceinline__ int announce(Walk& walk, int slot) {
    const int next = tiles.stage();
    ptx::mbarrier_wait(ptx::shared_address(&shared.tile_empty[next]), tiles.parity());
    tiles.advance();
    TileState& tile = shared.tile[next];  // not in registers: they would be spilled
    tile = shared.tile[slot];
    walk.next(tile);
    ptx::mbarrier_arrive(ptx::shared_address(&shared.tile_full[next]));
    return next;
  }

  // Each warpgroup's rows as soon as it is done with those before.
  __device__ __forceinline__ void load_q(const TileState& tile) {
    const int stage = q.stage();
#pragma unroll 1
    for (int group = 0; group < Traits::kConsumers; ++group) {
      ptx::mbarrier_wait(ptx::shared_address(&shared.q_empty[stage][group]), q.parity());
      const int batch = params.forward.cu_seqlens_q != nullptr ? 0 : tile.batch;
      load<kQueryBoxRows>(shared.q[stage][group], params.q, shared.q_full[stage][group],
                          tile.q_row + tile.first_row + group * kQueryBoxRows, tile.head, batch);
    }
    q.advance();
  }

  template <int kRows>
  __device__ __forceinline__ void load(const uint8_t* tile, const TensorMap& map, uint64_t& full, int row, int head,
                                       int batch) const {
    const uint32_t barrier = ptx::shared_address(&full);
    ptx::mbarrier_expect(barrier, kRows * Traits::kHeadDim * 2);
    load_panels<kRows>(ptx::shared_address(tile), map, barrier, row, head, batch);
  }

  // A box of each panel of a tile of kRows rows.
  template <int kRows>
  __device__ __forceinline__ void load_panels(uint32_t to, const TensorMap& map, uint32_t barrier, int row, int head,
                                              int batch) const {
#pragma unroll
    for (int panel = 0; panel < Traits::kPanels; ++panel) {
      ptx::tma_load(to + panel * kRows * Traits::kPanelBytes, &map, barrier, panel * Traits::kPanel, row, head, batch);
    }
  }

  const TmaForwardParams& params;
  SharedStorage<Traits>& shared;
  RingPosition<Traits::kStagesK> k{1};
  RingPosition<Traits::kStagesV> v{1};
  RingPosition<Traits::kStagesQ> q{1};
  RingPosition<SharedStorage<Traits>::kTiles> tiles{1};
};

}  // namespace fa3::sm90
