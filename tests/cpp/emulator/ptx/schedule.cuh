// Stand-in for cpp/ptx/schedule.cuh.
#pragma once

#include <cmath>

#include "emulator.h"

namespace fa3::ptx {

inline void keep_order(bool never) {
  if (never) throw emulator::Failure("keep_order of a condition that holds");
}
inline float fma_in_place(float a, float b, float c) {
  return std::fma(a, b, c);
}

inline float add_in_place(float a, float b) {
  return a + b;
}

}  // namespace fa3::ptx
