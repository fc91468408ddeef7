// What a CTA's threads are told of a tile, and the walk over the tiles that a CTA of a persistent grid takes.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/host_device.h"
#include "attention/mask.h"
#include "attention/sequence.h"
#include "attention/tile_scheduler.h"

namespace fa3::sm90 {

// Where a tile's keys are in the maps of K and V: block b begins at `row` + b * kBlockN.
struct KeyCoordinates {
  int32_t row, head, batch;
};

struct TileState {
  Window window;
  BlockRange blocks;
  KeyCoordinates keys;
  int32_t batch, head;
  int32_t q_row;      // first row of the sequence in the tensors
  int32_t slot_q;     // rows of q and out that belong to the sequence
  int32_t first_row;  // of the tile, in the sequence
  int32_t valid;      // 0: there are no more tiles

  FA3_HOST_DEVICE bool has_keys() const { return blocks.begin < blocks.end; }
};
// A stage's address would be computed in vector registers, of which the consumers have none left.
static_assert((sizeof(TileState) & (sizeof(TileState) - 1)) != 0, "pad it: a power of two is slower");

// The first tile of a CTA is its own number; `draw` gives the others, as numbers from 0 in the order of asking over all
// CTAs. So a CTA that got short tiles takes more of them. Every CTA draws until it is told to stop: num_tiles draws in
// all.
template <int kBlockM, int kBlockN, typename Draw>
class TileWalk {
 public:
  FA3_HOST_DEVICE TileWalk(const ForwardParams& p, int32_t cta, int32_t ctas, Draw draw)
      : p_(p), number_(cta), ctas_(ctas), draw_(draw) {}

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
    if (started_) number_ = p_.ticket >= 0 ? ctas_ + draw_(num_tiles()) : number_ + ctas_;
    started_ = true;
    state.valid = number_ < num_tiles();
    if (not state.valid) return false;
    const Tile tile = tile_of(p_, static_cast<int32_t>(number_));
    const Sequence sequence = sequence_of(p_, tile.batch);
    state.window = window_of(p_, sequence);
    state.batch = tile.batch;
    state.head = tile.head;
    state.keys = {static_cast<int32_t>(sequence.k_row), tile.head / (p_.heads_q / p_.heads_k),
                  p_.cu_seqlens_k != nullptr ? 0 : tile.batch};
    state.q_row = static_cast<int32_t>(sequence.q_row);
    state.slot_q = sequence.slot_q;
    state.first_row = tile.m_block * kBlockM;
    return true;
  }

  const ForwardParams& p_;
  uint32_t number_;  // of the tile
  uint32_t ctas_;
  bool started_ = false;
  Draw draw_;
};

}  // namespace fa3::sm90
