// SPDX-License-Identifier: Apache-2.0
// Where a weight lies among the fragments of the dense persistent kernel, which the tensor cores multiply by
// mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
//
//   A  weights  16 rows x 16 columns: lane 4 g + c holds rows g and g + 8, columns 2 c, 2 c + 1, 2 c + 8, 2 c + 9,
//               in the words (g, 2c), (g + 8, 2c), (g, 2c + 8), (g + 8, 2c + 8)
//   B  state    16 columns x 8 samples: lane 4 n + c holds sample n of columns 2 c, 2 c + 1, 2 c + 8, 2 c + 9
//
//   columns     a lane loads 8 neighbouring units of the state at once, 8 c ... 8 c + 7 of a span of 32. The first 4
//               are its columns of the first half of the span, the others of the second
//   rows        rows g and g + 8 of tile m are rows 2 i and 2 i + 1 of the SM, i = 8 m + g; row r of the SM is gate
//               r % gates of its unit r / gates
//
// Stored as structured_2_4, they are multiplied by mma.sp.m16n8k32 (PTX ISA, "Matrix Fragments for sparse mma.m16n8k32
// with .f16 and .bf16 types"): a tile is 16 rows x a span of 32 columns, in 8 groups of 4 columns, of each of which it
// has two values; then it is a tile as above, of 16 rows x 16 values, those of group n in columns 2 n and 2 n + 1.
//
//   metadata  which two: 4 bits for each group, the place of its first value and, in the upper bits, that of its
//             second, which is the larger one. Word i of a warp's lanes is of its tiles 2 i + s, s = 0, 1: lane
//             4 g + 2 s + p has in its lower half row g, groups 4 p ... 4 p + 3, in its upper half the same of row g +
//             8
//   columns   word w of a lane's 16 bytes is word w of B: rows 8 w + 2 c, 8 w + 2 c + 1, so that group 2 w + j of the
//             product are words w of lanes 2 j and 2 j + 1. They come together if the units of each half of a span
//             stand in another order (place_in_span): a group of the product is one of W then, 4 neighbouring columns
#pragma once

#include "model/dense/geometry.hpp"

#include <cstddef>
#include <cstdint>

namespace onchip {

inline constexpr int kWarp = 32, kTileElements = 256;

// Index in [sms, warps, warp_tiles, 32 lanes, 8] of the weight from unit `column` to row `row` of W; lane's elements 2
// i and 2 i + 1 are the low and the high half of its word i. Structured_2_4: that of the first value of the column's
// group; the second one follows.
std::size_t fragment_index(const DenseGeometry& geometry, int row, int column);

// Structured_2_4: where the 4 bits of the column's group are in [sms, warps, metadata_words, 32 lanes] words.
struct MetadataPlace {
  std::size_t word;
  int shift;  // bits
};
MetadataPlace metadata_place(const DenseGeometry& geometry, int row, int column);

// The place of a unit in its span of the state: of unit 16 h + 4 w + 2 b + e of a span, h, b, e = 0, 1, structured_2_4:
// 16 h + 8 b + 2 w + e. Pairs of units stay together.
constexpr int place_in_span(Storage storage, int unit) {
  const int in_span = unit % kSpanUnits;
  return storage == Storage::structured_2_4 ? (in_span & 17) | (in_span & 12) >> 1 | (in_span & 2) << 2 : in_span;
}

// Of a warp's tiles, those before `tile` that lie in shared memory: spread evenly, so that loads and products take
// turns.
constexpr int shared_tiles_before(int tile, int shared_tiles, int tiles) {
  return static_cast<int>(std::int64_t{tile} * shared_tiles / tiles);
}
constexpr bool is_in_shared(int tile, int shared_tiles, int tiles) {
  return shared_tiles_before(tile + 1, shared_tiles, tiles) > shared_tiles_before(tile, shared_tiles, tiles);
}

}  // namespace onchip
