// Stand-in for cpp/ptx/tma.cuh. Its maps are MapOfTensor.
#pragma once

#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"

namespace emulator {

struct MapOfTensor {
  const uint8_t* data;
  int64_t sizes[4];    // head_dim, row, head, batch
  int64_t strides[3];  // bytes
  int64_t columns, rows;
};
static_assert(sizeof(MapOfTensor) <= sizeof(fa3::TensorMap));

// The swizzle of 128 or 64 bytes: chunks of 16 bytes permuted by the row of eight they are in.
inline uint32_t swizzled(uint32_t address, uint32_t row_bytes) {
  const uint32_t mask = row_bytes == 128 ? 7 : 3;
  return address ^ (address >> 7 & mask) << 4;
}

}  // namespace emulator

namespace fa3::ptx {

inline void tma_load(uint32_t shared, const TensorMap* map, uint32_t barrier, int column, int row, int head,
                     int batch) {
  const auto& m = *reinterpret_cast<const emulator::MapOfTensor*>(map);
  const uint32_t row_bytes = static_cast<uint32_t>(2 * m.columns);
  if (shared % (8 * row_bytes) != 0) throw emulator::Failure("a swizzled tile must be aligned to its pattern");
  emulator::cta().copy_later([=] {
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.columns; ++c) {
        const int64_t at[4] = {column + c, row + r, head, batch};
        bool inside = true;
        for (int i = 0; i < 4; ++i) inside = inside && 0 <= at[i] && at[i] < m.sizes[i];
        uint16_t value = 0;
        if (inside) {
          value = *reinterpret_cast<const uint16_t*>(m.data + at[0] * 2 + at[1] * m.strides[0] + at[2] * m.strides[1] +
                                                     at[3] * m.strides[2]);
        }
        const uint32_t linear = shared + static_cast<uint32_t>(r) * row_bytes + static_cast<uint32_t>(c) * 2;
        *reinterpret_cast<uint16_t*>(emulator::at(emulator::swizzled(linear, row_bytes), 2)) = value;
      }
    }
    emulator::Mbarrier& b = emulator::cta().mbarrier(barrier);
    b.bytes -= m.rows * row_bytes;
    emulator::cta().complete(b);
  });
}

inline void tma_store_if(bool condition, const TensorMap* map, uint32_t shared, int column, int row, int head,
                         int batch) {
  if (not condition) return;
  const auto& m = *reinterpret_cast<const emulator::MapOfTensor*>(map);
  const uint32_t row_bytes = static_cast<uint32_t>(2 * m.columns);
  if (shared % (8 * row_bytes) != 0) throw emulator::Failure("a swizzled tile must be aligned to its pattern");
  emulator::cta().store_later([=] {
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.columns; ++c) {
        const int64_t at[4] = {column + c, row + r, head, batch};
        bool inside = true;
        for (int i = 0; i < 4; ++i) inside = inside && 0 <= at[i] && at[i] < m.sizes[i];
        if (not inside) continue;
        const uint32_t linear = shared + static_cast<uint32_t>(r) * row_bytes + static_cast<uint32_t>(c) * 2;
        *reinterpret_cast<uint16_t*>(const_cast<uint8_t*>(m.data) + at[0] * 2 + at[1] * m.strides[0] +
                                     at[2] * m.strides[1] + at[3] * m.strides[2]) =
            *reinterpret_cast<const uint16_t*>(emulator::at(emulator::swizzled(linear, row_bytes), 2));
      }
    }
  });
}
inline void tma_store_commit() {}
inline void tma_store_wait_read() {
  emulator::cta().wait_for_stores();
}

}  // namespace fa3::ptx
