// The contract between host and device: the one argument of every forward kernel.
//
// Launch: a 1-D grid, which carries batch and heads beyond 65,535, of num_tiles CTAs (fewer where
// VariantInfo::tma_columns says so, num_splits times as many where VariantInfo::splits_keys does); block =
// VariantInfo::threads, dynamic shared memory = VariantInfo::dynamic_shared_bytes.
// Plain C++: included by the host library and by tests without CUDA.
#pragma once

#include <cstdint>

namespace fa3 {

inline constexpr int32_t kForwardAbiVersion = 6;
inline constexpr float kWhole = __builtin_huge_valf();
inline constexpr int32_t kTicketCounters = 16384;  // of each kernel with a persistent grid
inline constexpr int32_t kCombineThreads = 128;    // of a combine kernel's CTA, which merges one row

// Element strides of one tensor; the last dimension is contiguous. Varlen tensors have batch == 0.
struct Strides {
  int64_t batch;
  int64_t row;
  int64_t head;
};

struct ForwardParams {
  const void* q;  // (batch, seqlen_q, heads_q, head_dim), or (total_q, heads_q, head_dim) when cu_seqlens_q is set
  const void* k;  // (batch, seqlen_k, heads_k, head_dim), or (total_k, heads_k, head_dim) when cu_seqlens_k is set, or
                  // (num_pages, page_size, heads_k, head_dim) when page_table is set
  const void* v;  // as k
  void* out;      // as q; 16-byte aligned rows
  float* lse;     // (batch, heads_q, seqlen_q), or (heads_q, total_q); natural logarithm; -inf for a row without keys.
                  // Null: not wanted
  Strides q_stride, k_stride, v_stride, out_stride;
  int64_t lse_batch_stride, lse_head_stride;  // elements; varlen: batch stride 0

  // Device pointers, each nullable. cu_seqlens have batch + 1 entries, seqused batch entries. The kernel clamps
  // whatever they say to [0, total] and to the sequence's own length, so that lying indices never leave the tensors.
  const int32_t* cu_seqlens_q;
  const int32_t* cu_seqlens_k;
  const int32_t* seqused_q;
  const int32_t* seqused_k;
  const int32_t* page_table;  // (batch, seqlen_k / page_size): the pages that hold an entry's keys
  int64_t page_table_stride;  // from entry to entry

  int32_t batch, heads_q, heads_k;  // heads_q % heads_k == 0
  int32_t seqlen_q, seqlen_k;  // dense: the lengths; varlen: max_seqlen (a hint: longer sequences are still right);
                               // paged: the keys that an entry's pages hold
  int32_t total_q, total_k;    // varlen: rows of q and k; dense: seqlen_q, seqlen_k
  int32_t head_dim;            // actual, a multiple of 8, at most the variant's
  int32_t page_size, num_pages;
  int32_t added_k;  // to what seqused_k says

  float softmax_scale;   // applied to q.k; finite
  float softcap;         // 0: off; else s = softcap * tanh(s / softcap)
  int32_t window_left;   // keys further left than this are masked; negative: no limit
  int32_t window_right;  // likewise to the right; causal is 0. Bottom-right aligned.

  // Tile order, see tile_scheduler.h. num_tiles = num_m_blocks * heads_q * batch < 2^31; with splits_keys heads_k in
  // place of heads_q.
  int32_t num_m_blocks;  // ceil(rows / VariantInfo::block_m), at least 1; rows: seqlen_q, with splits_keys times the
                         // heads of a group
  int32_t heads_per_section;       // (batch, head) pairs of a section, at least 1
  int32_t heads_of_first_section;  // from 1 to that

  // Set when base pointers are multiples of 16 bytes and batch, row and head strides of 8 elements: 16-byte copies are
  // legal.
  int32_t q_aligned, kv_aligned;

  // Persistent grids only: which of the kernel's ticket counters deals out tiles. Launches that may run at the same
  // time must not share one; a launch leaves it at zero. Negative: tiles are dealt in a fixed order.
  int32_t ticket;

  // splits_keys only: CTAs that may share a tile's keys. More than one: each writes its output to partial_out,
  // normalised, and its lse to partial_lse, both (num_splits, rows of lse as lse counts them) in fp32, and a combine
  // kernel merges them. One that finds that it has a tile's keys to itself writes out and lse, and kWhole as its lse.
  int32_t num_splits;
  int32_t slots;  // 0: every tile has as many splits; else how many CTAs run at a time, see splitkv/ragged_grid.cuh
  float* partial_out;  // head_dim floats a row
  float* partial_lse;  // base 2
};

}  // namespace fa3
