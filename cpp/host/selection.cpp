#include "host/selection.h"

#include <algorithm>
#include <bit>

#include "host/error.h"

namespace fa3 {
namespace {

bool is_range(const int32_t (&range)[2]) {
  return 0 <= range[0] && range[0] <= range[1] && range[1] <= kMaxLog2Seqlen;
}

[[noreturn]] void fail_impossible(const Fa3Variant& v) {
  fail(FA3_BUILD_ERROR, "variant ", v.name, " states impossible values; rebuild its cell");
}

void check(const Fa3Variant& v) {
  const bool known = (v.dtype == kFloat16 || v.dtype == kBFloat16) && v.head_dim >= 8 && v.head_dim <= kMaxHeadDim &&
                     v.head_dim % 8 == 0 && v.block_m > 0 && v.block_n > 0 && v.threads > 0 && v.threads <= 1024 &&
                     v.dynamic_shared_bytes >= 0 && (v.tma_columns == 0 || v.tma_columns == 32 || v.tma_columns == 64);
  if (!known) fail_impossible(v);
}

void check(const Fa3Variant& v, const Fa3Serves& s) {
  const bool known = s.masks > 0 && s.masks < (1 << kMasks) && s.layouts > 0 && s.layouts < (1 << kLayouts) &&
                     is_range(s.log2_seqlen_q) && is_range(s.log2_seqlen_k);
  if (!known) fail_impossible(v);
  const bool by_tma = v.tma_columns > 0;
  const int32_t aligned = 1 << FA3_LAYOUT_ALIGNED | 1 << FA3_LAYOUT_PAGED_ALIGNED;
  const int32_t paged = 1 << FA3_LAYOUT_PAGED | 1 << FA3_LAYOUT_PAGED_ALIGNED;
  if (by_tma && s.layouts & ~aligned) {
    fail(FA3_BUILD_ERROR, "variant ", v.name, " loads by TMA, so it can serve aligned tensors only; rebuild its cell");
  }
  // Boxes of a page make up a block, or a block is part of a page; or else its barrier would wait for bytes for ever.
  if (by_tma && s.layouts & 1 << FA3_LAYOUT_PAGED_ALIGNED &&
      (v.block_m > 128 || (v.block_n != 64 && v.block_n != 128))) {
    fail(FA3_BUILD_ERROR, "variant ", v.name, " of ", v.block_m, " x ", v.block_n,
         " can't load pages, but is to serve them; rebuild its cell");
  }
  if (not by_tma && not v.splits_keys && s.layouts & paged) {
    fail(FA3_BUILD_ERROR, "variant ", v.name,
         " can't read a page table, but is to serve paged tensors; rebuild its cell");
  }
}

}  // namespace

int32_t log2_seqlen(int64_t seqlen) {
  if (seqlen <= 1) return 0;
  return std::min<int32_t>(std::bit_width(static_cast<uint64_t>(seqlen - 1)), kMaxLog2Seqlen);
}

int64_t query_rows(int64_t seqlen_q, int64_t group) {
  constexpr int64_t kPackedRows = 64;
  return seqlen_q > kPackedRows ? seqlen_q : std::min(seqlen_q * group, kPackedRows);
}

Window normalised_window(bool causal, int64_t left, int64_t right, int64_t rows_q, int64_t rows_k) {
  if (causal) right = 0;
  // Row i of rows_q sees keys i + rows_k - rows_q - left .. i + rows_k - rows_q + right.
  if (left < 0 || left >= rows_k - 1) left = -1;
  if (right < 0 || right >= rows_q - 1) right = -1;
  const Fa3Mask mask = left >= 0    ? FA3_MASK_LOCAL
                       : right < 0  ? FA3_MASK_FULL
                       : right == 0 ? FA3_MASK_CAUSAL
                                    : FA3_MASK_LOCAL;
  return {static_cast<int32_t>(left), static_cast<int32_t>(right), mask};
}

// Enters the variant for every class of its dtype and head_dim that the set holds.
void SelectionTable::fill(Buckets& buckets, const std::vector<Fa3Variant>& variants, const ServedSet& set) {
  const Fa3Serves& s = set.classes;
  for (int32_t mask = 0; mask < kMasks; ++mask) {
    for (int32_t layout = 0; layout < kLayouts; ++layout) {
      if (!(s.masks >> mask & 1) || !(s.layouts >> layout & 1)) continue;
      for (int32_t q = s.log2_seqlen_q[0]; q <= s.log2_seqlen_q[1]; ++q) {
        for (int32_t k = s.log2_seqlen_k[0]; k <= s.log2_seqlen_k[1]; ++k) {
          int16_t& entry = buckets[bucket_of(mask, layout, q, k)];
          if (entry != kNone) {
            fail(FA3_BUILD_ERROR, "variants ", variants[entry].name, " and ", variants[set.variant].name,
                 " both serve log2 seqlen_q ", q, ", seqlen_k ", k, "; correct the variant table and rebuild");
          }
          entry = static_cast<int16_t>(set.variant);
        }
      }
    }
  }
}

SelectionTable::SelectionTable(const std::vector<Fa3Variant>& variants, const std::vector<ServedSet>& served) {
  for (const Fa3Variant& v : variants) check(v);
  for (const ServedSet& set : served) check(variants[set.variant], set.classes);
  for (const int32_t dtype : {kFloat16, kBFloat16}) {
    auto& classes = head_dims_[dtype == kBFloat16];
    classes.fill(kNone);
    std::vector<int32_t> compiled;
    for (const ServedSet& set : served) {
      const Fa3Variant& v = variants[set.variant];
      if (v.dtype == dtype) compiled.push_back(v.head_dim);
    }
    std::sort(compiled.begin(), compiled.end());
    compiled.erase(std::unique(compiled.begin(), compiled.end()), compiled.end());
    int32_t next = 0;
    for (const int32_t head_dim : compiled) {
      Buckets buckets;
      buckets.fill(kNone);
      for (const ServedSet& set : served) {
        const Fa3Variant& v = variants[set.variant];
        if (v.dtype == dtype && v.head_dim == head_dim) fill(buckets, variants, set);
      }
      for (; next < head_dim / 8; ++next) classes[next] = static_cast<int16_t>(buckets_.size());
      buckets_.push_back(buckets);
    }
  }
}

int32_t SelectionTable::select(const Problem& problem) const {
  if (problem.head_dim < 1 || problem.head_dim > kMaxHeadDim) return kNone;
  const int16_t head_dim = head_dims_[problem.dtype == kBFloat16][(problem.head_dim + 7) / 8 - 1];
  if (head_dim == kNone) return kNone;
  const int32_t q = log2_seqlen(problem.query_rows);
  const int32_t k = log2_seqlen(problem.seqlen_k);
  return buckets_[head_dim][bucket_of(problem.mask, problem.layout, q, k)];
}

}  // namespace fa3
