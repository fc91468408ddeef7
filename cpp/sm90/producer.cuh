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
struct Producer {
  const TmaForwardParams& params;
  SharedStorage<Traits>& shared;

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

  __device__ void run() const {
    const ForwardParams& p = params.forward;
    const auto draw = [&](uint32_t tiles) {
      return atomicInc(&tickets[p.ticket], tiles - 1);
    };  // the last draw resets it
    TileWalk<Traits::kBlockM, Traits::kBlockN, decltype(draw)> walk(p, blockIdx.x, gridDim.x, draw);
    RingPosition<Traits::kStages> k(1), v(1);
    RingPosition<Traits::kStagesQ> q(1);
    shared.state[0].valid = 0;
    int slot = 0;
#pragma unroll 1
    while (true) {
      TileState state =
          shared.state[slot];  // read back: in registers it would not survive the block loop without spills
      walk.next(state);
      slot = q.stage();
      ptx::mbarrier_wait(ptx::shared_address(&shared.q_empty[slot]), q.parity());
      q.advance();
      shared.state[slot] = state;
      if (not state.valid || not state.has_keys()) {
        ptx::mbarrier_arrive(ptx::shared_address(&shared.q_full[slot]));
        if (not state.valid) return;
        continue;
      }
      const int head_k = state.head / (p.heads_q / p.heads_k);
      const int batch_q = p.cu_seqlens_q != nullptr ? 0 : state.batch;
      const int batch_k = p.cu_seqlens_k != nullptr ? 0 : state.batch;
      load<Traits::kBlockM>(shared.q[slot], params.q, shared.q_full[slot], state.q_row + state.first_row, state.head,
                            batch_q);
      const auto load_k = [&](int block) {
        const int stage = k.stage();
        ptx::mbarrier_wait(ptx::shared_address(&shared.k_empty[stage]), k.parity());
        load<Traits::kBlockN>(shared.k[stage], params.k, shared.k_full[stage], state.k_row + block * Traits::kBlockN,
                              head_k, batch_k);
        k.advance();
      };
      const auto load_v = [&](int block) {
        const int stage = v.stage();
        ptx::mbarrier_wait(ptx::shared_address(&shared.v_empty[stage]), v.parity());
        load<Traits::kBlockN>(shared.v[stage], params.v, shared.v_full[stage], state.k_row + block * Traits::kBlockN,
                              head_k, batch_k);
        v.advance();
      };
      // In the order of need: Q K^T of a block comes before P V of the block before, and its stage is free earlier.
      load_k(state.blocks.end - 1);
#pragma unroll 1
      for (int block = state.blocks.end - 1; block > state.blocks.begin; --block) {
        load_k(block - 1);
        load_v(block);
      }
      load_v(state.blocks.begin);
    }
  }
};

}  // namespace fa3::sm90
