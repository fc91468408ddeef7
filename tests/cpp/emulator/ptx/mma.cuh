// Stand-in for cpp/ptx/mma.cuh.
#pragma once

#include <cstring>

#include "emulator.h"

namespace fa3 {

struct Bf16 {};
struct Fp16 {};

namespace ptx {

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

template <typename Element>
float widen(uint16_t bits);
template <>
inline float widen<Bf16>(uint16_t bits) {
  return from_bits(uint32_t{bits} << 16);
}
template <>
inline float widen<Fp16>(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return from_bits(sign | 0x7F800000 | mantissa << 13);
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), -24) * (sign ? -1.f : 1.f);
  return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

// To nearest, ties to even.
template <typename Element>
uint16_t narrow(float value);
template <>
inline uint16_t narrow<Bf16>(float value) {
  if (std::isnan(value)) return 0x7FFF;
  const uint32_t bits = bits_of(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
template <>
inline uint16_t narrow<Fp16>(float value) {
  if (std::isnan(value)) return 0x7FFF;
  const uint16_t sign = static_cast<uint16_t>(bits_of(value) >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.f) return sign | 0x7C00;
  if (magnitude == 0.f) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int shift = std::max(exponent - 11, -24);  // of the last place
  const float units = std::nearbyint(std::ldexp(magnitude, -shift));
  const uint32_t whole = static_cast<uint32_t>(units);
  return static_cast<uint16_t>(sign | (whole + (static_cast<uint32_t>(shift + 24) << 10)));
}

template <typename Element>
uint32_t pack(float low, float high) {
  return narrow<Element>(low) | uint32_t{narrow<Element>(high)} << 16;
}

template <typename Element>
float half_of(uint32_t pair, int half) {
  return widen<Element>(static_cast<uint16_t>(pair >> 16 * half));
}

// The A fragments of a warp as a matrix of 16 rows and 16 columns.
template <typename Element>
float a_element(const std::array<std::array<uint32_t, 4>, 32>& fragments, int row, int k) {
  const int lane = row % 8 * 4 + k % 8 / 2;
  return half_of<Element>(fragments[lane][row / 8 + k / 8 * 2], k % 2);
}

template <typename Element>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const float (&c)[4]) {
  struct Fragments {
    std::array<uint32_t, 4> a;
    std::array<uint32_t, 2> b;
  };
  const auto all = emulator::cta().exchange(Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}}, "mma");
  std::array<std::array<uint32_t, 4>, 32> rows;
  for (int lane = 0; lane < 32; ++lane) rows[lane] = all[lane].a;
  const int lane = threadIdx.x % 32;
  float sums[4];
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    sums[i] = c[i];
    for (int k = 0; k < 16; ++k) {
      const float b = half_of<Element>(all[column * 4 + k % 8 / 2].b[k / 8], k % 2);
      sums[i] += a_element<Element>(rows, row, k) * b;
    }
  }
  std::copy_n(sums, 4, d);
}

}  // namespace ptx
}  // namespace fa3
