// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine, which those of the standard library's distributions are not.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace onchip {

// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the n-th output of a seed.
constexpr std::uint64_t splitmix64(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// xoshiro256** (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021).
class Random {
 public:
  // `stream` tells generators of one seed apart.
  Random(std::uint64_t seed, std::uint64_t stream) {
    const std::uint64_t start = splitmix64(seed, 0) ^ splitmix64(~stream, 1);
    for (std::uint64_t i = 0; i < 4; ++i) {
      state_[i] = splitmix64(start, i);
    }
  }

  std::uint64_t operator()() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Of [0, count), count at most 2^32.
  std::uint64_t below(std::uint64_t count) { return ((*this)() >> 32) * count >> 32; }
  // Of [0, 1).
  double unit() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_[4];
};

template <typename T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::uint64_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[random.below(left)]);
  }
}

}  // namespace onchip
