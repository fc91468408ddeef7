// Stand-in for cpp/ptx/mbarrier.cuh.
#pragma once

#include "emulator.h"

namespace fa3::ptx {

inline void mbarrier_init(uint32_t barrier, int arrivals) {
  emulator::cta().mbarrier(barrier) = {arrivals, arrivals, 0, 0};
}
inline void mbarrier_init_fence() {}
inline void mbarrier_expect(uint32_t barrier, int bytes) {
  emulator::Mbarrier& b = emulator::cta().mbarrier(barrier);
  b.bytes += bytes;
  --b.pending;
  emulator::cta().complete(b);
}
inline void mbarrier_arrive(uint32_t barrier) {
  mbarrier_expect(barrier, 0);
}
inline void mbarrier_wait(uint32_t barrier, int parity) {
  const emulator::Mbarrier& b = emulator::cta().mbarrier(barrier);
  emulator::cta().wait_until([&] { return b.phase != static_cast<uint32_t>(parity); }, "mbarrier");
}

}  // namespace fa3::ptx
