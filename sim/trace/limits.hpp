// SPDX-License-Identifier: Apache-2.0
// The most that a file of a trace may ask for.
#pragma once

#include <cstdint>

namespace onchip {

inline constexpr int kMostBlocks = 1 << 20, kMostWarps = 64;               // of a kernel, of a block
inline constexpr std::uint64_t kMostSharedBytes = std::uint64_t{1} << 28;  // as many as the bank model takes

}  // namespace onchip
