// SPDX-License-Identifier: Apache-2.0
// Storage::bitmap: of the dense persistent kernel's tiles in shared memory only the words that hold a weight are
// stored. A word is two neighbouring columns of one row, the first of them even, as one lane has them in an A fragment
// (model/dense/fragments.hpp); of a uniform mask of density d a share of 1 - (1 - d)^2 is.
//
//   bitmap   4 bits of a lane and tile, one for each of its words: bit 4 (i % 8) + k of metadata word i / 8 is word k
//            of the warp's i-th tile in shared memory. In registers, and read from there in every step
//   stream   the words of a lane, in the order of its tiles, one below the other in one bank, so that no load of a warp
//            has a conflict, however many words each lane has read. The lane's last word of metadata says where it
//            begins
//   banks    the streams of the warps stand one below the other. The lanes of a warp are in different banks, and it is
//            free which: of each warp, one after another, the longest stream goes to the bank that is least full
//
// Shared memory: [bank_words][32 banks], for the fullest bank of the fullest SM.
#pragma once

#include "model/dense/geometry.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

inline constexpr int kLaneWords = 4;  // of a tile

// Whether lane `lane` of a tile, [32 lanes, 8] values, has its word k.
constexpr bool has_word(const float* tile, int lane, int k) {
  return tile[8 * lane + 2 * k] != 0 || tile[8 * lane + 2 * k + 1] != 0;
}

// Words that are stored of each lane: [sms, warps, 32 lanes].
std::vector<int> stream_lengths(const DenseGeometry& geometry, const WordMask& mask);

// Assigns the streams of one SM's lanes, lengths [warps, 32 lanes], to the banks. Sets, [warps, 32 lanes], the byte of
// the region where each begins, and returns the words of the fullest bank.
int assign_streams(std::span<const int> lengths, std::span<std::uint32_t> begins);

// The bank_words that a mask needs.
int needed_bank_words(const DenseGeometry& geometry, const WordMask& mask);

// Throws InputError if the plan has room for fewer.
void check_bank_words(const DenseGeometry& geometry, const WordMask& mask);

// What a mask needs of which each word holds a weight with the probability `share`, or in about one of a thousand
// million masks more.
int expected_bank_words(const DenseGeometry& geometry, double share);

}  // namespace onchip
