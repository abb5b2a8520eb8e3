// SPDX-License-Identifier: Apache-2.0
// Instructions in which the lanes of a warp give each other something: shuffles, votes, reductions, matrix products.
#pragma once

#include "sim/ptx/warp.hpp"

namespace onchip::ptx {

enum class Shuffle { up, down, butterfly, index };
// d[|p], a, b, c, lanes. Throws LaneFault if a lane reads from one that takes no part.
template <Shuffle kHow, bool kPredicate>
void shuffle(Warp& warp, const Instruction& i, u32 lanes);

enum class Vote { any, all, uniform, ballot };
template <Vote kHow>
void vote(Warp& warp, const Instruction& i, u32 lanes);

enum class Reduction { add, smallest, largest, both, either, differ };
template <Reduction kHow, bool kSigned>
void reduce(Warp& warp, const Instruction& i, u32 lanes);

// mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}.{f16,bf16}.f32: products are exact; each is added to the sum in
// fp32, to nearest even, k from 0 to 15. (Hardware adds several at once, with fewer roundings, in an order that is not
// documented.)
template <bool kIsBf16>
void multiply_16x8x16(Warp& warp, const Instruction& i, u32 lanes);

// mma.sp::ordered_metadata.sync.aligned.m16n8k32, of the same types: of A's 16 x 32 elements those that the metadata
// names, k ascending as above; the others are not multiplied. Throws LaneFault for metadata or a selector that the ISA
// leaves undefined: two places of a group that do not ascend, selectors beyond 1.
template <bool kIsBf16>
void multiply_sparse_16x8x32(Warp& warp, const Instruction& i, u32 lanes);

// ldmatrix and stmatrix of 8 x 8 elements of 16 bits, PTX ISA "Warp-level matrix load instruction: ldmatrix": lane
// 8 k + r gives the address of row r of matrix k; a lane gets elements 2 m and 2 m + 1 of row g, or with .trans of
// column g, where lane = 4 g + m.
template <int kMatrices, bool kTransposed>
void load_matrices(Warp& warp, const Instruction& i, u32 lanes);
template <int kMatrices>
void store_matrices(Warp& warp, const Instruction& i, u32 lanes);

void active_mask(Warp& warp, const Instruction& i, u32 lanes);
void nothing(Warp& warp, const Instruction& i, u32 lanes);
void trap(Warp& warp, const Instruction& i, u32 lanes);
// %clock: the warp's instructions so far.
void clock_low(Warp& warp, const Instruction& i, u32 lanes);
void clock_whole(Warp& warp, const Instruction& i, u32 lanes);

}  // namespace onchip::ptx
