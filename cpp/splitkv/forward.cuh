// The split-KV forward kernel: few query rows against many keys, paged or not, on any GPU from sm_80 on.
//
// Query heads that share a K/V head are rows of one tile, so that K and V are read once for all of them. A CTA owns one
// (row tile, K/V head, batch entry) and one of num_splits ranges of its keys; inside, groups of warps take turns at
// steps of keys, each with its own pipeline of copies, and merge at the end. What is left to merge between CTAs is in
// combine.cuh.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/fragment_rows.cuh"
#include "attention/mask.h"
#include "attention/online_softmax.cuh"
#include "attention/score_transform.cuh"
#include "attention/sequence.h"
#include "attention/variant_info.h"
#include "ptx/cp_async.cuh"
#include "ptx/grid_order.cuh"
#include "ptx/shared.cuh"
#include "sm80/shared_tile.cuh"
#include "sm80/warp_mma.cuh"
#include "splitkv/output_row.cuh"
#include "splitkv/ragged_grid.cuh"
#include "splitkv/traits.cuh"

namespace fa3::splitkv {

// What a CTA knows of its work; in shared memory, because accumulators take the registers.
struct TileState {
  Sequence sequence;
  Window window;
  BlockRange blocks;   // of all splits
  int32_t begin, end;  // key blocks of this split
  int32_t batch, head_k;
  int32_t split, splits;
  int32_t first_row;  // of the tile; rows are numbered position * group + head of the group
};

__device__ __forceinline__ int tile_blocks(const BlockRange& blocks) {
  return max(blocks.end - blocks.begin, 0);
}

template <typename Traits>
class ForwardTile {
  using Element = typename Traits::Element;
  using Mma = sm80::WarpMma<typename Traits::Mma>;
  using Tile = sm80::SharedTile<Traits::kHeadDim>;
  using Softmax = OnlineSoftmax<1>;
  static constexpr int kKeys = Traits::kGroupKeys;

  // A step is copied by kLanes threads a row; the first thread of a row copies chunks 0, kLanes, ...
  static constexpr int kLanes = Tile::kSwizzle;
  static constexpr int kRowStep = Traits::kGroupThreads / kLanes;
  static constexpr int kRowSteps = kRowStep < kKeys ? kKeys / kRowStep : 1;

 public:
  __device__ __forceinline__ ForwardTile(const ForwardParams& p, const TileState& state, uint32_t shared)
      : p_(p), state_(state), shared_(shared), group_(p.heads_q / p.heads_k) {}

  __device__ __forceinline__ void run() const {
    const ScoreTransform transform(p_);
    Softmax softmax(transform.softmax_scale());
    typename Mma::Output out = {};
    if (p_.num_splits > 1 && state_.begin >= state_.end && state_.split > 0) return store_nothing();
    if (state_.begin < state_.end) walk(transform, softmax, out);
    store(softmax, out);
  }

 private:
  // Where a key's row is: paged or not, `page` indexes the tensor's first dimension.
  struct Location {
    int32_t page, row;
  };

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int key_group() { return threadIdx.x / Traits::kGroupThreads; }
  // First row of this warp in the tile.
  __device__ __forceinline__ static int warp_row() { return threadIdx.x % Traits::kGroupThreads / 32 * 16; }

