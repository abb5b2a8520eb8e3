// SPDX-License-Identifier: Apache-2.0
// Types of numbers that kernels compute with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace onchip {

enum class Precision : std::uint8_t { fp16, bf16, fp32, fp8 };

// Weights, state and input are of one type, but for fp8: weights e4m3 (OCP 8-bit floating point, 2023: no infinities,
// at most 448) with a power-of-two scale per row of W; state and input fp16.
struct PrecisionInfo {
  std::string_view name;
  int bytes;             // of an element of the state or the input
  int weight_bits;       // of a weight, without its index
  double unit_roundoff;  // of the state
};
inline constexpr std::array<PrecisionInfo, 4> kPrecisions{{
    {"fp16", 2, 16, 0x1p-11},
    {"bf16", 2, 16, 0x1p-8},
    {"fp32", 4, 32, 0x1p-24},
    {"fp8", 2, 8, 0x1p-11},
}};

constexpr const PrecisionInfo& info(Precision precision) {
  return kPrecisions[static_cast<int>(precision)];
}

// What the state and the input are stored as: itself, but fp16 for fp8.
constexpr Precision state_type(Precision precision) {
  return precision == Precision::fp8 ? Precision::fp16 : precision;
}

}  // namespace onchip
