// Normalises one warpgroup's output rows and writes them, with their lse, straight from registers.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/score_transform.cuh"
#include "ptx/global.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/wgmma.cuh"
#include "sm90/row_softmax.cuh"
#include "sm90/tile_state.h"
#include "sm90/traits.cuh"

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

__device__ __forceinline__ uint16_t* out_row(const ForwardParams& p, const OutputTile& tile, int row) {
  return static_cast<uint16_t*>(p.out) + tile.batch * p.out_stride.batch +
         int64_t{tile.first_row + row} * p.out_stride.row + tile.head * p.out_stride.head;
}

__device__ __forceinline__ float* lse_row(const ForwardParams& p, const OutputTile& tile, int row) {
  return p.lse + tile.batch * p.lse_batch_stride + tile.head * p.lse_head_stride + tile.first_row + row;
}

// Writes this thread's two rows of lse. `inverse`: what normalises them, 0 for a row without keys, whose output is made 0.
template <typename Traits, int kCount>
__device__ __forceinline__ void finish_rows(const ForwardParams& p, const OutputTile& tile, int row,
                                            const RowSoftmax<Traits>& softmax, float (&o)[kCount],
                                            float (&inverse)[2]) {
  float* const lse = lse_row(p, tile, row);
  const float total[2] = {softmax.total(0), softmax.total(1)};
  bool has_keys[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    has_keys[r] = total[r] != 0.f && row + 8 * r < tile.attending;  // a NaN total stays visible
    inverse[r] = has_keys[r] ? ptx::reciprocal_approx(total[r]) : 0.f;
    const bool written = threadIdx.x % 4 == 0 && p.lse != nullptr && row + 8 * r < tile.written;
    const float value = (softmax.reference(r) + ptx::log2_approx(total[r])) * kLn2;
    ptx::store_global_if(written, lse + 8 * r, has_keys[r] ? value : -INFINITY);
  }
  if (__any_sync(~0u, not has_keys[0] || not has_keys[1])) {  // o may be NaN there: 0 * V of an infinite V
#pragma unroll
    for (int i = 0; i < kCount; ++i) ptx::clear_if(not has_keys[i / 2 % 2], o[i]);
  }
}

// Straight from registers, whichever rows are to be written.
template <typename Element, int kCount>
__device__ __forceinline__ void store_rows(const ForwardParams& p, const OutputTile& tile, int row,
                                           const float (&o)[kCount], const float (&inverse)[2]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    // Odd lanes end up in the upper eight of each 16 columns.
    const int first_column = lane % 2 * 8 + lane / 2 * 4;
    uint16_t* const out = ptx::opaque(out_row(p, tile, row + 8 * r) + first_column);
    const int columns = row + 8 * r < tile.written ? p.head_dim - first_column : 0;
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
      uint32_t words[2];
#pragma unroll
      for (int w = 0; w < 2; ++w)
        words[w] = ptx::pack<Element>(o[i + 4 * w + 2 * r] * inverse[r], o[i + 4 * w + 2 * r + 1] * inverse[r]);
      const uint2 four = join_pairs(words[0], words[1]);
      ptx::store_global_if(i * 2 < columns, out + i * 2, four);
    }
  }
}

// As bf16 or fp16 to a tile in shared memory, as TMA swizzles it.
template <typename Traits, int kCount>
__device__ __forceinline__ void stage_rows(uint32_t tile, const float (&o)[kCount], const float (&inverse)[2]) {
  constexpr int kChunks = Traits::kPanelBytes / 16;  // of a panel's row, permuted by the row
  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16, upper = threadIdx.x / 16 % 2;
  const uint32_t first = tile + row * Traits::kPanelBytes;
  const int swizzle = Traits::kPanelBytes == 128 ? row % 8 : row / 2 % 4;
#pragma unroll
  for (int i = 0; i < kCount; i += 8) {
    uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] = ptx::pack<typename Traits::Element>(o[i + 2 * w] * inverse[w % 2], o[i + 2 * w + 1] * inverse[w % 2]);
    const int chunk = i / 4 % kChunks + upper, panel = i / 4 / kChunks;
    ptx::stmatrix_x4(first + panel * kQueryBoxRows * Traits::kPanelBytes + (chunk ^ swizzle) * 16, words);
  }
}

// A tile none of whose rows sees a key.
__device__ __forceinline__ void store_empty(const ForwardParams& p, const OutputTile& tile, int row) {
  const int lane = threadIdx.x % 4;
#pragma unroll 1
  for (int r = row; r < min(row + 16, tile.written); r += 8) {
    if (lane == 0 && p.lse != nullptr) *lse_row(p, tile, r) = -INFINITY;
    uint16_t* const out = out_row(p, tile, r);
    for (int column = lane * 8; column < p.head_dim; column += 32) *reinterpret_cast<uint4*>(out + column) = uint4{};
  }
}

}  // namespace fa3::sm90
