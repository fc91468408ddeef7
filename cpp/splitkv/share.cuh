// How many key blocks a split takes where batch entries differ in length, which only the device knows.
#pragma once

#include <cstdint>

#include "attention/mask.h"
#include "attention/sequence.h"

namespace fa3::splitkv {

__device__ __forceinline__ int64_t warp_sum(int64_t x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}

// By a whole warp. `rows`: queries of a tile. All splits of all tiles fit a round of p.slots CTAs if their tiles do; of
// more tiles, none takes much more than half of the time that the whole does.
template <int kBlockN>
__device__ __forceinline__ int32_t balanced_share(const ForwardParams& p, int32_t rows) {
  const auto blocks_of_entry = [&](int32_t batch) {
    const BlockRange blocks = blocks_of<kBlockN>(window_of(p, sequence_of(p, batch)), 0, rows);
    return max(blocks.end - blocks.begin, 0);
  };
  const int64_t tiles = int64_t{p.num_m_blocks} * p.heads_k;  // of an entry
  const int32_t lane = threadIdx.x % 32;
  int64_t blocks = 0;
  for (int32_t batch = lane; batch < p.batch; batch += 32) blocks += blocks_of_entry(batch);
  const int64_t full_round = (warp_sum(blocks) * tiles + p.slots - 1) / p.slots;
  if (tiles * p.batch > p.slots) return static_cast<int32_t>(full_round * 3 / 5 + 1);
  int64_t share = max(full_round, int64_t{1});
#pragma unroll 1
  while (true) {
    int64_t splits = 0;
    for (int32_t batch = lane; batch < p.batch; batch += 32) splits += (blocks_of_entry(batch) + share - 1) / share;
    if (warp_sum(splits) * tiles <= p.slots) return static_cast<int32_t>(share);
    share += (share + 7) / 8;
  }
}

}  // namespace fa3::splitkv
