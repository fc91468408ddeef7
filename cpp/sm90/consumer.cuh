// A consumer warpgroup: 64 query rows of each tile, S = Q K^T and O += P V by wgmma with S, P and O in registers.
//
// Q K^T of a block is issued before P V of the block before, so that the tensor cores work under the softmax in
// between; and with a tile's last P V, before O is stored, Q K^T of the next tile's first block.
#pragma once

#include <cstdint>

#include "attention/fragment_rows.cuh"
#include "attention/score_transform.cuh"
#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"
#include "ptx/special_registers.cuh"
#include "ptx/tma.cuh"
#include "ptx/warpgroup.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/output.cuh"
#include "sm90/row_softmax.cuh"
#include "sm90/shared_storage.cuh"

namespace fa3::sm90 {

template <typename Traits>
class Consumer {
  using Element = typename Traits::Element;
  static constexpr int kN = Traits::kBlockN, kD = Traits::kHeadDim;
  using MultiplyQK = ptx::Wgmma<Element, kN, 0>;
  using MultiplyPV = ptx::Wgmma<Element, kD, 1>;
  // By way of the tile's Q, which is free for as long as the next tile has its own.
  static constexpr bool kStagesOutput = Traits::kStagesQ > 1;

 public:
  __device__ __forceinline__ Consumer(const TmaForwardParams& params, SharedStorage<Traits>& shared, int group)
      : p_(params.forward),
        out_map_(params.out),
        shared_(shared),
        transform_(params.forward),
        softmax_(transform_.softmax_scale()),
        group_(group),
        leader_(threadIdx.x % 128 == 0) {}

  __device__ __forceinline__ void run() {
    if (not fetch_tile()) return;
    if (Traits::kPingPong && group_ == Traits::kConsumers - 1) pass_turn();
    wait(shared_.k_full[k_.stage()], k_.parity());
    wait(shared_.q_full[q_.stage()][group_], q_.parity());
    auto q = q_descriptor();
    await_turn();
    issue_qk(q);
    pass_turn();
    bool more = true, stored = false;
#pragma unroll 1
    while (more) {
      int block = ptx::warp_uniform(tile().blocks.end) - 1;
      bool masked = is_masked(block);
      ptx::wgmma_wait<0>();
      ptx::wgmma_pin(s_);
      ptx::wgmma_clear(o_);  // only now: no accumulator may be written while another wgmma runs
      finish_scores(block, masked);
      if (kStagesOutput && stored) leave_last_q();
      clear_past_keys(block);
      softmax_.begin(s_, p_fragments_);
#pragma unroll 1
      while (block > first_block_) {
        block -= 1;
        const auto v = v_descriptor();  // before the wgmma that it would hold up
        wait(shared_.k_full[k_.stage()], k_.parity());
        await_turn();
        issue_qk(q);
        wait(shared_.v_full[v_.stage()], v_.parity());
        issue_pv(v);
        pass_turn();
        masked = is_masked(block);
        ptx::wgmma_wait<1>();
        ptx::wgmma_pin(s_);
        finish_scores(block, masked);
        float rescale[2];
        const bool moved = softmax_.update(s_, p_fragments_, rescale, [&] { finish_pv(); });
        if (moved) {
#pragma unroll
          for (int i = 0; i < kD / 2; ++i) o_[i] *= rescale[i / 2 % 2];
        }
      }
      const OutputTile output(tile());
      leave_tile();
      q_.advance();
      more = fetch_tile();  // before the turn: passing tiles without keys takes all warpgroups
      const auto v = v_descriptor();
      wait(shared_.v_full[v_.stage()], v_.parity());
      if (more) wait(shared_.k_full[k_.stage()], k_.parity());
      q = q_descriptor();
      await_turn();
      issue_pv(v);
      if (more) wait(shared_.q_full[q_.stage()][group_], q_.parity());
      issue_qk(q);  // of the next tile; after the last, of stale data, so that the pipeline has one shape
      pass_turn();
      ptx::wgmma_wait<1>();
      ptx::wgmma_pin(o_);
      release(shared_.v_empty[v_.stage()]);
      v_.advance();
      store_output(output);
      stored = true;
    }
    ptx::wgmma_wait<0>();
    if (kStagesOutput) ptx::tma_store_wait_read();  // shared memory is gone with the CTA
  }

