// The one argument of forward kernels that load and store by TMA.
//
// Maps have four dimensions (head_dim, row, head, batch entry), varlen tensors one batch entry, and zeros outside:
// boxes of one swizzle panel of columns by kQueryBoxRows (q, out) or VariantInfo::block_n (k, v) rows. Of a paged cache,
// pages take the place of batch entries, and boxes are no longer than a page.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"

namespace fa3 {

inline constexpr int kQueryBoxRows = 64;  // a warpgroup's

// CUtensorMap, which only the driver may look into.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

struct TmaForwardParams {
  TensorMap q, k, v, out;
  ForwardParams forward;
};

}  // namespace fa3
