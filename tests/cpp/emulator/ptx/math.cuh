// Stand-in for cpp/ptx/math.cuh.
#pragma once

#include <cmath>

namespace fa3::ptx {

inline float exp2_approx(float x) {
  return std::exp2(x);
}
inline float log2_approx(float x) {
  return std::log2(x);
}
inline float reciprocal_approx(float x) {
  return 1.f / x;
}

}  // namespace fa3::ptx
