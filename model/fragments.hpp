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
#pragma once

#include "model/plan.hpp"

#include <cstddef>
#include <cstdint>

namespace onchip {

inline constexpr int kTileElements = 256;

// Index in [sms, warps, warp_tiles, 32 lanes, 8] of the weight from unit `column` to row `row` of W; lane's elements 2
// i and 2 i + 1 are the low and the high half of its word i.
std::size_t fragment_index(const Network& network, const Plan& plan, int row, int column);

// Of a warp's tiles, those before `tile` that lie in shared memory: spread evenly, so that loads and products take
// turns.
constexpr int shared_tiles_before(int tile, int shared_tiles, int tiles) {
  return static_cast<int>(std::int64_t{tile} * shared_tiles / tiles);
}

}  // namespace onchip
