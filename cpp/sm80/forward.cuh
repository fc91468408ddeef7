// The portable forward kernel: cp.async, ldmatrix and mma.sync, on any GPU from sm_80 on.
//
// A CTA owns one (query tile, head, batch entry) and walks its key blocks from the last to the first. Each warp owns
// kWarpRows query rows for the whole walk, so that softmax needs no shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/forward_params.h"
#include "attention/fragment_rows.cuh"
#include "attention/mask.h"
#include "attention/online_softmax.cuh"
#include "attention/score_transform.cuh"
#include "attention/sequence.h"
#include "attention/tile_scheduler.h"
#include "attention/variant_info.h"
#include "ptx/cp_async.cuh"
#include "ptx/shared.cuh"
#include "sm80/shared_tile.cuh"
#include "sm80/traits.cuh"
#include "sm80/warp_mma.cuh"

namespace fa3::sm80 {

// What a CTA knows of the tile it works on. It stays in shared memory, because at head_dim 128 accumulators and
// fragments take every register.
struct TileState {
  const uint16_t *k, *v;  // row 0 of the sequence and head
  Sequence sequence;
  Window window;
  BlockRange blocks;
  int32_t batch, head, first_row;
};

// Element 0 of a row of one batch entry and head.
template <typename T, typename Pointer>
__device__ __forceinline__ auto slice(Pointer tensor, const Strides& stride, int32_t batch, int64_t row, int32_t head) {
  using Typed = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T*, T*>;
  return static_cast<Typed>(tensor) + batch * stride.batch + row * stride.row + head * stride.head;
}

template <typename Traits>
struct ForwardTile {
  using Element = typename Traits::Element;
  using Mma = WarpMma<Traits>;
  using Tile = SharedTile<Traits::kHeadDim>;
  using Softmax = OnlineSoftmax<Traits::kMmaM>;
  using CopyQ = TileCopy<Traits::kHeadDim, Traits::kBlockM, Traits::kThreads>;
  using CopyKV = TileCopy<Traits::kHeadDim, Traits::kBlockN, Traits::kThreads>;

  const ForwardParams& p;
  const TileState& state;
  uint32_t shared;

  __device__ __forceinline__ int lane() const { return threadIdx.x % 32; }
  // First row of this warp in the tile.
  __device__ __forceinline__ int warp_row() const { return threadIdx.x / 32 * Traits::kWarpRows; }
  // Row (m, r) of this lane's accumulators, counted from the warp's first.
  __device__ __forceinline__ int lane_row(int m, int r) const { return m * 16 + r * 8 + lane() / 4; }

  __device__ __forceinline__ void copy_kv(uint32_t target, const uint16_t* base, int64_t stride, int block) const {
    const int first_key = block * Traits::kBlockN;
    CopyKV{base, stride, p.head_dim, p.kv_aligned}(target, first_key, state.window.used_k - first_key);
  }

  __device__ __forceinline__ void run() const {
    const ScoreTransform transform(p);
    Softmax softmax(transform.softmax_scale());
    typename Mma::Output out = {};
    if (state.blocks.begin < state.blocks.end) walk(transform, softmax, out);
    store(softmax, out);
  }

  // Copies run one block ahead. With two stages, K and V of a block travel together and one barrier a block does; with
  // one stage, V arrives under Q K^T and the next K under P V.
  __device__ __forceinline__ void walk(const ScoreTransform& transform, Softmax& softmax,
                                       typename Mma::Output& out) const {
    const auto k_tile = [&](int stage) { return shared + Traits::kTileBytesQ + 2 * stage * Traits::kTileBytesKV; };
    const auto v_tile = [&](int stage) { return k_tile(stage) + Traits::kTileBytesKV; };
    const auto copy_k = [&](int stage, int block) { copy_kv(k_tile(stage), state.k, p.k_stride.row, block); };
    const auto copy_v = [&](int stage, int block) { copy_kv(v_tile(stage), state.v, p.v_stride.row, block); };

    Mma mma(shared + warp_row() * Tile::kRowBytes, lane());
    int block = state.blocks.end - 1, stage = 0;

    CopyQ{slice<uint16_t>(p.q, p.q_stride, state.batch, state.sequence.q_row, state.head), p.q_stride.row, p.head_dim,
          p.q_aligned}(shared, state.first_row, state.window.used_q - state.first_row);
    copy_k(0, block);
    if constexpr (Traits::kStages == 2) copy_v(0, block);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
    if constexpr (Traits::kQInRegisters) mma.keep_q();

#pragma unroll 1
    while (true) {
      const bool has_next = block > state.blocks.begin;
      const bool has_rows = state.first_row + warp_row() < state.window.used_q;
      if constexpr (Traits::kStages == 1) {
        copy_v(0, block);
      } else if (has_next) {
        copy_k(stage ^ 1, block - 1);
        copy_v(stage ^ 1, block - 1);
      }
      ptx::cp_async_commit();

      typename Mma::Scores scores;
      if (has_rows) mma.multiply_qk(scores, k_tile(stage));
      if constexpr (Traits::kStages == 1) {
        ptx::cp_async_wait<0>();
        __syncthreads();  // V has arrived, and every warp is done with K
        if (has_next) copy_k(0, block - 1);
        ptx::cp_async_commit();
      }
      if (has_rows) {
        if (transform.needed()) transform(scores);
        if (block < state.blocks.full_begin || block >= state.blocks.full_end) mask(block, scores);
        softmax.update(scores, out);
        mma.multiply_pv(out, scores, softmax, v_tile(stage));
      }
      if (not has_next) break;
      block -= 1;
      if constexpr (Traits::kStages == 2) stage ^= 1;
      ptx::cp_async_wait<0>();
      __syncthreads();  // the next block has arrived for every thread, and every warp is done with this one
    }
  }

