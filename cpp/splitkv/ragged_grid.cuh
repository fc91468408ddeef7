// Who does what where batch entries differ in length, which only the device knows: each CTA reads all lengths and finds
// its part of the same cut.
#pragma once

#include <cstdint>

#include "attention/mask.h"
#include "attention/sequence.h"

namespace fa3::splitkv {

// One of `splits` parts of a tile's keys.
struct Piece {
  int32_t batch, tile;  // the tile is counted in its batch entry
  int32_t split, splits;
};

template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}

// The sum over this lane and those below.
__device__ __forceinline__ int32_t warp_scan(int32_t x) {
  const int32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int32_t below = __shfl_sync(~0u, x, lane - distance < 0 ? lane : lane - distance);
    if (lane >= distance) x += below;
  }
  return x;
}

template <int kBlockN>
class RaggedGrid {
 public:
  // `rows`: queries of a tile.
  __device__ __forceinline__ RaggedGrid(const ForwardParams& p, int32_t rows)
      : p_(p), rows_(rows), tiles_(p.num_m_blocks * p.heads_k) {}

  // Of the CTA with this number; `splits` is 0 for one too many. By a whole warp.
  __device__ __forceinline__ Piece piece(int32_t cta) const {
    const int32_t share = find_share(), lane = threadIdx.x % 32;
    int32_t begin = 0;  // of the 32 entries at hand
#pragma unroll 1
    for (int32_t first = 0; first < p_.batch; first += 32) {
      const int32_t splits = first + lane < p_.batch ? splits_of(first + lane, share) : 0;
      const int32_t end = begin + warp_scan(splits * tiles_);
      const int32_t owner = warp_sum(end <= cta ? 1 : 0);
      if (owner < 32) {
        const int32_t parts = __shfl_sync(~0u, splits, owner);
        const int32_t index = cta - (__shfl_sync(~0u, end, owner) - parts * tiles_);
        return {first + owner, index / parts, index % parts, parts};
      }
      begin = __shfl_sync(~0u, end, 31);
    }
    return {0, 0, 0, 0};
  }

 private:
  __device__ __forceinline__ int32_t blocks_of_entry(int32_t batch) const {
    const BlockRange blocks = blocks_of<kBlockN>(window_of(p_, sequence_of(p_, batch)), 0, rows_);
    return max(blocks.end - blocks.begin, 0);
  }

  __device__ __forceinline__ int32_t splits_of(int32_t batch, int32_t share) const {
    return min(max((blocks_of_entry(batch) + share - 1) / share, 1), p_.num_splits);
  }

  // Blocks that a split takes at most. All splits run in one round of p.slots CTAs if there are no more tiles than
  // that; of more tiles, none takes much more than half of the time that the whole does.
  __device__ __forceinline__ int32_t find_share() const {
    const int32_t lane = threadIdx.x % 32;
    int64_t blocks = 0;
    for (int32_t batch = lane; batch < p_.batch; batch += 32) blocks += blocks_of_entry(batch);
    const int64_t full_round = (warp_sum(blocks) * tiles_ + p_.slots - 1) / p_.slots;
    if (tiles_ * p_.batch > p_.slots) return clamped(full_round * 3 / 5 + 1);
    int32_t share = clamped(full_round);
#pragma unroll 1
    while (true) {
      int32_t splits = 0;
      for (int32_t batch = lane; batch < p_.batch; batch += 32) splits += splits_of(batch, share);
      if (warp_sum(splits) * tiles_ <= p_.slots) return share;
      share += (share + 7) / 8;
    }
  }

  // No entry has more blocks.
  __device__ __forceinline__ static int32_t clamped(int64_t blocks) {
    constexpr int64_t kMost = 1 << 30;
    return static_cast<int32_t>(blocks < 1 ? 1 : blocks < kMost ? blocks : kMost);
  }

  const ForwardParams& p_;
  int32_t rows_, tiles_;
};

}  // namespace fa3::splitkv
