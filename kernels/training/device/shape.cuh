// SPDX-License-Identifier: Apache-2.0
// The two recurrences of training an LSTM or a GRU, as dense/multiply.cuh takes them: rows of weights that an SM has,
// and a state that it multiplies with them.
//
//               forward                                  backward
//   rows        the gates of the SM's kUnits units of W  the units of all SMs of a cluster, of W transposed
//   state       h                                        LSTM: dgates, 4 values of each unit side by side
//                                                        GRU: dr, then dz, then r dn of all units of the share
//   columns     all                                      the SM's share of its cluster's: kPlanes of kPlaneValues
//
// So a word of the state has two values of one unit, or two units of which one thread has one: three values of a GRU's
// unit do not fill words.
//
// A batch group is kSms SMs with all weights. Its samples are kSubBatches sub-batches: the same SMs compute one while
// the states of the others are on their way. An SM's warps are kWarpGroups groups, each with all of the SM's rows and
// with sub-batches of its own, so that one polls and multiplies while another finishes. The states of all sub-batches:
//
//   ring    [kRingSlots][kBatchGroups][kSubBatches][kSplit * kStateSpans][kGroupBatch][32]
//
// Of a stack, kLayers layers are on the SMs at once, each a step behind the one below: half of the warps of an SM have
// W_hh and multiply their layer's own state, the others W_ih and the state of the layer below, which they poll in its
// ring. The first layer's W_ih x is there beforehand, so that its other warps multiply with zeros. A GRU's n gate has two
// rows, for its reset gate multiplies the product with W_hh alone: of the first n is W_hh h, of the fourth W_ih x.
#pragma once

#include "kernels/training/device/arguments.hpp"
#include "kernels/persistent/types.cuh"

constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = static_cast<Cell>(ONCHIP_CELL);
constexpr int kElementBytes = 2;
constexpr bool kIsBackward = ONCHIP_BACKWARD != 0;
constexpr int kHidden = ONCHIP_HIDDEN;
constexpr int kGateColumns = ONCHIP_GATE_COLUMNS;  // elements of a gate of a sample: its units, and zeros up to whole 16 bytes
constexpr int kOutputStride = ONCHIP_OUTPUT_STRIDE;         // elements of a sample's output, of all directions
constexpr int kLengthBytes = ONCHIP_LENGTH_BYTES;           // of a sample's length; 0: all have all steps
constexpr bool kHasLengths = kLengthBytes > 0;
constexpr int kSms = ONCHIP_SMS;
constexpr int kBlocks = kSms;  // that exchange a state
constexpr int kLaunches = ONCHIP_LAUNCHES;  // of a part of the samples each
constexpr int kLayers = ONCHIP_LAYERS;
constexpr int kSources = kLayers > 1 ? 2 : 1;  // states that the warps multiply
constexpr int kBatchGroups = ONCHIP_BATCH_GROUPS;
constexpr int kSubBatches = ONCHIP_SUB_BATCHES;
constexpr int kGroupBatch = ONCHIP_SAMPLES;  // of a sub-batch
constexpr int kWarpGroups = ONCHIP_WARP_GROUPS;
static_assert(kSubBatches % kWarpGroups == 0, "every warp group has as many sub-batches");
constexpr int kSplit = ONCHIP_SPLIT;
constexpr int kUnits = ONCHIP_UNITS;          // of an SM
constexpr int kItems = kUnits * kGroupBatch;  // what an SM finishes of a sub-batch: a unit of a sample
constexpr int kSumGroups = ONCHIP_BATCH_GROUPS * ONCHIP_WARP_GROUPS;  // whose sums for biases are apart
constexpr int kItemThreads = ONCHIP_THREADS / kUnits * kUnits;  // all items of a thread are of one unit
constexpr bool kInterleaved = ONCHIP_INTERLEAVED != 0;  // a thread finishes its items side by side
static_assert(!kInterleaved || (!kIsBackward && !kHasLengths), "what nothing is kept of");
static_assert(kLayers == 1 || (!kIsBackward && !kHasLengths && kLaunches == 1), "what can be a stack");
static_assert(kSms * kUnits >= kHidden && kSms % kSplit == 0, "the SMs have all units, in whole clusters");