 private:
  __device__ __forceinline__ static void wait(uint64_t& barrier, uint32_t parity) {
    ptx::mbarrier_wait(ptx::shared_address(&barrier), parity);
  }
  __device__ __forceinline__ void release(uint64_t& barrier) const {
    if (leader_) ptx::mbarrier_arrive(ptx::shared_address(&barrier));
  }

  // This thread has read all it needs of the tile's state. Not held until the output is stored: tiles without keys may
  // come in between, and each needs a slot.
  __device__ __forceinline__ void leave_tile() {
    ptx::mbarrier_arrive(ptx::shared_address(&shared_.tile_empty[tile_.stage()]));
    tile_.advance();
  }

  // Warpgroups take turns at issuing: one multiplies while another is in its softmax. Barrier 1 + g is group g's turn.
  __device__ __forceinline__ void await_turn() const {
    if constexpr (Traits::kPingPong) ptx::named_barrier_sync(1 + group_, 256);
  }
  __device__ __forceinline__ void pass_turn() const {
    const int next = group_ == Traits::kConsumers - 1 ? 0 : group_ + 1;
    if constexpr (Traits::kPingPong) ptx::named_barrier_arrive(1 + next, 256);
  }

  // This thread's row in the tile; it also has the eighth after.
  __device__ __forceinline__ int row() const {
    const uint32_t thread = ptx::thread_index() - 128;
    return thread / 32 * 16 + thread % 32 / 4;
  }

  // State is read where it is needed: registers are for accumulators.
  __device__ __forceinline__ const TileState& tile() const { return shared_.tile[tile_.stage()]; }

  // Waits for the next tile that has keys; writes those without on the way. False after the last.
  __device__ __forceinline__ bool fetch_tile() {
    while (true) {
      wait(shared_.tile_full[tile_.stage()], tile_.parity());
      first_block_ = ptx::warp_uniform(tile().blocks.begin);
      // By votes, which the compilers know to be uniform.
      const bool valid = __any_sync(~0u, tile().valid), has_keys = __any_sync(~0u, tile().has_keys());
      if (not valid) return false;
      if (has_keys) return true;
      store_empty(p_, OutputTile(tile()), row());
      leave_tile();
    }
  }

  // Made visibly uniform once a tile, and not between a turn's beginning and its first wgmma.
  __device__ __forceinline__ Descriptor<Traits> q_descriptor() const {
    return Descriptor<Traits>::k_major(ptx::shared_address(shared_.q[q_.stage()][group_]));
  }

  __device__ __forceinline__ void issue_qk(const Descriptor<Traits>& q) {
    const auto k = Descriptor<Traits>::k_major(ptx::shared_address(shared_.k[k_.stage()]));
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      MultiplyQK::shared(s_, q.columns(step, kQueryBoxRows), k.columns(step, kN), step != 0);
    }
    ptx::wgmma_commit();
  }

  __device__ __forceinline__ Descriptor<Traits> v_descriptor() const {
    return Descriptor<Traits>::mn_major(ptx::shared_address(shared_.v[v_.stage()]));
  }

