// One thread that walks the CTA's tiles: it tells the others what each tile is, and loads its Q.
//
// A thread of its own, since finding a tile takes it longer than a block of keys takes the consumers, among whose
// instructions its own wait their turn.
#pragma once

#include <cstdint>

#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"
#include "sm90/shared_storage.cuh"
#include "sm90/tile_loads.cuh"
#include "sm90/tile_state.h"

namespace fa3::sm90 {

// Zero between launches. One for each launch that may be running: the host sees to that.
static __device__ uint32_t tickets[kTicketCounters];

template <typename Traits>
class QueryProducer {
 public:
  __device__ __forceinline__ QueryProducer(const TmaForwardParams& params, SharedStorage<Traits>& shared)
      : params_(params), shared_(shared) {}

  __device__ void run() {
    const ForwardParams& p = params_.forward;
    const auto draw = [&](uint32_t tiles) {
      return atomicInc(&tickets[p.ticket], tiles - 1);
    };  // the last draw resets it
    TileWalk<Traits::kBlockM, Traits::kBlockN, decltype(draw)> walk(p, blockIdx.x, gridDim.x, draw);
    shared_.tile[kTiles - 1].valid = 0;
    int last = kTiles - 1;
#pragma unroll 1
    while (true) {
      const int slot = tiles_.stage();
      ptx::mbarrier_wait(ptx::shared_address(&shared_.tile_empty[slot]), tiles_.parity());
      tiles_.advance();
      TileState& tile = shared_.tile[slot];  // not in registers: they would be spilled
      tile = shared_.tile[last];
      walk.next(tile);
      ptx::mbarrier_arrive(ptx::shared_address(&shared_.tile_full[slot]));
      if (not tile.valid) return;
      if (tile.has_keys()) load_q(tile);
      last = slot;
      ptx::mbarrier_wait(ptx::shared_address(&shared_.next_tile_due), due_.parity());
      due_.advance();
    }
  }

 private:
  static constexpr int kTiles = SharedStorage<Traits>::kTiles;

  // Each warpgroup's rows as soon as it is done with those before.
  __device__ __forceinline__ void load_q(const TileState& tile) {
    const int stage = q_.stage();
#pragma unroll 1
    for (int group = 0; group < Traits::kConsumers; ++group) {
      ptx::mbarrier_wait(ptx::shared_address(&shared_.q_empty[stage][group]), q_.parity());
      load_tile<Traits, kQueryBoxRows>(shared_.q[stage][group], params_.q, shared_.q_full[stage][group],
                                       tile.q_row + tile.first_row + group * kQueryBoxRows, tile.head,
                                       params_.forward.cu_seqlens_q != nullptr ? 0 : tile.batch);
    }
    q_.advance();
  }

  const TmaForwardParams& params_;
  SharedStorage<Traits>& shared_;
  RingPosition<Traits::kStagesQ> q_{1};
  RingPosition<kTiles> tiles_{1};
  RingPosition<1> due_{0};
};

}  // namespace fa3::sm90
