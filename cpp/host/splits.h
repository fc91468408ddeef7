// How many CTAs share the keys of one tile.
#pragma once

#include <cstdint>

namespace fa3 {

inline constexpr int64_t kMaxSplits = 256;

// Room for CTAs that run at once.
struct Slots {
  int64_t sms, ctas_of_sm;
  int64_t count() const { return sms * ctas_of_sm; }
};

// `requested`, or if that is 0 the number with which `tiles` tiles of `key_blocks` blocks end soonest. At least 1, at
// most a split a block.
int32_t choose_splits(int64_t requested, int64_t tiles, int64_t key_blocks, const Slots& slots);

}  // namespace fa3
