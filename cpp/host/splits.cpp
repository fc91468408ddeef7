#include "host/splits.h"

#include <algorithm>

namespace fa3 {
namespace {

// In the time that a CTA alone on its SM takes for a block of keys; fitted to an H200's (docs/kernels/splitkv.md).
constexpr double kStart = 4.3;     // of a round: launch, the first block's way from memory, merging the warps
constexpr double kCrowd = 1.3;     // more where an SM starts several CTAs,
constexpr double kTogether = 1.2;  // which then take more blocks in that time,
constexpr double kMemory = 1.1;    // but not more than this if all SMs do
constexpr double kCombine = 3;     // the combine kernel,
constexpr double kSplit = 0.05;    // and what it takes for a split more

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

double duration(int64_t splits, int64_t tiles, int64_t key_blocks, const Slots& slots) {
  const int64_t ctas = tiles * splits;
  const double rounds = static_cast<double>(ceil_div(ctas, slots.count()));
  const double busiest = static_cast<double>(ceil_div(ctas, slots.sms));  // CTAs of an SM
  const double blocks = busiest * static_cast<double>(ceil_div(key_blocks, splits)) / (busiest > 1 ? kTogether : 1);
  const double all = static_cast<double>(tiles) * static_cast<double>(key_blocks);
  const double start = rounds * kStart + (busiest > 1 ? kCrowd : 0);
  const double combine = splits > 1 ? kCombine + kSplit * static_cast<double>(splits) : 0;
  return start + std::max(blocks, all / (kMemory * static_cast<double>(slots.sms))) + combine;
}

}  // namespace

int32_t choose_splits(int64_t requested, int64_t tiles, int64_t key_blocks, const Slots& slots) {
  const int64_t most = std::clamp<int64_t>(key_blocks, 1, kMaxSplits);
  if (requested > 0) return static_cast<int32_t>(std::min(requested, most));
  int64_t best = 1;
  double soonest = duration(1, tiles, key_blocks, slots);
  // Beyond two rounds of CTAs there is nothing left to fill.
  const int64_t last = std::min(most, ceil_div(2 * slots.count(), std::max<int64_t>(tiles, 1)));
  for (int64_t splits = 2; splits <= last; ++splits) {
    const double time = duration(splits, tiles, key_blocks, slots);
    if (time < soonest) best = splits, soonest = time;
  }
  return static_cast<int32_t>(best);
}

}  // namespace fa3
