// Writes new rows of K and V into a cache, behind the rows that each batch entry has.
#pragma once

#include <cstdint>

#include "attention/append_params.h"
#include "ptx/grid_order.cuh"

namespace fa3::splitkv {

// A thread a 16-byte chunk of K and of V, in turns. Rows without a place in the cache are dropped.
__device__ __forceinline__ void append(const AppendParams& p) {
  ptx::follow_grids_before();
  const int chunks = p.head_dim / 8;
  const int64_t total = int64_t{p.batch} * p.rows * p.heads * chunks;
  for (int64_t i = int64_t{blockIdx.x} * kAppendThreads + threadIdx.x; i < total;
       i += int64_t{gridDim.x} * kAppendThreads) {
    const int64_t vector = i / chunks;
    const int column = static_cast<int>(i - vector * chunks) * 8;
    const int64_t row = vector / p.heads;
    const int head = static_cast<int>(vector - row * p.heads);
    const int batch = static_cast<int>(row / p.rows);
    const int new_row = static_cast<int>(row - int64_t{batch} * p.rows);
    const int64_t key = int64_t{p.lengths[batch]} + new_row;
    if (key < 0 || key >= p.capacity) continue;
    int64_t page = batch, row_in_page = key;
    if (p.page_table != nullptr) {
      const int64_t index = key / p.page_size;
      page = p.page_table[batch * p.page_table_stride + index];
      row_in_page = key - index * p.page_size;
      if (page < 0 || page >= p.num_pages) continue;
    }
    const auto copy = [&](const void* from, const Strides& from_stride, void* to, const Strides& to_stride) {
      const uint16_t* source = static_cast<const uint16_t*>(from) + batch * from_stride.batch +
                               new_row * from_stride.row + head * from_stride.head + column;
      uint16_t* target = static_cast<uint16_t*>(to) + page * to_stride.batch + row_in_page * to_stride.row +
                         head * to_stride.head + column;
      if (p.aligned) {
        *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
      } else {
#pragma unroll
        for (int c = 0; c < 8; ++c) target[c] = source[c];
      }
    };
    copy(p.new_k, p.new_k_stride, p.k, p.k_stride);
    copy(p.new_v, p.new_v_stride, p.v, p.v_stride);
  }
}

}  // namespace fa3::splitkv
