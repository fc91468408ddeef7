// Stand-in for cpp/ptx/shared.cuh: addresses count from the dynamic shared memory's first byte.
#pragma once

#include "emulator.h"

namespace fa3::ptx {

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const uint8_t*>(pointer) - emulator::shared);
}
inline void store_shared(uint32_t address, uint32_t value) {
  *reinterpret_cast<uint32_t*>(emulator::at(address, 4)) = value;
}
inline void store_shared(uint32_t address, uint4 value) {
  *reinterpret_cast<uint4*>(emulator::at(address, 16)) = value;
}
inline uint4 load_shared_16(uint32_t address) {
  return *reinterpret_cast<uint4*>(emulator::at(address, 16));
}

}  // namespace fa3::ptx
