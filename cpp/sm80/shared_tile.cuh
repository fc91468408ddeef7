// A (rows, head_dim) tile of 16-bit elements in shared memory, and the copy that fills it.
#pragma once

#include <cstdint>

#include "ptx/cp_async.cuh"
#include "ptx/shared.cuh"
#include "ptx/special_registers.cuh"

namespace fa3::sm80 {

// Rows are contiguous. Their 16-byte chunks are permuted by XOR so that the eight rows an ldmatrix phase touches fall
// into eight different groups of four banks: 128-byte rows repeat every row, 192-byte rows every second.
template <int kHeadDim>
struct SharedTile {
  static constexpr int kRowBytes = kHeadDim * 2;
  static constexpr int kChunks = kHeadDim / 8;
  static constexpr int kSwizzle = kHeadDim % 64 == 0 ? 8 : 4;  // chunks permuted among each other

  // To be XORed onto the chunk index of `row`.
  __device__ static constexpr uint32_t swizzle(uint32_t row) { return kSwizzle == 8 ? row & 7 : (row >> 1) & 3; }

  // Byte offset inside a row of chunk `fixed + lane`, where `fixed` is even and known at compile time, lane is 0 or 1
  // and `lane_bytes` is (lane ^ swizzle(row)) * 16.
  __device__ static constexpr uint32_t chunk_offset(uint32_t lane_bytes, int fixed) {
    return (lane_bytes ^ ((fixed % kSwizzle) * 16)) + (fixed / kSwizzle) * kSwizzle * 16;
  }
};

// Eight elements one by one, at any address; zeros, and nothing read, when `valid` is false.
__device__ __forceinline__ uint4 gather(const uint16_t* source, bool valid) {
  uint32_t words[4] = {};
  if (valid) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = source[2 * i] | uint32_t{source[2 * i + 1]} << 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

// Copies `kRows` rows of up to kHeadDim elements from global memory; rows at or past `rows_left` and columns at or past
// head_dim become zeros without being read. Each thread keeps the same columns for all rows, so addresses advance by
// constants.
template <int kHeadDim, int kRows, int kThreads>
struct TileCopy {
  using Tile = SharedTile<kHeadDim>;
  static constexpr int kLanes = Tile::kSwizzle;  // threads that share a row
  static constexpr int kRowStep = kThreads / kLanes;
  static constexpr int kSteps = kRows / kRowStep;
  static_assert(kRows % kRowStep == 0 && kRowStep % 8 == 0, "the swizzle must repeat with the row step");

  const uint16_t* base;  // row 0 of the tensor for this batch entry and head
  int64_t stride;        // elements from row to row
  int32_t head_dim;
  int32_t aligned;  // 16-byte copies are legal

  __device__ __forceinline__ void operator()(uint32_t shared, int32_t first_row, int32_t rows_left) const {
    const uint32_t thread = ptx::thread_index();
    const int row = thread / kLanes, lane = thread % kLanes;
    const uint16_t* source = base + int64_t{first_row + row} * stride + lane * 8;
    const uint32_t target = shared + row * Tile::kRowBytes + (lane ^ Tile::swizzle(row)) * 16;
    if (aligned) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const bool row_valid = row + step * kRowStep < rows_left;
#pragma unroll
        for (int part = 0; part < Tile::kChunks / kLanes; ++part) {
          const int column = (part * kLanes + lane) * 8;
          ptx::cp_async_16(target + step * kRowStep * Tile::kRowBytes + part * kLanes * 16,
                           source + step * kRowStep * stride + part * kLanes * 8, row_valid && column < head_dim);
        }
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step) {
        const bool row_valid = row + step * kRowStep < rows_left;
#pragma unroll 1
        for (int part = 0; part < Tile::kChunks / kLanes; ++part) {
          const int column = (part * kLanes + lane) * 8;
          ptx::store_shared(
              target + step * kRowStep * Tile::kRowBytes + part * kLanes * 16,
              gather(source + step * kRowStep * stride + part * kLanes * 8, row_valid && column < head_dim));
        }
      }
    }
  }
};

}  // namespace fa3::sm80
