// One (query, head)'s row of the output, whole or of one split.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/score_transform.cuh"
#include "ptx/mma.cuh"

namespace fa3::splitkv {

struct OutputRow {
  uint16_t* out;
  int64_t index;  // of its element in lse's tensor, by which splits keep the row too
  int64_t count;  // of the elements there

  // `row`: in the tensor's batch entry.
  __device__ __forceinline__ OutputRow(const ForwardParams& p, int batch, int head, int64_t row) {
    out =
        static_cast<uint16_t*>(p.out) + batch * p.out_stride.batch + row * p.out_stride.row + head * p.out_stride.head;
    index = batch * p.lse_batch_stride + head * p.lse_head_stride + row;
    count = p.cu_seqlens_q != nullptr ? p.heads_q * p.lse_head_stride : p.batch * p.lse_batch_stride;
  }

  __device__ __forceinline__ float* partial_lse(const ForwardParams& p, int split) const {
    return p.partial_lse + split * count + index;
  }
  __device__ __forceinline__ float* partial_out(const ForwardParams& p, int split) const {
    return p.partial_out + (split * count + index) * p.head_dim;
  }

  // Eight columns of normalised output from `column` on, and with the first lse, which is in base 2.
  template <typename Element>
  __device__ __forceinline__ void store(const ForwardParams& p, int column, const float (&values)[8],
                                        float lse2) const {
    uint4 chunk;
    chunk.x = ptx::pack<Element>(values[0], values[1]), chunk.y = ptx::pack<Element>(values[2], values[3]);
    chunk.z = ptx::pack<Element>(values[4], values[5]), chunk.w = ptx::pack<Element>(values[6], values[7]);
    *reinterpret_cast<uint4*>(out + column) = chunk;
    if (column == 0 && p.lse != nullptr) p.lse[index] = lse2 * kLn2;
  }

  __device__ __forceinline__ void store_partial(const ForwardParams& p, int split, int column, const float (&values)[8],
                                                float lse2) const {
    float* target = partial_out(p, split) + column;
    *reinterpret_cast<float4*>(target) = float4{values[0], values[1], values[2], values[3]};
    *reinterpret_cast<float4*>(target + 4) = float4{values[4], values[5], values[6], values[7]};
    if (column == 0) *partial_lse(p, split) = lse2;
  }
};

}  // namespace fa3::splitkv
