// Stand-in for cpp/ptx/tma.cuh. Its maps are MapOfTensor.
#pragma once

#include "attention/tma_params.h"
#include "ptx/mbarrier.cuh"

namespace emulator {

struct MapOfTensor {
  uint8_t* data;
  int64_t sizes[4];    // head_dim, row, head, batch
  int64_t strides[3];  // bytes
  int64_t columns, rows;

  uint32_t row_bytes() const { return static_cast<uint32_t>(2 * columns); }

  // Null outside the tensor.
  uint16_t* element(int64_t column, int64_t row, int64_t head, int64_t batch) const {
    const int64_t at[] = {column, row, head, batch};
    for (int i = 0; i < 4; ++i) {
      if (at[i] < 0 || at[i] >= sizes[i]) return nullptr;
    }
    return reinterpret_cast<uint16_t*>(data + column * 2 + row * strides[0] + head * strides[1] + batch * strides[2]);
  }
};
static_assert(sizeof(MapOfTensor) <= sizeof(fa3::TensorMap));

// The swizzle of 128 or 64 bytes: chunks of 16 bytes permuted by the row of eight they are in.
inline uint32_t swizzled(uint32_t address, uint32_t row_bytes) {
  const uint32_t mask = row_bytes == 128 ? 7 : 3;
  return address ^ (address >> 7 & mask) << 4;
}

// Calls `copy` with each element of a box in shared memory and in the tensor, where it may be outside.
template <typename Copy>
void each_of_box(const MapOfTensor& m, uint32_t box, int column, int row, int head, int batch, const Copy& copy) {
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) {
      const uint32_t linear = box + static_cast<uint32_t>(r) * m.row_bytes() + static_cast<uint32_t>(c) * 2;
      copy(*reinterpret_cast<uint16_t*>(at(swizzled(linear, m.row_bytes()), 2)),
           m.element(column + c, row + r, head, batch));
    }
  }
}

inline const MapOfTensor& map_of_box(const fa3::TensorMap* map, uint32_t box) {
  const auto& m = *reinterpret_cast<const MapOfTensor*>(map);
  if (box % (8 * m.row_bytes()) != 0) throw Failure("a swizzled tile must be aligned to its pattern");
  return m;
}

}  // namespace emulator

namespace fa3::ptx {

inline void tma_load(uint32_t shared, const TensorMap* map, uint32_t barrier, int column, int row, int head,
                     int batch) {
  const emulator::MapOfTensor& m = emulator::map_of_box(map, shared);
  emulator::cta().copy_later([=] {
    emulator::each_of_box(m, shared, column, row, head, batch, [](uint16_t& here, const uint16_t* there) {
      here = there == nullptr ? uint16_t{0} : *there;
    });
    emulator::Mbarrier& b = emulator::cta().mbarrier(barrier);
    b.bytes -= m.rows * m.row_bytes();
    emulator::cta().complete(b);
  });
}

inline void tma_store_if(bool condition, const TensorMap* map, uint32_t shared, int column, int row, int head,
                         int batch) {
  if (not condition) return;
  const emulator::MapOfTensor& m = emulator::map_of_box(map, shared);
  if (column < 0 || row < 0 || head < 0 || batch < 0) throw emulator::Failure("a TMA store to a negative coordinate");
  emulator::cta().store_later([=] {
    emulator::each_of_box(m, shared, column, row, head, batch, [](const uint16_t& here, uint16_t* there) {
      if (there != nullptr) *there = here;
    });
  });
}
inline void tma_store_commit() {}
inline void tma_store_wait_read() {
  emulator::cta().wait_for_stores();
}

}  // namespace fa3::ptx
