#include "host/splits.h"

#include <algorithm>

namespace fa3 {
namespace {

// In the time that a CTA takes for a block of keys: to start, fill its pipeline and merge its warps; the combine
// kernel; what that takes for one split more.
constexpr double kStart = 4, kCombine = 5, kSplit = 0.05;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

double duration(int64_t splits, int64_t tiles, int64_t key_blocks, int64_t slots) {
  const double rounds = static_cast<double>(ceil_div(tiles * splits, slots));
  const double combine = splits > 1 ? kCombine + kSplit * static_cast<double>(splits) : 0;
  return rounds * (kStart + static_cast<double>(ceil_div(key_blocks, splits))) + combine;
}

}  // namespace

int32_t choose_splits(int64_t requested, int64_t tiles, int64_t key_blocks, int64_t slots) {
  const int64_t most = std::clamp<int64_t>(key_blocks, 1, kMaxSplits);
  if (requested > 0) return static_cast<int32_t>(std::min(requested, most));
  int64_t best = 1;
  double soonest = duration(1, tiles, key_blocks, slots);
  // Beyond two rounds of CTAs there is nothing left to fill.
  const int64_t last = std::min(most, ceil_div(2 * slots, std::max<int64_t>(tiles, 1)));
  for (int64_t splits = 2; splits <= last; ++splits) {
    const double time = duration(splits, tiles, key_blocks, slots);
    if (time < soonest) best = splits, soonest = time;
  }
  return static_cast<int32_t>(best);
}

int32_t choose_ragged_splits(int64_t requested, int64_t entries, int64_t tiles, int64_t key_blocks, int64_t slots) {
  const int32_t equal = choose_splits(requested, tiles, key_blocks, slots);
  if (requested > 0) return equal;
  // As if one entry had all keys.
  return std::max(equal, choose_splits(0, ceil_div(tiles, entries), key_blocks, slots));
}

}  // namespace fa3
