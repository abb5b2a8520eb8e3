// SPDX-License-Identifier: Apache-2.0
// Weights outside of the tiles of their output block, 32 to a record, which the kernels make two tiles more of: column
// k of a tile is one weight's input, and zero but for its row (`expand` of fragments.cuh). A record is
//   weights fp16 [4 members][2 tiles][columns 2m, 2m + 1, 2m + 8, 2m + 9], of lanes with lane % 4 = m
//   rows [4 members][32 bits]: of these columns, four bits each: the first tile's in the upper half of each byte
//   places of the inputs [2 tiles][16 columns], of 2 or 4 bytes; up to a multiple of 32 bytes
// Each 8 places are read at once. They differ modulo 8 as far as they can: no record has more wavefronts than 4, and
// those that the block's busiest class has too many. What is left over of a record reads a place that others read with
// it, and multiplies it by zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

struct OutsideWeight {
  std::uint32_t place = 0;  // of its input
  int row = 0;              // of the block
  std::uint16_t weight = 0;
};

inline constexpr int kRecordWeights = 32;
inline constexpr int kRecordTiles = 2;

constexpr std::size_t remainder_record_bytes(int place_bytes) {
  return (kRecordWeights * (2 + static_cast<std::size_t>(place_bytes)) + kRecordWeights / 2 + 31) / 32 * 32;
}

// The records of a block.
std::vector<std::byte> remainder_records(std::span<const OutsideWeight> weights, int place_bytes);
// The weights of a record, as its slots have them; zeros where there is none.
std::vector<OutsideWeight> read_remainder_record(const std::byte* record, int place_bytes);

}  // namespace onchip
