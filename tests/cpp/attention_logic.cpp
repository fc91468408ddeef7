// C entry points to the index logic that host and device share, for tests/cpp/test_attention_logic.py.
#include <cstdint>
#include <vector>

#include "attention/mask.h"
#include "attention/sequence.h"
#include "attention/tile_scheduler.h"
#include "sm90/tile_state.h"

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

uint32_t seen_scores(int32_t begin, int32_t end, int32_t first_key) {
  return fa3::seen_scores({begin, end}, first_key);
}

void blocks_of(int32_t used_q, int32_t used_k, int32_t left, int32_t right, int32_t row, int32_t rows, int32_t out[4]) {
  const fa3::BlockRange blocks = fa3::blocks_of<64>(window(used_q, used_k, left, right), row, rows);
  out[0] = blocks.begin, out[1] = blocks.end, out[2] = blocks.full_begin, out[3] = blocks.full_end;
}

void tile_of(int32_t m_blocks, int32_t heads, int32_t batch, int32_t heads_per_section, int32_t index, int32_t out[3]) {
  fa3::ForwardParams p{};
  p.num_m_blocks = m_blocks, p.heads_q = heads, p.batch = batch, p.heads_per_section = heads_per_section;
  p.heads_of_first_section = fa3::heads_of_first_section(heads * batch, heads_per_section);
  const fa3::Tile tile = fa3::tile_of(p, index);
  out[0] = tile.m_block, out[1] = tile.head, out[2] = tile.batch;
}

// Plays a persistent grid: in each turn the CTA that `order` names walks one tile.
// Writes (batch, head, first_row) of every tile handed out, and returns their number; `counter` is the kernel's ticket
// counter.
int32_t walk_tiles(int32_t m_blocks, int32_t heads, int32_t batch, int32_t ctas, const int32_t* lengths, int32_t ticket,
                   const int32_t* order, int32_t turns, uint32_t* counter, int32_t capacity, int32_t* out) {
  fa3::ForwardParams p{};
  p.num_m_blocks = m_blocks, p.heads_q = p.heads_k = heads, p.batch = batch;
  p.heads_per_section = p.heads_of_first_section = heads * batch;
  p.window_left = p.window_right = -1;
  p.cu_seqlens_q = p.cu_seqlens_k = lengths;
  p.total_q = p.total_k = lengths[batch];
  p.ticket = ticket;
  const auto draw = [&](uint32_t tiles) {  // atomicInc
    const uint32_t old = *counter;
    *counter = old >= tiles - 1 ? 0 : old + 1;
    return old;
  };
  using Walk = fa3::sm90::TileWalk<64, 64, decltype(draw)>;
  std::vector<Walk> walks;
  std::vector<fa3::sm90::TileState> states(ctas);
  std::vector<bool> done(ctas);
  for (int32_t cta = 0; cta < ctas; ++cta) walks.emplace_back(p, cta, ctas, draw);
  int32_t count = 0;
  const auto step = [&](int32_t cta) {
    if (done[cta]) return;
    walks[cta].next(states[cta]);
    if (not states[cta].valid) {
      done[cta] = true;
    } else if (count < capacity) {
      out[3 * count] = states[cta].batch, out[3 * count + 1] = states[cta].head,
              out[3 * count + 2] = states[cta].first_row;
      ++count;
    }
  };
  for (int32_t turn = 0; turn < turns; ++turn) {
    step(order[turn] % ctas);
  }
  for (int32_t cta = 0; cta < ctas; ++cta) {
    while (not done[cta]) step(cta);
  }
  return count;
}
}
