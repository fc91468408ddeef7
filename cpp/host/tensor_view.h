// What the C interface's tensors say, in the terms of the kernels' parameters.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "host/c_api.h"

namespace fa3 {

// mask.h adds row numbers and lengths in 32 bits, rounded up to a tile.
inline constexpr int64_t kMaxRows = (int64_t{1} << 30) - 256;

// Dimensions of the 4 (dense) or 3 (varlen) that both layouts have, counted from the end.
inline int64_t size_of(const Fa3Tensor& t, int32_t from_end) {
  return t.sizes[t.rank - from_end];
}
inline constexpr int32_t kRow = 3, kHead = 2, kHeadDim = 1;

// A dimension of one element has no stride worth the name: torch leaves anything there, which must not cost alignment.
inline int64_t stride_of(const Fa3Tensor& t, int32_t dim) {
  return t.sizes[dim] <= 1 ? 0 : t.strides[dim];
}

inline Strides strides_of(const Fa3Tensor& t) {
  return {t.rank == 4 ? stride_of(t, 0) : 0, stride_of(t, t.rank - kRow), stride_of(t, t.rank - kHead)};
}

inline bool is_aligned(const Fa3Tensor& t, const Strides& s) {
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && s.batch % 8 == 0 && s.row % 8 == 0 && s.head % 8 == 0;
}

inline const int32_t* indices(const Fa3Tensor& t) {
  return t.rank < 0 ? nullptr : static_cast<const int32_t*>(t.data);
}

}  // namespace fa3
