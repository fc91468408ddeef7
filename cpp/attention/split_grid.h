// The size of a split-KV kernel's grid.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"

namespace fa3 {

// CTAs for `tiles` tiles. Where the device cuts entries of different length (splitkv/ragged_grid.cuh), at least as many
// as it deals out: one round if the tiles fit it, or else a CTA a tile and those that a split of three fifths of a round
// makes more.
inline int64_t split_ctas(const ForwardParams& p, int64_t tiles) {
  if (p.slots == 0) return tiles * p.num_splits;
  return tiles <= p.slots ? p.slots : tiles + 2 * int64_t{p.slots};
}

}  // namespace fa3
