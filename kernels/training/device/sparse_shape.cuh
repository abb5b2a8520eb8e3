// SPDX-License-Identifier: Apache-2.0
// The two recurrences of training a sparse LSTM, as sparse/gather.cuh takes them: the rows of an SM's block, which are
// alike, and a state that lies in shared memory, in planes of what one load fetches.
//
//               forward                              backward
//   rows        4 gates of the SM's kUnits units     the units of all SMs of its cluster, of W transposed
//   columns     all units' h                         the SM's share of its cluster's: all gates' gradients of as many
//                                                    units, the four of a unit side by side
//
// A launch computes a sub-batch, kGroupBatch samples of the layer's.
//
//   ring    [kRingSlots][kSplit][kPlanes][kStateUnits][kPlaneSamples] in L2
#pragma once

#include "kernels/training/device/arguments.hpp"
#include "kernels/persistent/types.cuh"

constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = kLstm;
constexpr int kCellGates = 4;
constexpr int kElementBytes = 2;
constexpr bool kIsBackward = ONCHIP_BACKWARD != 0;
constexpr int kHidden = ONCHIP_HIDDEN;
constexpr int kGateColumns = kHidden;
constexpr int kOutputStride = kHidden;  // one direction
constexpr bool kHasLengths = false;
constexpr int kBlocks = ONCHIP_BLOCKS;
constexpr int kSubBatches = ONCHIP_SUB_BATCHES;
constexpr int kGroupBatch = ONCHIP_SAMPLES;  // of a sub-batch
constexpr int kBatchPadded = ONCHIP_BATCH_PADDED;
constexpr int kSplit = ONCHIP_SPLIT;
constexpr int kUnits = ONCHIP_UNITS;  // of an SM
constexpr int kItems = kUnits * kGroupBatch;
constexpr int kItemThreads = ONCHIP_THREADS / kUnits * kUnits;  // all items of a thread are of one unit
constexpr int kUnitValues = kIsBackward ? 4 : 1;                // of a state
static_assert(kUnits <= ONCHIP_THREADS && kBlocks * kUnits >= kHidden && kBlocks % kSplit == 0,
              "the SMs have all units, in whole clusters");

constexpr int kThreadRows = kIsBackward ? 1 : kCellGates;  // of a unit, side by side
constexpr int kRows = kIsBackward ? kUnits * kSplit : kUnits * kCellGates;
// Their sums: float [kGroupBatch][kPartialRows], forward the gates of a unit side by side.
constexpr int kPartialRows = (kRows + 3) / 4 * 4 + 4;
constexpr int kPartialBytes = 4 * kPartialRows * kGroupBatch;

constexpr int kGates = 1;                                    // rows that are reduced together are of any units
constexpr int kUnitsPerSm = kUnits * kUnitValues;            // values that an SM publishes of a sample
constexpr int kStateUnits = kBlocks / kSplit * kUnitsPerSm;  // and that it reads
constexpr int kLineWords = 8;
__device__ __forceinline__ constexpr int in_l2(u32 offset) { return offset; }

constexpr int kPlaneUnitBytes = ONCHIP_PLANE_UNIT_BYTES;
constexpr int kPlanes = kBatchPadded * kElementBytes / kPlaneUnitBytes;
constexpr int kPlaneSamples = kBatchPadded / kPlanes;
constexpr int kPlaneWords = kStateUnits * kPlaneUnitBytes / 16;
constexpr int kStateWords = kPlanes * kPlaneWords;
constexpr int kStateStride = kSplit * kStateWords * 16;
constexpr int kRingStride = kStateStride;
constexpr int kRingSlots = 2 * ONCHIP_AHEAD;
constexpr bool kExchangeOnly = false;
static_assert(kUnitsPerSm * kPlaneUnitBytes % 16 == 0, "an SM has whole words of a state");

using Arguments = onchip::SparseTrainingArguments;
__device__ __forceinline__ bool is_first_layer() { return true; }
__device__ __forceinline__ bool is_last_layer(const Arguments&) { return true; }

// item.cuh's: a launch has all SMs, and its words go to the outbox.
constexpr int kLaunches = 1;
constexpr int kBatchGroups = 1, kSumGroups = kSubBatches;
__device__ __forceinline__ int batch_group() { return 0; }
__device__ __forceinline__ int sum_group() { return 0; }
__device__ __forceinline__ int sm_of_group() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ int place_of(int, int) { return 0; }