  __device__ __forceinline__ void issue_pv(const Descriptor<Traits>& v) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kN / 16; ++step) MultiplyPV::registers(o_, p_fragments_ + 4 * step, v.rows(step));
    ptx::wgmma_commit();
  }

  // P V is done: O may be changed, and so may the registers of P.
  __device__ __forceinline__ void finish_pv() {
    ptx::wgmma_wait<0>();
    ptx::wgmma_pin(o_);
    release(shared_.v_empty[v_.stage()]);
    v_.advance();
  }

  __device__ __forceinline__ bool is_masked(int block) const {
    return block < tile().blocks.full_begin || block >= tile().blocks.full_end;
  }

  // Scores of `block`, whose Q K^T is done, as the softmax takes them.
  __device__ __forceinline__ void finish_scores(int block, bool masked) {
    release(shared_.k_empty[k_.stage()]);
    k_.advance();
    if (not kStagesOutput && block == first_block_) release(shared_.q_empty[q_.stage()][group_]);
    if (transform_.needed()) transform_(s_);
    if (masked) mask(block);
  }

  __device__ __forceinline__ void mask(int block) {
    const Window window = tile().window;
    const int first_key = lane_key(block * kN), first_row = tile().first_row + row();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      mask_row<kN / 8>(window.keys(first_row + 8 * r), first_key,
                       [&](int n, int i) -> float& { return s_[4 * n + 2 * r + i]; });
    }
  }

  // Of the tile before that in q_.
  __device__ __forceinline__ int last_q_stage() const { return (q_.stage() + Traits::kStagesQ - 1) % Traits::kStagesQ; }

  // By TMA from the tile's Q; straight from registers where a packed sequence ends inside these 64 rows, since TMA would
  // write into the next.
  __device__ __forceinline__ void store_output(const OutputTile& output) {
    float inverse[2];
    finish_rows(p_, output, row(), softmax_, o_, inverse);
    const int first_row = group_ * kQueryBoxRows;
    if (kStagesOutput &&
        not __any_sync(~0u, p_.cu_seqlens_q != nullptr && output.written < first_row + kQueryBoxRows)) {
      // Visibly uniform, or else the compilers make a loop over the lanes of each store, and the pipeline's own
      // positions go to vector registers.
      const int staged = ptx::warp_uniform(ptx::shared_address(shared_.q[last_q_stage()][group_]));
      const int to_row = ptx::warp_uniform(output.first_row + first_row);
      const int head = ptx::warp_uniform(output.head);
      const int batch = ptx::warp_uniform(p_.cu_seqlens_q == nullptr ? output.batch : 0);
      stage_rows<Traits>(staged, o_, inverse);
      ptx::fence_async_proxy();
      ptx::named_barrier_sync(8 + group_, 128);
#pragma unroll
      for (int panel = 0; panel < Traits::kPanels; ++panel) {
        ptx::tma_store_if(leader_, &out_map_, staged + panel * kQueryBoxRows * Traits::kPanelBytes,
                          panel * Traits::kPanel, to_row, head, batch);
      }
      ptx::tma_store_commit();
    } else {
      store_rows<Element>(p_, output, row(), o_, inverse);
    }
  }

  // Q of the tile that was stored last is free once TMA has read the output from there.
  __device__ __forceinline__ void leave_last_q() {
    ptx::tma_store_wait_read();
    release(shared_.q_empty[last_q_stage()][group_]);
  }

  // Rows of V past the sequence's keys may hold anything, and 0 * NaN is NaN. TMA zeroes what is past the tensor; what
  // is past a sequence inside it is overwritten here. All groups write the same zeros, each before its own P V.
  __device__ __forceinline__ void clear_past_keys(int block) {
    if (p_.cu_seqlens_k == nullptr && p_.seqused_k == nullptr) return;
    const int keys = tile().window.used_k - block * kN;
    if (keys >= kN) return;
    wait(shared_.v_full[v_.stage()], v_.parity());
    const uint32_t tile = ptx::shared_address(shared_.v[v_.stage()]);
    constexpr int kChunks = Traits::kPanelBytes / 16;
    for (int i = threadIdx.x % 128; i < (kN - keys) * kChunks; i += 128) {
#pragma unroll
      for (int panel = 0; panel < Traits::kPanels; ++panel) {
        ptx::store_shared(tile + (panel * kN + keys) * Traits::kPanelBytes + i * 16, uint4{});
      }
    }
    ptx::fence_async_proxy();
    ptx::named_barrier_sync(8 + group_, 128);
  }

  const ForwardParams& p_;
  const TensorMap& out_map_;
  SharedStorage<Traits>& shared_;
  ScoreTransform transform_;
  RowSoftmax<Traits> softmax_;
  int group_;
  bool leader_;
  int first_block_;  // of the tile
  RingPosition<Traits::kStagesK> k_{0};
  RingPosition<Traits::kStagesV> v_{0};
  RingPosition<SharedStorage<Traits>::kTiles> tile_{0};
  RingPosition<Traits::kStagesQ> q_{0};
  float s_[kN / 2], o_[kD / 2];
  uint32_t p_fragments_[kN / 4];
};

}  // namespace fa3::sm90