  __device__ __forceinline__ void mask(int block, typename Mma::Scores& scores) const {
    const int first_key = lane_key(block * Traits::kBlockN);
    const Window window = state.window;
#pragma unroll
    for (int m = 0; m < Traits::kMmaM; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        mask_row<Mma::kTilesN>(window.keys(state.first_row + warp_row() + lane_row(m, r)), first_key,
                               [&](int n, int i) -> float& { return scores[m][n][2 * r + i]; });
      }
    }
  }

  // Normalises, converts, and writes full 16-byte chunks by way of this warp's own rows of the Q tile, which no other
  // warp reads and this one needs no more.
  __device__ __forceinline__ void store(const Softmax& softmax, const typename Mma::Output& out) const {
    const Sequence sequence = state.sequence;
    const int first_row = state.first_row + warp_row();
    const uint32_t tile = shared + warp_row() * Tile::kRowBytes;
    __syncwarp();  // every lane has read its part of Q
    float* lse = p.lse + state.batch * p.lse_batch_stride + state.head * p.lse_head_stride + sequence.q_row;
    const int lse_rows = p.lse != nullptr && lane() % 4 == 0 ? sequence.slot_q - first_row : 0;
#pragma unroll
    for (int m = 0; m < Traits::kMmaM; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = lane_row(m, r);
        const float total = softmax.total(m, r);
        const bool has_keys = total != 0.f && first_row + row < sequence.used_q;  // a NaN total stays visible
        const float inverse = ptx::reciprocal_approx(total);
        if (row < lse_rows) {
          lse[first_row + row] = has_keys ? (softmax.reference[m][r] + ptx::log2_approx(total)) * kLn2 : -INFINITY;
        }
#pragma unroll
        for (int d = 0; d < Mma::kTilesD; ++d) {
          const uint32_t pair = ptx::pack<Element>(out[m][d][2 * r] * inverse, out[m][d][2 * r + 1] * inverse);
          const uint32_t lane_bytes = ((d & 1) ^ Tile::swizzle(row)) * 16;
          ptx::store_shared(tile + row * Tile::kRowBytes + Tile::chunk_offset(lane_bytes, d & ~1) + lane() % 4 * 4,
                            has_keys ? pair : 0u);
        }
      }
    }
    __syncwarp();
    uint16_t* rows = slice<uint16_t>(p.out, p.out_stride, state.batch, sequence.q_row + first_row, state.head);
    constexpr int kChunksOfWarp = Traits::kWarpRows * Tile::kChunks;
    static_assert(kChunksOfWarp % 32 == 0);
#pragma unroll 4
    for (int index = lane(); index < kChunksOfWarp; index += 32) {
      const int row = index / Tile::kChunks, chunk = index % Tile::kChunks;
      if (first_row + row >= sequence.slot_q || chunk * 8 >= p.head_dim) continue;
      const uint32_t lane_bytes = ((chunk & 1) ^ Tile::swizzle(row)) * 16;
      const uint32_t source = tile + row * Tile::kRowBytes + Tile::chunk_offset(lane_bytes, chunk & ~1);
      *reinterpret_cast<uint4*>(rows + row * p.out_stride.row + chunk * 8) = ptx::load_shared_16(source);
    }
  }
};

template <typename Traits>
__device__ __forceinline__ void forward(const ForwardParams& p) {
  extern __shared__ __align__(128) uint8_t tiles[];
  __shared__ TileState state;
  const auto begin_round = [&](int32_t first_row) {
    state.first_row = first_row;
    state.blocks = blocks_of<Traits::kBlockN>(state.window, first_row, Traits::kBlockM);
  };
  if (threadIdx.x == 0) {
    const Tile tile = tile_of(p, blockIdx.x);
    state.batch = tile.batch;
    state.head = tile.head;
    state.sequence = sequence_of(p, tile.batch);
    state.window = window_of(p, state.sequence);
    const int32_t kv_head = tile.head / (p.heads_q / p.heads_k);
    state.k = slice<uint16_t>(p.k, p.k_stride, tile.batch, state.sequence.k_row, kv_head);
    state.v = slice<uint16_t>(p.v, p.v_stride, tile.batch, state.sequence.k_row, kv_head);
    begin_round(tile.m_block * Traits::kBlockM);
  }
  __syncthreads();
  // One round, unless a sequence is longer than the max_seqlen_q that sized the grid.
#pragma unroll 1
  while (state.first_row < state.sequence.slot_q) {
    ForwardTile<Traits>{p, state, ptx::shared_address(tiles)}.run();
    __syncthreads();
    if (threadIdx.x == 0) begin_round(state.first_row + p.num_m_blocks * Traits::kBlockM);
    __syncthreads();
  }
}

template <typename Traits>
constexpr VariantInfo variant_info(int32_t is_bf16) {
  return {kForwardAbiVersion,
          Traits::kHeadDim,
          Traits::kBlockM,
          Traits::kBlockN,
          Traits::kThreads,
          Traits::kSharedBytes,
          Traits::kStages,
          is_bf16,
          0,
          0};
}

}  // namespace fa3::sm80
