// Normalises one warpgroup's output rows and writes them, with their lse, straight from registers.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/score_transform.cuh"
#include "ptx/global.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "sm90/row_softmax.cuh"
#include "sm90/tile_state.h"

namespace fa3::sm90 {

// From two pairs of columns, eight columns apart, to four columns in a row: a quad of lanes then has 16 in a row, which
// is a sector of 32 bytes.
__device__ __forceinline__ uint2 join_pairs(uint32_t low, uint32_t high) {
  const bool odd = threadIdx.x & 1;
  const uint32_t other = __shfl_xor_sync(~0u, odd ? low : high, 1);
  return odd ? uint2{other, high} : uint2{low, other};
}

// What storing a tile takes; the rest of its state is gone by then.
struct OutputTile {
  int32_t batch, head;
  int32_t first_row;           // of the tile, in the tensors
  int32_t written, attending;  // rows of the tile inside the sequence's slot, and of its queries

  __device__ __forceinline__ explicit OutputTile(const TileState& tile)
      : batch(tile.batch),
        head(tile.head),
        first_row(tile.q_row + tile.first_row),
        written(tile.slot_q - tile.first_row),
        attending(tile.window.used_q - tile.first_row) {}
};

struct OutputRow {
  uint16_t* out;
  float* lse;
  bool written;  // inside the sequence's slot
  bool attending;

  __device__ __forceinline__ OutputRow(const ForwardParams& p, const OutputTile& tile, int row_in_tile) {
    const int row = tile.first_row + row_in_tile;
    out = static_cast<uint16_t*>(p.out) + tile.batch * p.out_stride.batch + int64_t{row} * p.out_stride.row +
          tile.head * p.out_stride.head;
    lse = p.lse + tile.batch * p.lse_batch_stride + tile.head * p.lse_head_stride + row;
    written = row_in_tile < tile.written;
    attending = row_in_tile < tile.attending;
  }
};

template <typename Element, int kCount>
__device__ __forceinline__ void store_output(const ForwardParams& p, const OutputTile& tile, int row,
                                             const RowSoftmax<Element>& softmax, float (&o)[kCount]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const OutputRow target(p, tile, row + 8 * r);
    const float total = softmax.total(r);
    const bool has_keys = total != 0.f && target.attending;  // a NaN total stays visible
    if (target.written && lane == 0 && p.lse != nullptr)
      *target.lse = has_keys ? (softmax.reference(r) + ptx::log2_approx(total)) * kLn2 : -INFINITY;
    const float inverse = has_keys ? ptx::reciprocal_approx(total) : 0.f;
    if (__any_sync(~0u, not has_keys)) {  // o may be NaN there: 0 * V of an infinite V
#pragma unroll
      for (int i = 2 * r; i < kCount; i += 4) {
        if (not has_keys) o[i] = o[i + 1] = 0.f;
      }
    }
    // Odd lanes end up in the upper eight of each 16 columns.
    const int first_column = lane % 2 * 8 + lane / 2 * 4;
    uint16_t* const out = ptx::opaque(target.out + first_column);
    const int columns = target.written ? p.head_dim - first_column : 0;
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
      uint32_t words[2];
#pragma unroll
      for (int w = 0; w < 2; ++w)
        words[w] = ptx::pack<Element>(o[i + 4 * w + 2 * r] * inverse, o[i + 4 * w + 2 * r + 1] * inverse);
      const uint2 four = join_pairs(words[0], words[1]);
      ptx::store_global_if(i * 2 < columns, out + i * 2, four);
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
    if (lane == 0 && p.lse != nullptr) *target.lse = -INFINITY;
    for (int column = lane * 8; column < p.head_dim; column += 32)
      *reinterpret_cast<uint4*>(target.out + column) = uint4{};
  }
}

}  // namespace fa3::sm90
