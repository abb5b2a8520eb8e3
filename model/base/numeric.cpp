// SPDX-License-Identifier: Apache-2.0
#include "model/base/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace onchip {

float round_to(Precision precision, float value) {
  precision = state_type(precision);
  if (precision == Precision::fp32) {
    return value;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return std::bit_cast<float>(sign | 0x7fc00000);
  }
  // Dropping the last `dropped` bits: adding just under half of the last bit kept, and one more if that bit is odd,
  // carries where nearest even rounds up.
  const int dropped = precision == Precision::fp16 ? 13 : 16;
  if (precision == Precision::fp16) {
    if (magnitude >= std::bit_cast<std::uint32_t>(65520.0F)) {
      return std::bit_cast<float>(sign | 0x7f800000);
    }
    if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14F)) {
      // A subnormal half is a multiple of 2^-24, the last bit of fp32 numbers from 0.5 to 1.
      const float rounded = (std::bit_cast<float>(magnitude) + 0.5F) - 0.5F;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(rounded));
    }
  }
  const std::uint32_t odd = (magnitude >> dropped) & 1;
  const std::uint32_t carried = magnitude + ((1U << (dropped - 1)) - 1) + odd;
  return std::bit_cast<float>(sign | (carried >> dropped << dropped));
}

std::uint32_t to_bits(Precision precision, float value) {
  precision = state_type(precision);
  const auto bits = std::bit_cast<std::uint32_t>(round_to(precision, value));
  if (precision == Precision::fp32) {
    return bits;
  }
  if (precision == Precision::bf16) {
    return bits >> 16;
  }
  // Already rounded: only the exponent has to be moved.
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return sign | 0x7e00u;  // NaN
  }
  if (magnitude == 0x7f800000u) {
    return sign | 0x7c00u;
  }
  if (magnitude >= std::bit_cast<std::uint32_t>(0x1p-14f)) {
    return sign | (magnitude - (112u << 23)) >> 13;
  }
  return sign | static_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p24f);  // subnormal: units of 2^-24
}

float from_bits(Precision precision, std::uint32_t bits) {
  precision = state_type(precision);
  if (precision == Precision::fp32) {
    return std::bit_cast<float>(bits);
  }
  if (precision == Precision::bf16) {
    return std::bit_cast<float>(bits << 16);
  }
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::uint8_t to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t code = 0;
  if (magnitude > 0x7f800000) {
    return 0x7f;
  }
  if (magnitude >= std::bit_cast<std::uint32_t>(448.0F)) {
    code = 0x7e;
  } else if (magnitude >= std::bit_cast<std::uint32_t>(0x1p-6F)) {
    const std::uint32_t odd = magnitude >> 20 & 1;  // as in round_to
    code = ((magnitude + 0x7ffff + odd) >> 20) - (120 << 3);
  } else {
    // A subnormal is a multiple of 2^-9, the last bit of fp32 numbers from 2^14 to 2^15; 8 of them are the code 8.
    const float rounded = (std::bit_cast<float>(magnitude) + 0x1p14F) - 0x1p14F;
    code = static_cast<std::uint32_t>(rounded * 0x1p9F);
  }
  return static_cast<std::uint8_t>(sign | code);
}

float from_e4m3(std::uint8_t code) {
  const std::uint32_t sign = (code & 0x80U) << 24;
  const std::uint32_t magnitude = code & 0x7fU;
  if (magnitude == 0x7f) {
    return std::bit_cast<float>(sign | 0x7fc00000);
  }
  if (magnitude < 8) {
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9F));
  }
  return std::bit_cast<float>(sign | (magnitude + (120 << 3)) << 20);
}

float e4m3_scale(float largest_magnitude) {
  assert(largest_magnitude >= 0 && std::isfinite(largest_magnitude));
  if (largest_magnitude == 0) {
    return 1;
  }
  int exponent = 0;
  const float fraction = std::frexp(largest_magnitude, &exponent);  // in [0.5, 1); 14 and 28 are 0.875 2^n
  return std::ldexp(1.0F, std::max(exponent - (fraction > 0.875F ? 4 : 5), -126));
}

}  // namespace onchip
