// SPDX-License-Identifier: Apache-2.0
// Instructions in which the lanes of a warp give each other something: shuffles, votes, reductions, matrices.
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

// {registers}, [address] and [address], {registers} of b16: lanes 8 m to 8 m + 7 name the rows, 16 bytes each, of
// matrix m, of which lane l has elements 2 (l mod 4) and the next of row l / 4; transposed: of column l / 4.
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
