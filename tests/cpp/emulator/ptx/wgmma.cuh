// Stand-in for cpp/ptx/wgmma.cuh: products are done when they are issued.
#pragma once

#include "ptx/mma.cuh"
#include "ptx/tma.cuh"

namespace fa3::ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() {}
// The four warps multiply together: none has a result before all have issued.
template <int>
void wgmma_wait() {
  emulator::cta().sync_warpgroup();
}
template <int kCount>
void wgmma_pin(float (&)[kCount]) {}
template <int kCount>
void wgmma_clear(float (&d)[kCount]) {
  std::fill_n(d, kCount, 0.f);
}

inline void clear_if(bool condition, float& x) {
  if (condition) x = 0.f;
}

// A matrix in shared memory, by its descriptor.
struct MatrixOf {
  uint32_t start, leading, stride, row_bytes;

  explicit MatrixOf(uint64_t descriptor)
      : start(static_cast<uint32_t>(descriptor & 0x3FFF) * 16),
        leading(static_cast<uint32_t>(descriptor >> 16 & 0x3FFF) * 16),
        stride(static_cast<uint32_t>(descriptor >> 32 & 0x3FFF) * 16),
        row_bytes(descriptor >> 62 == 1 ? 128 : 64) {}

  // K-major: row `n`, column `k` of 16.
  uint16_t k_major(int n, int k) const {
    return read(start + static_cast<uint32_t>(n / 8) * stride + static_cast<uint32_t>(n % 8) * row_bytes +
                static_cast<uint32_t>(k) * 2);
  }
  // MN-major: row `k` of 16, column `n`; panels of columns follow after the leading offset.
  uint16_t mn_major(int n, int k) const {
    const int columns = static_cast<int>(row_bytes / 2);
    return read(start + static_cast<uint32_t>(n / columns) * leading + static_cast<uint32_t>(k / 8) * stride +
                static_cast<uint32_t>(k % 8) * row_bytes + static_cast<uint32_t>(n % columns) * 2);
  }

 private:
  uint16_t read(uint32_t address) const {
    return *reinterpret_cast<const uint16_t*>(emulator::at(emulator::swizzled(address, row_bytes), 2));
  }
};

template <typename Element, int kN, int kTransB>
struct Wgmma {
  static void shared(float (&d)[kN / 2], uint64_t a, uint64_t b, int accumulate) {
    const MatrixOf matrix(a);
    const int first = static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    float rows[16][16];
    for (int r = 0; r < 16; ++r) {
      for (int k = 0; k < 16; ++k) rows[r][k] = widen<Element>(matrix.k_major(first + r, k));
    }
    multiply(d, rows, b, accumulate);
  }

  static void registers(float (&d)[kN / 2], const uint32_t* a, uint64_t b) {
    const auto fragments = emulator::cta().exchange(std::array<uint32_t, 4>{a[0], a[1], a[2], a[3]}, "wgmma");
    float rows[16][16];
    for (int r = 0; r < 16; ++r) {
      for (int k = 0; k < 16; ++k) rows[r][k] = a_element<Element>(fragments, r, k);
    }
    multiply(d, rows, b, 1);
  }

 private:
  static void multiply(float (&d)[kN / 2], const float (&rows)[16][16], uint64_t b, int accumulate) {
    const MatrixOf matrix(b);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int n = 0; n < kN / 8; ++n) {
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = n * 8 + lane % 4 * 2 + i % 2;
        float sum = accumulate ? d[4 * n + i] : 0.f;
        for (int k = 0; k < 16; ++k) {
          sum += rows[row][k] * widen<Element>(kTransB ? matrix.mn_major(column, k) : matrix.k_major(column, k));
        }
        d[4 * n + i] = sum;
      }
    }
  }
};

}  // namespace fa3::ptx
