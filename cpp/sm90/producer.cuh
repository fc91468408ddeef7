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
    shared.state[0].valid = 0;
    int slot = 0, slot_before = -1;  // of the tile whose last block of V is still to be loaded
    // In the order of need: Q K^T of a block comes before P V of the block before, and its stage is free earlier. So
    // does the next tile's Q, unless it must wait for this tile's end.
#pragma unroll 1
    while (true) {
      if (Traits::kStagesQ == 1 && slot_before >= 0) load_last_v(slot_before);
      slot = fetch(walk, slot);
      if (Traits::kStagesQ > 1 && slot_before >= 0) load_last_v(slot_before);
      slot_before = -1;
      const TileState& state = shared.state[slot];
      if (not state.valid) return;
      if (not state.has_keys()) continue;
      slot_before = slot;
      const Keys keys(params.forward, state);
      int block = state.blocks.end - 1;
      load_k(keys, block);
#pragma unroll 1
      for (; block > state.blocks.begin; --block) {
        if (block - state.blocks.begin <= 2) walk.draw_ahead();
        load_k(keys, block - 1);
        load_v(keys, block);
      }
    }
  }

 private:
  // Where a tile's keys are in the maps of K and V.
  struct Keys {
    int row, head, batch;
    __device__ __forceinline__ Keys(const ForwardParams& p, const TileState& state)
        : row(state.k_row),
          head(state.head / (p.heads_q / p.heads_k)),
          batch(p.cu_seqlens_k != nullptr ? 0 : state.batch) {}
  };

  __device__ __forceinline__ void load_k(const Keys& keys, int block) {
    const int stage = k.stage();
    ptx::mbarrier_wait(ptx::shared_address(&shared.k_empty[stage]), k.parity());
    load<Traits::kBlockN>(shared.k[stage], params.k, shared.k_full[stage], keys.row + block * Traits::kBlockN,
                          keys.head, keys.batch);
    k.advance();
  }

  __device__ __forceinline__ void load_v(const Keys& keys, int block) {
    const int stage = v.stage();
    ptx::mbarrier_wait(ptx::shared_address(&shared.v_empty[stage]), v.parity());
    load<Traits::kBlockN>(shared.v[stage], params.v, shared.v_full[stage], keys.row + block * Traits::kBlockN,
                          keys.head, keys.batch);
    v.advance();
  }

  __device__ __forceinline__ void load_last_v(int slot) {
    const TileState& state = shared.state[slot];
    load_v(Keys(params.forward, state), state.blocks.begin);
  }

  // Hands the tile after that in `slot` to the consumers and loads its Q; returns its slot.
  template <typename Walk>
  __device__ __forceinline__ int fetch(Walk& walk, int slot) {
    const int next = q.stage();
    ptx::mbarrier_wait(ptx::shared_address(&shared.q_empty[next]), q.parity());
    q.advance();
    TileState& state = shared.state[next];  // not in registers: they would be spilled
    state = shared.state[slot];
    walk.next(state);
    if (state.valid && state.has_keys()) {
      const int batch = params.forward.cu_seqlens_q != nullptr ? 0 : state.batch;
      load<Traits::kBlockM>(shared.q[next], params.q, shared.q_full[next], state.q_row + state.first_row, state.head,
                            batch);
    } else {
      ptx::mbarrier_arrive(ptx::shared_address(&shared.q_full[next]));
    }
    return next;
  }

  template <int kRows>
  __device__ __forceinline__ void load(const uint8_t* tile, const TensorMap& map, uint64_t& full, int row, int head,
                                       int batch) const {
    const uint32_t barrier = ptx::shared_address(&full);
    ptx::mbarrier_expect(barrier, kRows * Traits::kHeadDim * 2);
#pragma unroll
    for (int panel = 0; panel < Traits::kPanels; ++panel) {
      ptx::tma_load(ptx::shared_address(tile) + panel * kRows * Traits::kPanelBytes, &map, barrier,
                    panel * Traits::kPanel, row, head, batch);
    }
  }

  const TmaForwardParams& params;
  SharedStorage<Traits>& shared;
  RingPosition<Traits::kStages> k{1}, v{1};
  RingPosition<Traits::kStagesQ> q{1};
};

}  // namespace fa3::sm90
