// Stand-in for cpp/ptx/global.cuh.
#pragma once

#include "emulator.h"

namespace fa3::ptx {

inline void store_global_if(bool condition, void* address, const uint2& value) {
  if (condition) *static_cast<uint2*>(address) = value;
}
inline void store_global_if(bool condition, void* address, float value) {
  if (condition) *static_cast<float*>(address) = value;
}
template <typename T>
T* opaque(T* pointer) {
  return pointer;
}

}  // namespace fa3::ptx
