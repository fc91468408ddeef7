// Where one batch entry's rows lie, whatever the index tensors say.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/host_device.h"

namespace fa3 {

FA3_HOST_DEVICE int32_t clamp(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : (value > high ? high : value);
}

struct Sequence {
  int64_t q_row, k_row;  // first row inside the tensor's batch entry
  int32_t slot_q;        // rows of q and out that belong to this entry; all are written
  int32_t used_q;        // of these, rows that attend; the others give 0 and lse -inf
  int32_t used_k;        // keys attended to
};

// Indices that lie (negative, decreasing, past the end) are clamped to the tensors' rows.
FA3_HOST_DEVICE Sequence sequence_of(const ForwardParams& p, int32_t batch) {
  Sequence s{0, 0, p.seqlen_q, 0, p.seqlen_k};
  if (p.cu_seqlens_q != nullptr) {
    const int32_t begin = clamp(p.cu_seqlens_q[batch], 0, p.total_q);
    s.q_row = begin;
    s.slot_q = clamp(p.cu_seqlens_q[batch + 1], begin, p.total_q) - begin;
  }
  if (p.cu_seqlens_k != nullptr) {
    const int32_t begin = clamp(p.cu_seqlens_k[batch], 0, p.total_k);
    s.k_row = begin;
    s.used_k = clamp(p.cu_seqlens_k[batch + 1], begin, p.total_k) - begin;
  }
  s.used_q = p.seqused_q != nullptr ? clamp(p.seqused_q[batch], 0, s.slot_q) : s.slot_q;
  // What is added counts from where the cache says, which may be below 0; the sum may not wrap.
  if (p.seqused_k != nullptr) {
    s.used_k = clamp(clamp(p.seqused_k[batch], -p.added_k, s.used_k) + p.added_k, 0, s.used_k);
  }
  return s;
}

}  // namespace fa3
