// What one warp does with a block of keys: S = Q K^T, and O += softmax(S) V.
#pragma once

#include <cstdint>

#include "attention/online_softmax.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "sm80/shared_tile.cuh"
#include "sm80/traits.cuh"

namespace fa3::sm80 {

template <typename Traits>
struct WarpMma {
  using Element = typename Traits::Element;
  using Tile = SharedTile<Traits::kHeadDim>;
  static constexpr int kMmaM = Traits::kMmaM;
  static constexpr int kTilesN = Traits::kBlockN / 8;
  static constexpr int kTilesD = Traits::kHeadDim / 8;

  using Scores = float[kMmaM][kTilesN][4];
  using Output = float[kMmaM][kTilesD][4];
  using FragmentQ = uint32_t[kMmaM][4];
  using Fragments = FragmentQ[Traits::kQInRegisters ? Traits::kStepsD : 1];

  // This lane's row and chunk in the 16x16 pieces that ldmatrix takes: Q and V list 16 rows, then the next 8 columns;
  // K lists 8 rows, the next 8 columns, then the next 8 rows.
  struct LaneAddress {
    uint32_t row_bytes, chunk_bytes;
    __device__ LaneAddress(uint32_t row, uint32_t chunk)
        : row_bytes(row * Tile::kRowBytes), chunk_bytes((chunk ^ Tile::swizzle(row)) * 16) {}
    __device__ __forceinline__ uint32_t at(uint32_t tile, int row, int chunk) const {
      return tile + row_bytes + row * Tile::kRowBytes + Tile::chunk_offset(chunk_bytes, chunk);
    }
  };

  LaneAddress lane_qv, lane_k;
  uint32_t q_tile;  // this warp's rows
  Fragments q;

  __device__ __forceinline__ WarpMma(uint32_t q_tile_, int lane)
      : lane_qv(lane & 15, lane >> 4), lane_k((lane & 7) + (lane >> 4) * 8, lane >> 3 & 1), q_tile(q_tile_) {}

  __device__ __forceinline__ void load_q(FragmentQ& fragment, int step) const {
#pragma unroll
    for (int m = 0; m < kMmaM; ++m) ptx::ldmatrix_x4(fragment[m], lane_qv.at(q_tile, m * 16, step * 2));
  }

  __device__ __forceinline__ void keep_q() {
#pragma unroll
    for (int step = 0; step < Traits::kStepsD; ++step) load_q(q[step], step);
  }

  __device__ __forceinline__ void multiply_qk(Scores& s, uint32_t k_tile) {
    constexpr float kZero[4] = {};
#pragma unroll
    for (int step = 0; step < Traits::kStepsD; ++step) {
      if constexpr (not Traits::kQInRegisters) load_q(q[0], step);
      const FragmentQ& a = q[Traits::kQInRegisters ? step : 0];
#pragma unroll
      for (int n = 0; n < Traits::kStepsN; ++n) {
        uint32_t b[4];
        ptx::ldmatrix_x4(b, lane_k.at(k_tile, n * 16, step * 2));
#pragma unroll
        for (int m = 0; m < kMmaM; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float (&d)[4] = s[m][2 * n + half];
            if (step == 0) {
              ptx::mma_m16n8k16<Element>(d, a[m], b[2 * half], b[2 * half + 1], kZero);
            } else {
              ptx::mma_m16n8k16<Element>(d, a[m], b[2 * half], b[2 * half + 1], d);
            }
          }
        }
      }
    }
  }

  // 16 keys at a time, so that the compiler can run the exponentials of some keys under the MMAs of others.
  __device__ __forceinline__ void multiply_pv(Output& o, const Scores& s, OnlineSoftmax<kMmaM>& softmax,
                                              uint32_t v_tile) {
#pragma unroll
    for (int n = 0; n < Traits::kStepsN; ++n) {
      uint32_t p[kMmaM][4];
#pragma unroll
      for (int m = 0; m < kMmaM; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) p[m][i] = packed_pair(s, softmax, n, m, i);
      }
#pragma unroll
      for (int d = 0; d < Traits::kStepsD; ++d) {
        uint32_t b[4];
        ptx::ldmatrix_x4_trans(b, lane_qv.at(v_tile, n * 16, d * 2));
#pragma unroll
        for (int m = 0; m < kMmaM; ++m) {
          ptx::mma_m16n8k16<Element>(o[m][2 * d], p[m], b[0], b[1], o[m][2 * d]);
          ptx::mma_m16n8k16<Element>(o[m][2 * d + 1], p[m], b[2], b[3], o[m][2 * d + 1]);
        }
      }
    }
  }

 private:
  // Register i of the A fragment for keys 16 * n..: accumulators of S already have the layout of A.
  __device__ __forceinline__ static uint32_t packed_pair(const Scores& s, OnlineSoftmax<kMmaM>& softmax, int n, int m,
                                                         int i) {
    const int r = i % 2;
    const float (&tile)[4] = s[m][2 * n + i / 2];
    const float low = softmax.probability(tile[2 * r], m, r);
    return ptx::pack<Element>(low, softmax.probability(tile[2 * r + 1], m, r));
  }
};

}  // namespace fa3::sm80
