// What the producer tells the consumers of a tile, and the walk over the tiles that a CTA of a persistent grid takes.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/host_device.h"
#include "attention/mask.h"
#include "attention/sequence.h"
#include "attention/tile_scheduler.h"

namespace fa3::sm90 {

struct TileState {
  Window window;
  BlockRange blocks;
  int32_t batch, head;
  int32_t q_row, k_row;  // first rows of the sequence in the tensors
  int32_t slot_q;        // rows of q and out that belong to the sequence
  int32_t first_row;     // of the tile, in the sequence
  int32_t valid;         // 0: there are no more tiles

  FA3_HOST_DEVICE bool has_keys() const { return blocks.begin < blocks.end; }
};

// The first tile of a CTA is its own number; `draw` gives the others, as numbers from 0 in the order of asking over all
// CTAs. So a CTA that got short tiles takes more of them. Every CTA draws until it is told to stop: num_tiles draws in
// all.
template <int kBlockM, int kBlockN, typename Draw>
class TileWalk {
 public:
  FA3_HOST_DEVICE TileWalk(const ForwardParams& p, int32_t cta, int32_t ctas, Draw draw)
      : p_(p), upcoming_(cta), ctas_(ctas), draw_(draw) {}

  // Draws the number of the next tile if that has not been done, so that its latency hides behind the rest of this one.
  // Not much earlier: a tile that waits for a busy CTA is one that an idle CTA did not get.
  FA3_HOST_DEVICE void draw_ahead() {
    if (drawn_) return;
    upcoming_ = p_.ticket >= 0 ? ctas_ + draw_(num_tiles()) : upcoming_ + ctas_;
    drawn_ = true;
  }

  // Moves `state`, at first all zero, to the next tile; its `valid` is 0 after the last.
  FA3_HOST_DEVICE void next(TileState& state) {
    // A sequence longer than the max_seqlen_q that sized the grid: the same tile again, further down.
    const int32_t stride = p_.num_m_blocks * kBlockM;
    if (state.valid && stride < state.slot_q - state.first_row) {
      state.first_row += stride;
    } else {
      do {
        if (not deal(state)) return;
      } while (state.first_row >= state.slot_q);
    }
    state.blocks = blocks_of<kBlockN>(state.window, state.first_row, kBlockM);
  }

 private:
  FA3_HOST_DEVICE uint32_t num_tiles() const { return static_cast<uint32_t>(p_.num_m_blocks * p_.heads_q * p_.batch); }

  FA3_HOST_DEVICE bool deal(TileState& state) {
    draw_ahead();
    drawn_ = false;
    state.valid = upcoming_ < num_tiles();
    if (not state.valid) return false;
    const Tile tile = tile_of(p_, static_cast<int32_t>(upcoming_));
    const Sequence sequence = sequence_of(p_, tile.batch);
    state.window = window_of(p_, sequence);
    state.batch = tile.batch;
    state.head = tile.head;
    state.q_row = static_cast<int32_t>(sequence.q_row);
    state.k_row = static_cast<int32_t>(sequence.k_row);
    state.slot_q = sequence.slot_q;
    state.first_row = tile.m_block * kBlockM;
    return true;
  }

  const ForwardParams& p_;
  uint32_t upcoming_, ctas_;
  bool drawn_ = true;
  Draw draw_;
};

}  // namespace fa3::sm90
