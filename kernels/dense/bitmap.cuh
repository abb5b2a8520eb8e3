// SPDX-License-Identifier: Apache-2.0
// Tiles of W that lie in shared memory without their empty words (model/dense/bitmap.hpp): every lane reads a stream of its own,
// a word of 32 banks after the other, and 4 bits say which of a tile's words there are.
//
//   bank        0    1    2   ...  31
//             +----+----+----+----+----+
//             | lane 7's  | lane 0's   |   warp 0
//             |    +----+ |  +----+----+
//             +----+    +----+         |   then warp 1, whose lanes stand in another order
//
// A load's lanes are in different banks, wherever in its stream each of them is.
#pragma once

#include "kernels/persistent/word.cuh"

// The word that bit kBit of `bitmap` is of: from `at`, which then is the next one's address, or zero. The address is a sum
// of bits, not an addition under a predicate: that would have to wait until the load has read its address.
template <int kBit>
__device__ __forceinline__ u32 load_word(u32 bitmap, u32& at) {
  constexpr int kWordBit = 7;  // 128 bytes from a word to the next
  u32 word;
  asm volatile(
      "{ .reg .pred p; .reg .u32 bit; and.b32 bit, %2, %3; setp.ne.u32 p, bit, 0; mov.u32 %0, 0; @p ld.shared.u32 %0, [%1]; "
      "shr.u32 bit, bit, %4; shl.b32 bit, bit, %5; add.u32 %1, %1, bit; }"
      : "=&r"(word), "+r"(at)
      : "r"(bitmap), "n"(1u << kBit), "n"(kBit > kWordBit ? kBit - kWordBit : 0), "n"(kBit < kWordBit ? kWordBit - kBit : 0));
  return word;
}

// The words of tile kTile of those in shared memory.
template <int kTile>
__device__ __forceinline__ Word expand_tile(u32 bitmap, u32& at) {
  constexpr int kFirst = 4 * (kTile % 8);
  Word v;
  v.x = load_word<kFirst>(bitmap, at);
  v.y = load_word<kFirst + 1>(bitmap, at);
  v.z = load_word<kFirst + 2>(bitmap, at);
  v.w = load_word<kFirst + 3>(bitmap, at);
  return v;
}
