// The order in which the 1-D grid walks (query tile, head, batch entry).
//
// Heads are taken in sections of about a tile an SM (two under a mask), which share K/V in L2. Inside a section the last
// query tile of every head comes first: under a causal mask it is the longest, and work that starts longest-first leaves
// the shortest tail. Heads that make no whole section make the first one: the last has short tiles enough for all SMs.
#pragma once

#include <cstdint>

#include "attention/forward_params.h"
#include "attention/host_device.h"

namespace fa3 {

struct Tile {
  int32_t m_block, head, batch;
};

// ForwardParams::heads_of_first_section: what whole sections leave, or a whole one.
FA3_HOST_DEVICE int32_t heads_of_first_section(int64_t pairs, int32_t heads_per_section) {
  return static_cast<int32_t>((pairs - 1) % heads_per_section + 1);
}

FA3_HOST_DEVICE Tile tile_of(const ForwardParams& p, int32_t index) {
  const int32_t first_tiles = p.num_m_blocks * p.heads_of_first_section;
  int32_t width = p.heads_of_first_section, first_pair = 0, within = index;
  if (index >= first_tiles) {
    width = p.heads_per_section;
    const int32_t section_tiles = p.num_m_blocks * width;  // the host keeps it below 2^31
    const int32_t section = (index - first_tiles) / section_tiles;
    within = index - first_tiles - section * section_tiles;
    first_pair = p.heads_of_first_section + section * width;
  }
  const int32_t row = within / width;
  const int32_t pair = first_pair + within - row * width;
  const int32_t batch = pair / p.heads_q;
  return {p.num_m_blocks - 1 - row, pair - batch * p.heads_q, batch};
}

}  // namespace fa3
