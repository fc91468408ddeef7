// Which keys a query row may see, and which key blocks a query tile must visit.
//
// With bottom-right alignment, row i of used_q sees keys j with
// i + used_k - used_q - left <= j <= i + used_k - used_q + right. A causal mask is right = 0.
// Lengths are at most 2^30 - 256 (checked by the host), so that no sum here overflows 32 bits.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/host_device.h"
#include "attention/sequence.h"

namespace fa3 {

struct KeyRange {
  int32_t begin, end;  // begin >= end: none
};

inline constexpr int32_t kMaskKeys = 128;  // of which a lane has 32 scores, two of each eight: a word of bits

// How many of a lane's scores are of the first `keys` of these, counted from its own first key.
FA3_HOST_DEVICE int32_t scores_before(int32_t keys) {
  const uint32_t clamped = keys < 0 ? 0 : keys < kMaskKeys ? keys : kMaskKeys;
  return clamped / 8 * 2 + (clamped % 8 < 2 ? clamped % 8 : 2);
}

// Which of these a row may see, a bit each.
FA3_HOST_DEVICE uint32_t seen_scores(const KeyRange& keys, int32_t first_key) {
  const uint64_t all = ~uint64_t{0};
  return all << scores_before(keys.begin - first_key) & ~(all << scores_before(keys.end - first_key));
}

struct Window {
  int32_t used_q, used_k;
  int32_t left, right;  // clamped to the lengths, where they no longer bind

  // Keys that row `row` may see.
  FA3_HOST_DEVICE KeyRange keys(int32_t row) const {
    const int32_t diagonal = row + used_k - used_q;
    const int32_t begin = diagonal - left, end = diagonal + right + 1;
    return {begin > 0 ? begin : 0, end < used_k ? end : used_k};
  }
};

FA3_HOST_DEVICE Window window_of(const ForwardParams& p, const Sequence& s) {
  const bool left_binds = p.window_left >= 0 && p.window_left < s.used_k;
  const bool right_binds = p.window_right >= 0 && p.window_right < s.used_q;
  return {s.used_q, s.used_k, left_binds ? p.window_left : s.used_k, right_binds ? p.window_right : s.used_q};
}

// Key blocks [begin, end) of kBlockN keys that rows [row, row + rows) visit; in [full_begin, full_end) no key is
// masked.
struct BlockRange {
  int32_t begin, end;
  int32_t full_begin, full_end;
};

template <int kBlockN>
FA3_HOST_DEVICE BlockRange blocks_of(const Window& window, int32_t row, int32_t rows) {
  if (row >= window.used_q) return {0, 0, 0, 0};
  const int32_t last = row + rows < window.used_q ? row + rows - 1 : window.used_q - 1;
  const KeyRange first_keys = window.keys(row), last_keys = window.keys(last);
  BlockRange blocks;
  blocks.begin = first_keys.begin / kBlockN;
  blocks.end = last_keys.end > 0 ? (last_keys.end + kBlockN - 1) / kBlockN : 0;
  blocks.full_begin = (last_keys.begin + kBlockN - 1) / kBlockN;
  blocks.full_end = first_keys.end > 0 ? first_keys.end / kBlockN : 0;
  return blocks;
}

}  // namespace fa3
