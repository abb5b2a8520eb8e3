// SPDX-License-Identifier: Apache-2.0
// What all persistent kernels know of their network and plan: constants, and their elements. The ONCHIP_* constants come
// from the plan.
//
//   state   in owner's order: SM s owns units [s * kUnitsPerSm, ...); how it lies in memory is its family's: planes.cuh,
//           spans.cuh
//   input   [kBatch][kStateUnits][kGates] of one step, in the same order
#pragma once

#include "kernels/persistent/types.cuh"

[[maybe_unused]] constexpr int kHidden = ONCHIP_HIDDEN;
constexpr int kBlocks = ONCHIP_BLOCKS;
constexpr int kUnitsPerSm = ONCHIP_UNITS_PER_SM;          // the last may be unused
constexpr int kBatch = ONCHIP_BATCH;
constexpr int kBatchPadded = ONCHIP_BATCH_PADDED;         // power of two
constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = static_cast<Cell>(ONCHIP_CELL);

constexpr int kElementBytes = kPrecision == kFp32 ? 4 : 2;  // fp8: of the weights only
constexpr int kGates = kCell == kLstm ? 4 : kCell == kGru ? 3 : 1;
constexpr int kStateUnits = kBlocks * kUnitsPerSm;
constexpr int kLineWords = ONCHIP_LINE_WORDS;             // 16-byte words of the state in a line of L2

static_assert((kBatchPadded & (kBatchPadded - 1)) == 0 && kBatch <= kBatchPadded, "the batch is padded to a power of two");
static_assert(kUnitsPerSm * kGates * kElementBytes % 4 == 0, "an SM's input of one sample is copied in 4-byte words");

static_assert(kLineWords == 1 || kLineWords == 2 || kLineWords == 4 || kLineWords == 8, "a line has 8 words");

// Where byte `offset` of a state is in L2. A line has room for 8 words. Where an SM writes less than half a line, the rest
// is left empty, so that several SMs do not write the same line while others poll it: 128 SMs of an H200 that write 16
// bytes each take 0.97 us per step with 8 words in a line, 0.75 us with one (relu, 1024 units). Where an SM writes more,
// more lines to poll only take longer.
__device__ __forceinline__ constexpr int in_l2(u32 offset) {
  return kLineWords == 8 ? offset : offset / (16 * kLineWords) * 128 + offset % (16 * kLineWords);
}

