// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for data sets that are published with it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

class Sha256 {
 public:
  Sha256() {
    // The fractions of the square and cube roots of the first primes.
    const auto fraction = [](long double root) {
      return static_cast<std::uint32_t>((root - std::floor(root)) * 0x1p32L);
    };
    int found = 0;
    for (int n = 2; found < 64; ++n) {
      bool prime = true;
      for (int d = 2; d * d <= n; ++d) {
        prime &= n % d != 0;
      }
      if (prime) {
        if (found < 8) {
          state_[found] = fraction(std::sqrt(static_cast<long double>(n)));
        }
        constant_[found++] = fraction(std::cbrt(static_cast<long double>(n)));
      }
    }
  }

  void add(std::string_view bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t taken = std::min(bytes.size(), block_.size() - filled_);
      std::memcpy(block_.data() + filled_, bytes.data(), taken);
      bytes.remove_prefix(taken);
      if ((filled_ += taken) == block_.size()) {
        mix();
        filled_ = 0;
      }
    }
  }

  std::string hex() {
    const std::uint64_t bits = 8 * bytes_;
    add(std::string_view("\x80", 1));
    while (filled_ != 56) {
      add(std::string_view("\0", 1));
    }
    char length[8];
    for (int i = 0; i < 8; ++i) {
      length[i] = static_cast<char>(bits >> (56 - 8 * i));
    }
    add(std::string_view(length, 8));
    std::string text;
    for (const std::uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) {
        text += "0123456789abcdef"[word >> shift & 15];
      }
    }
    return text;
  }

 private:
  void mix() {
    std::array<std::uint32_t, 64> w;
    for (int i = 0; i < 16; ++i) {
      std::uint32_t word;
      std::memcpy(&word, block_.data() + 4 * i, 4);
      w[i] = __builtin_bswap32(word);
    }
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<std::uint32_t, 8> s = state_;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t one = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                                ((s[4] & s[5]) ^ (~s[4] & s[6])) + constant_[i] + w[i];
      const std::uint32_t two = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                                ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {one + two, s[0], s[1], s[2], s[3] + one, s[4], s[5], s[6]};
    }
    for (int i = 0; i < 8; ++i) {
      state_[i] += s[i];
    }
  }

  std::array<std::uint32_t, 8> state_{};
  std::array<std::uint32_t, 64> constant_{};
  std::array<unsigned char, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t bytes_ = 0;
};

inline std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}
