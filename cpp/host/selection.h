// Which variant serves a problem: a dense table over problem classes, filled once per build.
//
// A class is dtype x compiled head_dim x mask x layout x ceil(log2(query rows)) x ceil(log2(seqlen_k)). Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "host/c_api.h"

namespace fa3 {

inline constexpr int32_t kFloat16 = 5;  // torch ScalarType numbers, fixed by the stable ABI
inline constexpr int32_t kInt32 = 3;
inline constexpr int32_t kBFloat16 = 15;
inline constexpr int32_t kMaxHeadDim = 256;
inline constexpr int32_t kMaxLog2Seqlen = 16;  // longer sequences are served like 65,536
inline constexpr int32_t kMasks = 3;
inline constexpr int32_t kLayouts = 4;

struct Problem {
  int32_t dtype;
  int32_t head_dim;
  Fa3Mask mask;
  Fa3Layout layout;
  int64_t query_rows, seqlen_k;
};

// What chooses by the length of queries: up to 64 of them come with the query heads that share a K/V head, as far as 64
// rows, because kernels for few queries pack them into one tile. More queries count alone.
int64_t query_rows(int64_t seqlen_q, int64_t group);

// ceil(log2(seqlen)) clipped to 0..kMaxLog2Seqlen.
int32_t log2_seqlen(int64_t seqlen);

struct Window {
  int32_t left, right;  // -1: no limit
  Fa3Mask mask;
};

// Drops limits that mask nothing (as FlashAttention does) and names the mask's class. `rows_q` and `rows_k` bound every
// sequence's length.
Window normalised_window(bool causal, int64_t left, int64_t right, int64_t rows_q, int64_t rows_k);

struct ServedSet {
  int32_t variant;  // index
  Fa3Serves classes;
};

class SelectionTable {
 public:
  static constexpr int32_t kNone = -1;

  // Throws fa3::Error when a variant or a set is malformed or two sets hold one class.
  SelectionTable(const std::vector<Fa3Variant>& variants, const std::vector<ServedSet>& served);
  SelectionTable() : SelectionTable({}, {}) {}  // nothing is served

  // The serving variant's index or kNone.
  int32_t select(const Problem& problem) const;

 private:
  static constexpr int32_t kBuckets = kMaxLog2Seqlen + 1;
  static constexpr int32_t kHeadDims = kMaxHeadDim / 8;
  using Buckets = std::array<int16_t, kMasks * kLayouts * kBuckets * kBuckets>;

  static constexpr int32_t bucket_of(int32_t mask, int32_t layout, int32_t log2_q, int32_t log2_k) {
    return ((mask * kLayouts + layout) * kBuckets + log2_q) * kBuckets + log2_k;
  }
  static void fill(Buckets& buckets, const std::vector<Fa3Variant>& variants, const ServedSet& set);

  // Per dtype and head_dim / 8 (rounded up, less one): which of buckets_, that of the smallest compiled head_dim that
  // fits.
  std::array<std::array<int16_t, kHeadDims>, 2> head_dims_{};
  std::vector<Buckets> buckets_;
};

}  // namespace fa3
