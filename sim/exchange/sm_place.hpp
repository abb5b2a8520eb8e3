// SPDX-License-Identifier: Apache-2.0
// Where an SM is on the chip, in no order that matters to the exchange: a hash, the finaliser of SplitMix64.
#pragma once

#include <cstdint>

namespace onchip {

inline std::uint64_t place_of(int sm) {
  std::uint64_t x = static_cast<std::uint64_t>(sm) + 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
// The half of L2 that it is near to.
inline int side_of(int sm) {
  return static_cast<int>(place_of(sm) & 1);
}
// From L2's nearest SM, -1/2, to its farthest, 1/2.
inline double distance_of(int sm) {
  return static_cast<double>(place_of(sm) >> 32) * 0x1p-32 - 0.5;
}

}  // namespace onchip
