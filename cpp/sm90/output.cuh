// Normalises one warpgroup's output rows and writes them, with their lse, straight from registers.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/score_transform.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "sm90/row_softmax.cuh"
#include "sm90/tile_state.h"

namespace fa3::sm90 {

// Word i of lane t in a quad becomes word t of lane i: from four pairs of columns to one 16-byte chunk.
__device__ __forceinline__ uint4 transpose_quad(const uint32_t (&w)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  const uint32_t a = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 1);
  const uint32_t b = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 1);
  const uint32_t x0 = odd ? a : w[0], x1 = odd ? w[1] : a, x2 = odd ? b : w[2], x3 = odd ? w[3] : b;
  const uint32_t c = __shfl_xor_sync(~0u, high ? x0 : x2, 2);
  const uint32_t d = __shfl_xor_sync(~0u, high ? x1 : x3, 2);
  return high ? uint4{c, d, x2, x3} : uint4{x0, x1, c, d};
}

// What storing a tile takes; the rest of its state is gone by then.
struct OutputTile {
  int32_t batch, head, q_row, slot_q, used_q, first_row;

  OutputTile() = default;
  __device__ __forceinline__ explicit OutputTile(const TileState& tile)
      : batch(tile.batch),
        head(tile.head),
        q_row(tile.q_row),
        slot_q(tile.slot_q),
        used_q(tile.window.used_q),
        first_row(tile.first_row) {}
};

struct OutputRow {
  uint16_t* out;
  float* lse;
  bool written;  // inside the sequence's slot
  bool attending;

  __device__ __forceinline__ OutputRow(const ForwardParams& p, const OutputTile& tile, int row_in_tile) {
    const int row = tile.first_row + row_in_tile;
    out = static_cast<uint16_t*>(p.out) + tile.batch * p.out_stride.batch +
          int64_t{tile.q_row + row} * p.out_stride.row + tile.head * p.out_stride.head;
    lse = p.lse + tile.batch * p.lse_batch_stride + tile.head * p.lse_head_stride + tile.q_row + row;
    written = row < tile.slot_q;
    attending = row < tile.used_q;
  }
};

template <typename Element, int kCount>
__device__ __forceinline__ void store_output(const ForwardParams& p, const OutputTile& tile, int row,
                                             const RowSoftmax<Element>& softmax, const float (&o)[kCount]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const OutputRow target(p, tile, row + 8 * r);
    const float total = softmax.total(r);
    const bool has_keys = total != 0.f && target.attending;  // a NaN total stays visible
    const float inverse = ptx::reciprocal_approx(total);
    if (target.written && lane == 0)
      *target.lse = has_keys ? (softmax.reference(r) + ptx::log2_approx(total)) * kLn2 : -INFINITY;
#pragma unroll
    for (int i = 0; i < kCount; i += 16) {
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const uint32_t pair = ptx::pack<Element>(o[i + 4 * w + 2 * r] * inverse, o[i + 4 * w + 2 * r + 1] * inverse);
        words[w] = has_keys ? pair : 0;
      }
      const uint4 chunk = transpose_quad(words);
      const int column = i * 2 + lane * 8;
      if (target.written && column < p.head_dim) *reinterpret_cast<uint4*>(target.out + column) = chunk;
    }
  }
}

// A tile none of whose rows sees a key.
__device__ __forceinline__ void store_empty(const ForwardParams& p, const OutputTile& tile, int row) {
  const int lane = threadIdx.x % 4;
#pragma unroll 1
  for (int r = 0; r < 2; ++r) {
    const OutputRow target(p, tile, row + 8 * r);
    if (not target.written) continue;
    if (lane == 0) *target.lse = -INFINITY;
    for (int column = lane * 8; column < p.head_dim; column += 32)
      *reinterpret_cast<uint4*>(target.out + column) = uint4{};
  }
}

}  // namespace fa3::sm90