  __device__ __forceinline__ static void sync_group() {
    if constexpr (Traits::kRowWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  __device__ __forceinline__ uint32_t k_tile(int stage) const {
    return shared_ + Traits::kTileBytesQ + key_group() * Traits::kGroupBytes + 2 * stage * Traits::kTileBytesKV;
  }
  __device__ __forceinline__ uint32_t v_tile(int stage) const { return k_tile(stage) + Traits::kTileBytesKV; }
  __device__ __forceinline__ int first_key(int block) const { return block * Traits::kBlockN + key_group() * kKeys; }

  __device__ __forceinline__ void copy_q() const {
    for (int i = threadIdx.x; i < Traits::kBlockM * Tile::kChunks; i += Traits::kThreads) {
      const int row = i / Tile::kChunks, chunk = i % Tile::kChunks;
      const int position = (state_.first_row + row) / group_;
      const int head = state_.head_k * group_ + (state_.first_row + row) % group_;
      const bool valid = position < state_.window.used_q && chunk * 8 < p_.head_dim;
      const uint16_t* source = static_cast<const uint16_t*>(p_.q) + state_.batch * p_.q_stride.batch +
                               (state_.sequence.q_row + position) * p_.q_stride.row + head * p_.q_stride.head +
                               chunk * 8;
      const uint32_t target =
          shared_ + row * Tile::kRowBytes + ((chunk % kLanes) ^ Tile::swizzle(row)) * 16 + chunk / kLanes * kLanes * 16;
      copy_chunk(target, source, valid, p_.q_aligned);
    }
  }

  __device__ __forceinline__ static void copy_chunk(uint32_t target, const uint16_t* source, bool valid, bool aligned) {
    if (aligned) {
      ptx::cp_async_16(target, source, valid);
    } else {
      ptx::store_shared(target, sm80::gather(source, valid));
    }
  }

  // Of this lane's key in the step that begins at `key`. Looked up a step ahead: the page table is a trip to memory
  // away.
  __device__ __forceinline__ Location locate(int key) const {
    if (p_.page_table == nullptr) return {};
    key += lane() % kKeys;
    if (key >= state_.window.used_k) return {};
    const int index = key / p_.page_size;
    const int page = p_.page_table[state_.batch * p_.page_table_stride + index];
    // A page that lies is still one of the cache.
    return {clamp(page, 0, p_.num_pages - 1), key - index * p_.page_size};
  }

  __device__ __forceinline__ void copy_kv(int stage, int key, Location located) const {
    const int thread = threadIdx.x % Traits::kGroupThreads;
    const int row = thread / kLanes, column = thread % kLanes;
#pragma unroll
    for (int step = 0; step < kRowSteps; ++step) {
      const int r = row + step * kRowStep;
      Location at{state_.batch, static_cast<int32_t>(state_.sequence.k_row) + key + r};
      if (p_.page_table != nullptr) {
        at = {__shfl_sync(~0u, located.page, r % 32), __shfl_sync(~0u, located.row, r % 32)};
      }
      if (kRowStep > kKeys && r >= kKeys) continue;
      const bool valid = key + r < state_.window.used_k;
      const auto copy = [&](uint32_t tile, const void* tensor, const Strides& stride) {
        const uint16_t* source = static_cast<const uint16_t*>(tensor) + at.page * stride.batch + at.row * stride.row +
                                 state_.head_k * stride.head + column * 8;
        const uint32_t target = tile + r * Tile::kRowBytes + (column ^ Tile::swizzle(r)) * 16;
#pragma unroll
        for (int part = 0; part < Tile::kChunks / kLanes; ++part) {
          copy_chunk(target + part * kLanes * 16, source + part * kLanes * 8,
                     valid && (part * kLanes + column) * 8 < p_.head_dim, p_.kv_aligned);
        }
      };
      copy(k_tile(stage), p_.k, p_.k_stride);
      copy(v_tile(stage), p_.v, p_.v_stride);
    }
  }

  __device__ __forceinline__ void walk(const ScoreTransform& transform, Softmax& softmax,
                                       typename Mma::Output& out) const {
    copy_q();
    ptx::cp_async_commit();
    int ahead = state_.begin;  // the next block to be copied
    Location located = locate(first_key(ahead));
    const auto copy_ahead = [&](int stage) {
      if (ahead < state_.end) {
        copy_kv(stage, first_key(ahead), located);
        ++ahead;
        located = locate(first_key(ahead));
      }
      ptx::cp_async_commit();
    };
#pragma unroll 1
    for (int stage = 0; stage < Traits::kStages - 1; ++stage) copy_ahead(stage);
    ptx::cp_async_wait<Traits::kStages - 1>();
    __syncthreads();  // Q is there

    Mma mma(shared_ + warp_row() * Tile::kRowBytes, lane());
    if constexpr (Traits::Mma::kQInRegisters) mma.keep_q();
    const bool has_rows = state_.first_row + warp_row() < state_.window.used_q * group_;
    int stage = 0, free_stage = Traits::kStages - 1;
#pragma unroll 1
    for (int block = state_.begin; block < state_.end; ++block) {
      ptx::cp_async_wait<Traits::kStages - 2>();
      sync_group();  // this step is there, and every warp of the group is done with the one before
      copy_ahead(free_stage);
      if (has_rows) {
        typename Mma::Scores scores;
        mma.multiply_qk(scores, k_tile(stage));
        if (transform.needed()) transform(scores);
        if (block < state_.blocks.full_begin || block >= state_.blocks.full_end) mask(first_key(block), scores);
        softmax.update(scores, out);
        mma.multiply_pv(out, scores, softmax, v_tile(stage));
      }
      free_stage = stage;
      stage = stage + 1 == Traits::kStages ? 0 : stage + 1;
    }
  }

  __device__ __forceinline__ void mask(int first, typename Mma::Scores& scores) const {
    const int first_key = lane_key(first);
    const Window window = state_.window;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = (state_.first_row + warp_row() + r * 8 + lane() / 4) / group_;
      mask_row<Mma::kTilesN>(window.keys(position), first_key,
                             [&](int n, int i) -> float& { return scores[0][n][2 * r + i]; });
    }
  }

  // Whether this split, the first, has all of the tile's keys.
  __device__ __forceinline__ bool is_whole() const { return state_.end - state_.begin == tile_blocks(state_.blocks); }

  __device__ __forceinline__ void store_nothing() const {
    for (int row = threadIdx.x; row < Traits::kBlockM; row += Traits::kThreads) {
      const int packed = state_.first_row + row, position = packed / group_;
      if (position >= state_.sequence.slot_q) continue;
      const OutputRow target(p_, state_.batch, state_.head_k * group_ + packed % group_,
                             state_.sequence.q_row + position);
      *target.partial_lse(p_, state_.split) = -INFINITY;
    }
  }

  // Merges the groups by way of shared memory and writes full 16-byte chunks.
  __device__ __forceinline__ void store(const Softmax& softmax, const typename Mma::Output& out) const {
    constexpr int kRows = Traits::kBlockM, kD = Traits::kHeadDim;
    extern __shared__ __align__(128) uint8_t tiles[];
    float* outputs = reinterpret_cast<float*>(tiles);               // (groups, rows, head_dim)
    float* references = outputs + Traits::kKeyGroups * kRows * kD;  // (groups, rows)
    float* totals = references + Traits::kKeyGroups * kRows;        // (groups, rows)
    // Every warp is done with Q, K and V.
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = key_group() * kRows + warp_row() + r * 8 + lane() / 4;
      const float total = softmax.total(0, r);
      if (lane() % 4 == 0) references[row] = softmax.reference[0][r], totals[row] = total;
#pragma unroll
      for (int d = 0; d < Mma::kTilesD; ++d) {
        *reinterpret_cast<float2*>(outputs + row * kD + d * 8 + lane() % 4 * 2) =
            float2{out[0][d][2 * r], out[0][d][2 * r + 1]};
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < kRows * Tile::kChunks; i += Traits::kThreads) {
      const int row = i / Tile::kChunks, column = i % Tile::kChunks * 8;
      const int packed = state_.first_row + row;
      const int position = packed / group_;
      if (position >= state_.sequence.slot_q || column >= p_.head_dim) continue;
      float reference = references[row];
#pragma unroll
      for (int g = 1; g < Traits::kKeyGroups; ++g) reference = fmaxf(reference, references[g * kRows + row]);
      float total = 0.f, sums[8] = {};
#pragma unroll
      for (int g = 0; g < Traits::kKeyGroups; ++g) {
        const float weight = ptx::exp2_approx(references[g * kRows + row] - reference);
        total += weight * totals[g * kRows + row];
        const float* source = outputs + (g * kRows + row) * kD + column;
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[c] += weight * source[c];
      }
      const bool has_keys = total != 0.f && position < state_.window.used_q;  // a NaN total stays visible
      const float inverse = has_keys ? ptx::reciprocal_approx(total) : 0.f;
#pragma unroll
      for (int c = 0; c < 8; ++c) sums[c] = has_keys ? sums[c] * inverse : 0.f;
      const float lse = has_keys ? reference + ptx::log2_approx(total) : -INFINITY;
      const OutputRow target(p_, state_.batch, state_.head_k * group_ + packed % group_,
                             state_.sequence.q_row + position);
      if (is_whole()) {
        target.template store<Element>(p_, column, sums, lse);
        if (p_.num_splits > 1 && column == 0) *target.partial_lse(p_, 0) = kWhole;
      } else {
        target.store_partial(p_, state_.split, column, sums, lse);
        if (state_.split == 0 && column == 0) {
          for (int split = state_.splits; split < p_.num_splits; ++split) *target.partial_lse(p_, split) = -INFINITY;
        }
      }
    }
  }

  const ForwardParams& p_;
  const TileState& state_;
  uint32_t shared_;
  int group_;  // query heads of a K/V head
};

template <typename Traits>
__device__ __forceinline__ void forward(const ForwardParams& p) {
  extern __shared__ __align__(128) uint8_t tiles[];
  __shared__ TileState state;
  ptx::follow_grids_before();
  const int group = p.heads_q / p.heads_k;
  const auto begin_round = [&](int32_t first_row) {
    state.first_row = first_row;
    const int first = first_row / group, last = (first_row + Traits::kBlockM - 1) / group;
    state.blocks = blocks_of<Traits::kBlockN>(state.window, first, last - first + 1);
    const int blocks = tile_blocks(state.blocks);
    const int share = (blocks + state.splits - 1) / state.splits;
    state.begin = state.blocks.begin + min(state.split * share, blocks);
    state.end = state.blocks.begin + min((state.split + 1) * share, blocks);
  };
  if (threadIdx.x < 32) {
    Piece piece;
    if (p.slots == 0) {
      const int index = blockIdx.x / p.num_splits, tiles = p.num_m_blocks * p.heads_k, batch = index / tiles;
      piece = {batch, index - batch * tiles, static_cast<int>(blockIdx.x) - index * p.num_splits, p.num_splits};
    } else {
      piece = RaggedGrid<Traits::kBlockN>(p, (Traits::kBlockM + group - 1) / group).piece(blockIdx.x);
    }
    if (threadIdx.x == 0) {
      state.split = piece.split;
      state.splits = piece.splits;
      state.batch = piece.batch;
      state.head_k = piece.tile / p.num_m_blocks;
      state.sequence = sequence_of(p, state.batch);
      state.window = window_of(p, state.sequence);
      // The last tile first: under a causal mask it is the longest.
      if (piece.splits > 0) {
        begin_round((p.num_m_blocks - 1 - (piece.tile - state.head_k * p.num_m_blocks)) * Traits::kBlockM);
      }
    }
  }
  __syncthreads();
  if (state.splits == 0) return;
  // One round, unless a sequence is longer than the max_seqlen_q that sized the grid.
#pragma unroll 1
  while (state.first_row < state.sequence.slot_q * group) {
    ForwardTile<Traits>(p, state, ptx::shared_address(tiles)).run();
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
          1};
}

}  // namespace fa3::splitkv
