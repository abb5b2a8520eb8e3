// SPDX-License-Identifier: Apache-2.0
// Numbers as PTX rounds them (PTX ISA 9.0, "Floating Point Instructions", "cvt", "Half Precision Floating Point
// Instructions"). Values are kept as their bits. Results that are NaN are the canonical one: 0x7fffffff, 0x7fff.
//
// Approximate instructions (ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh with .approx) give the double-precision result
// rounded to nearest: what the hardware approaches, not its very bits.
//
// Not those of model/base/numeric.hpp, with which the reference rounds: a mistake there would be none here. Tests
// compare both.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace onchip::ptx {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

inline float as_float(u32 bits) {
  return std::bit_cast<float>(bits);
}
inline u32 float_bits(float value) {
  return value == value ? std::bit_cast<u32>(value) : 0x7fffffffu;
}

// A subnormal number as a zero of its sign.
inline float flushed(float value) {
  return std::abs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

// Exact.
inline float half_to_float(u16 half) {
  const u32 sign = u32{half} >> 15 << 31, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) {
    return as_float(fraction == 0 ? sign | 0x7f800000u : 0x7fffffffu);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  return as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

// To nearest even; overflow becomes infinity.
inline u16 to_half(double value) {
  const u64 bits = std::bit_cast<u64>(value);
  const u32 sign = static_cast<u32>(bits >> 63) << 15;
  const int exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
  if (exponent > 15) {
    return static_cast<u16>(value != value ? 0x7fff : sign | 0x7c00);
  }
  const int dropped = exponent < -14 ? 28 - exponent : 42;  // of the 53 bits
  if (dropped > 54) {
    return static_cast<u16>(sign);
  }
  const u64 significand = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  const u64 half_unit = u64{1} << (dropped - 1), rest = significand & (2 * half_unit - 1);
  u64 kept = significand >> dropped;
  kept += rest > half_unit || (rest == half_unit && (kept & 1) != 0);
  const u64 base = exponent < -14 ? 0 : static_cast<u64>(exponent + 14) << 10;  // the leading bit adds one
  return static_cast<u16>(sign | static_cast<u32>(base + kept));
}

// Towards zero; what is finite stays so.
inline u16 to_half_cut(float value) {
  const u16 half = to_half(value);
  return static_cast<u16>(std::abs(half_to_float(half)) > std::abs(value) ? half - 1 : half);
}
// ReLU; NaN stays.
inline u16 positive_half(u16 half) {
  return (half & 0x7fff) > 0x7c00 ? 0x7fff : (half & 0x8000) != 0 ? 0 : half;
}

inline float bf16_to_float(u16 bits) {
  return as_float(u32{bits} << 16);
}
inline u16 to_bf16(float value) {
  const u32 bits = std::bit_cast<u32>(value);
  return static_cast<u16>(value != value ? 0x7fffu : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// a * b + c with one rounding. The product of two halves has 22 bits; where the sum does not fit into the 53 bits of a
// double, one of its sides lies far below the other's rounding, so that rounding twice changes nothing.
inline u16 half_fma(u16 a, u16 b, u16 c) {
  return to_half(double{half_to_float(a)} * half_to_float(b) + half_to_float(c));
}

// Each of the two halves of a word by itself.
template <typename Of, typename... Words>
inline u32 halves(Of of, Words... words) {
  const u32 low = of(static_cast<u16>(words)...);
  return low | u32{of(static_cast<u16>(words >> 16)...)} << 16;
}

inline bool is_nan(u32 bits) {
  return as_float(bits) != as_float(bits);
}
// Smaller and larger of two numbers; a NaN only if both are.
inline u32 float_min(u32 a, u32 b) {
  const float x = as_float(a), y = as_float(b);
  return x != x ? float_bits(y) : y != y ? a : x < y || (x == y && std::signbit(x)) ? a : b;
}
inline u16 half_min(u16 a, u16 b) {
  return to_half(as_float(float_min(float_bits(half_to_float(a)), float_bits(half_to_float(b)))));
}
inline u32 float_max(u32 a, u32 b) {
  const float x = as_float(a), y = as_float(b);
  return x != x ? float_bits(y) : y != y ? a : x > y || (x == y && !std::signbit(x)) ? a : b;
}

}  // namespace onchip::ptx
