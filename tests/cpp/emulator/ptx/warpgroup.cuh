// Stand-in for cpp/ptx/warpgroup.cuh.
#pragma once

#include "emulator.h"

namespace fa3::ptx {

template <int>
void registers_raise() {}
template <int>
void registers_lower() {}
inline void named_barrier_sync(int id, int threads) {
  emulator::cta().sync(emulator::cta().gate(id), static_cast<uint32_t>(threads),
                       id % 2 ? "an odd named barrier" : "an even named barrier");
}
inline void named_barrier_arrive(int id, int threads) {
  emulator::cta().arrive(emulator::cta().gate(id), static_cast<uint32_t>(threads));
}
inline void fence_async_proxy() {}

}  // namespace fa3::ptx
