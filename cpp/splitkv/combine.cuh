// Merges the splits of each output row: the sum of their outputs, weighted by their shares of the softmax's
// denominator.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/sequence.h"
#include "ptx/grid_order.cuh"
#include "ptx/math.cuh"
#include "splitkv/output_row.cuh"

namespace fa3::splitkv {

// A CTA a (query, head); its warps share the splits among them. Launch: seqlen_q * heads_q * batch CTAs, at least one a
// batch entry.
template <typename Element, int kHeadDim>
__device__ __forceinline__ void combine(const ForwardParams& p) {
  constexpr int kWarps = kCombineThreads / 32;
  constexpr int kColumns = kHeadDim / 32;  // of a lane
  __shared__ float outputs[kWarps][kHeadDim];
  __shared__ float totals[kWarps];
  ptx::follow_grids_before();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int queries = max(p.seqlen_q, 1), rows_of_entry = queries * p.heads_q;
  const int batch = blockIdx.x / rows_of_entry, row = blockIdx.x - batch * rows_of_entry;
  const Sequence sequence = sequence_of(p, batch);
  // One round, unless a sequence is longer than the max_seqlen_q that sized the grid.
#pragma unroll 1
  for (int position = row / p.heads_q; position < sequence.slot_q; position += queries) {
    const OutputRow target(p, batch, row % p.heads_q, sequence.q_row + position);
    if (*target.partial_lse(p, 0) == kWhole) continue;
    float maximum = -INFINITY;
    for (int split = lane; split < p.num_splits; split += 32) {
      maximum = fmaxf(maximum, *target.partial_lse(p, split));
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, mask));
    float total = 0.f, sums[kColumns] = {};
#pragma unroll 2
    for (int split = warp; split < p.num_splits; split += kWarps) {
      const float lse = *target.partial_lse(p, split);
      if (lse == -INFINITY) continue;
      const float weight = ptx::exp2_approx(lse - maximum);
      total += weight;
      const float* source = target.partial_out(p, split);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int column = c * 32 + lane;
        if (column < p.head_dim) sums[c] += weight * source[column];
      }
    }
    if (lane == 0) totals[warp] = total;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) outputs[warp][c * 32 + lane] = sums[c];
    __syncthreads();
    total = totals[0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) total += totals[w];
    const int column = threadIdx.x * 8;
    if (column < p.head_dim) {
      float values[8] = {};
      const float inverse = total != 0.f ? 1.f / total : 0.f;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) values[c] += outputs[w][column + c];
        values[c] *= inverse;
      }
      target.template store<Element>(p, column, values, total != 0.f ? maximum + ptx::log2_approx(total) : -INFINITY);
    }
    __syncthreads();
  }
}

}  // namespace fa3::splitkv