constexpr int kCellGates = kCell == kGru ? 3 : 4;
constexpr int kGates = kIsBackward ? 1 : kLayers > 1 ? 4 : kCellGates;  // rows of a unit
constexpr int kThreadRows = kGates;                   // side by side
constexpr int kUnitsPerSm = kIsBackward ? kUnits * kSplit : kUnits;
constexpr int kUnitValues = kIsBackward && kCell == kLstm ? 4 : 1;  // of a plane of a state
constexpr int kPlanes = kIsBackward && kCell == kGru ? 3 : 1;
constexpr int kShareValues = kSms / kSplit * kUnits * kUnitValues;
constexpr int kWholeSpans = (kHidden + 31) / 32 * 32;  // forward: no SM multiplies units beyond them
constexpr bool kHasSpareUnits = !kIsBackward && kShareValues > kWholeSpans;
constexpr int kPlaneValues = kHasSpareUnits ? kWholeSpans : kShareValues;

constexpr bool kIsStructured = false, kExchangeOnly = false;
constexpr Storage kStorage = kDense;
constexpr int kSpanUnits = 32;
constexpr int kPlaneSpans = (kPlaneValues + kSpanUnits - 1) / kSpanUnits;
constexpr int kStateSpans = kPlanes * kPlaneSpans;  // of an SM
constexpr int kSourceWarps = ONCHIP_THREADS / 32 / kSources;
constexpr int kSourceWarpSpans = (kStateSpans + kSourceWarps - 1) / kSourceWarps;
// As dense/multiply.cuh counts them: of each source the last warps may lack some.
constexpr int kSpans = kStateSpans + (kSources - 1) * kSourceWarps * kSourceWarpSpans;
constexpr int kPlaneBytes = kPlaneSpans * kGroupBatch * kSpanUnits * kElementBytes;
constexpr int kSpanBytes = kGroupBatch * kSpanUnits * kElementBytes;
constexpr int kStateStride = (kSplit * kStateSpans * kSpanBytes + 127) / 128 * 128;  // of a sub-batch
constexpr int kRingStride = kBatchGroups * kSubBatches * kStateStride;
constexpr int kRingSlots = 2 * ONCHIP_AHEAD;
constexpr long long kRingBytes = static_cast<long long>(kRingSlots) * kRingStride;  // of a layer
__device__ __forceinline__ constexpr int in_l2(u32 offset) {
  return offset;
}

// Where a unit's first value is in a state, in bytes.
__device__ __forceinline__ int place_of(int unit, int sample) {
  const int share = unit * kUnitValues / kPlaneValues, value = unit * kUnitValues % kPlaneValues;
  const int span = share * kStateSpans + value / kSpanUnits;
  return ((span * kGroupBatch + sample) * kSpanUnits + value % kSpanUnits) * kElementBytes;
}

#if ONCHIP_LAYERS > 1
using Arguments = onchip::StackArguments;
#else
using Arguments = onchip::TrainingArguments;
#endif

__device__ __forceinline__ int batch_group() {
  const int group = static_cast<int>(blockIdx.x) / kSms;  // of all layers
  return kLayers == 1 ? group : group % kBatchGroups;
}
__device__ __forceinline__ int warp_group() {
  return kWarpGroups == 1 ? 0 : static_cast<int>(threadIdx.x) / ONCHIP_THREADS;
}
__device__ __forceinline__ int sum_group() {
  return batch_group() * kWarpGroups + warp_group();
}
__device__ __forceinline__ int sm_of_group() {
  return static_cast<int>(blockIdx.x) % kSms;
}
