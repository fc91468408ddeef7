// C entry points to the index logic that host and device share, for tests/cpp/test_attention_logic.py.
#include <cstdint>

#include "attention/mask.h"
#include "attention/sequence.h"
#include "attention/tile_scheduler.h"

extern "C" {

// One sequence of a varlen batch; -1 stands for an index tensor that isn't given.
void sequence_of(const int32_t cu_q[2], const int32_t cu_k[2], int32_t total_q, int32_t total_k, int32_t used_q,
                 int32_t used_k, int64_t out[5]) {
  fa3::ForwardParams p{};
  p.total_q = total_q, p.total_k = total_k;
  p.cu_seqlens_q = cu_q, p.cu_seqlens_k = cu_k;
  p.seqused_q = used_q == -1 ? nullptr : &used_q;
  p.seqused_k = used_k == -1 ? nullptr : &used_k;
  const fa3::Sequence s = fa3::sequence_of(p, 0);
  out[0] = s.q_row, out[1] = s.k_row, out[2] = s.slot_q, out[3] = s.used_q, out[4] = s.used_k;
}

static fa3::Window window(int32_t used_q, int32_t used_k, int32_t left, int32_t right) {
  fa3::ForwardParams p{};
  p.window_left = left, p.window_right = right;
  return fa3::window_of(p, {0, 0, used_q, used_q, used_k});
}

void keys_of(int32_t used_q, int32_t used_k, int32_t left, int32_t right, int32_t row, int32_t out[2]) {
  const fa3::KeyRange keys = window(used_q, used_k, left, right).keys(row);
  out[0] = keys.begin, out[1] = keys.end;
}

void blocks_of(int32_t used_q, int32_t used_k, int32_t left, int32_t right, int32_t row, int32_t rows, int32_t out[4]) {
  const fa3::BlockRange blocks = fa3::blocks_of<64>(window(used_q, used_k, left, right), row, rows);
  out[0] = blocks.begin, out[1] = blocks.end, out[2] = blocks.full_begin, out[3] = blocks.full_end;
}

void tile_of(int32_t m_blocks, int32_t heads, int32_t batch, int32_t heads_per_section, int32_t index, int32_t out[3]) {
  fa3::ForwardParams p{};
  p.num_m_blocks = m_blocks, p.heads_q = heads, p.batch = batch, p.heads_per_section = heads_per_section;
  const fa3::Tile tile = fa3::tile_of(p, index);
  out[0] = tile.m_block, out[1] = tile.head, out[2] = tile.batch;
}
}
