// The argument of append kernels, which write new rows of K and V into a cache.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"

namespace fa3 {

inline constexpr int32_t kAppendThreads = 256;  // of a CTA; the grid may have any size

struct AppendParams {
  const void *new_k, *new_v;  // (batch, rows, heads, head_dim)
  void *k, *v;                // (batch, capacity, heads, head_dim), or (num_pages, page_size, heads, head_dim)
  Strides new_k_stride, new_v_stride, k_stride, v_stride;
  const int32_t* lengths;     // (batch): row i of entry b becomes its key lengths[b] + i
  const int32_t* page_table;  // as in ForwardParams
  int64_t page_table_stride;
  int32_t batch, rows, heads, head_dim;
  int32_t capacity, page_size, num_pages;
  int32_t aligned;  // all pointers and strides suit 16-byte copies
};

}  // namespace fa3
