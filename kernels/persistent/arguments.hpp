// SPDX-License-Identifier: Apache-2.0
// What the kernels of a recurrence are given: for the host, and as the only parameter of the kernel.
#pragma once

namespace onchip {

// Of a persistent kernel (sparse_persistent.cu, dense_persistent.cu), in the constants of its plan.
struct RecurrenceArguments {
  const unsigned* weights;  // of each block, as its family lays them out: those of registers, those of shared memory
  const char* streamed;     // sparse: chunks, of each warp in order of use
  const int* overflow;      // sparse, per block: [kOverflowInts]; [kWarps] first streamed chunk; [kWarps] chunks
                            // streamed in a step; behind that of all blocks the table of row_splits.cuh
  const unsigned* gates;    // sparse: [kStateUnits], see cell.cuh
  const float* scales;      // sparse, fp8: [kStateUnits][kGates], in the order of each unit's rows
  const float* recurrent_bias;  // GRU: [kStateUnits], of the n gate
  const void* input;            // [steps, kBatch, kStateUnits, kGates], with its bias, in the order of each unit's rows
  void* states;                 // [steps + 1] states: the initial one, then kAhead empty ones
  float* carry;        // [kStateUnits, kBatchPadded]: before the first step and, after the launch, after the last
  float* final_carry;  // the same, of each sample's last step
  const int* lengths;  // [kBatchPadded]: steps of each sample; its last may lie in another launch
  int first_step;      // of this launch, as lengths count
  int steps;
  unsigned* barrier;  // zero before the launch; Lamport: unused
  unsigned* status;   // set to 1 if a wait was given up
  unsigned* record;   // ONCHIP_CLOCKS: clocks [steps, kBlocks, kWarps, kMarksOfStep]; or what capture.cuh writes
};

// The points of a step, and what a warp has done at each. A block barrier blocks at the first instruction that needs
// it: the wait of those before `complete` and `all_finished` counts to the point after.
enum class Mark : int { begun, staged, complete, gathered, reduced, finished, all_finished, emitted };
constexpr int kMarksOfStep = 8;

// Of what one warp captures (capture.cuh): two words, then so many accesses, each of so many words.
constexpr int kAccessWords = 3 + 32;

// Of the translations (state_order.cu).
struct OrderArguments {
  const int* order;  // [kHidden]: place of each unit in the state; of the input [kGates, kHidden]: of each row's result
  const void* from;  // null, of the input: zeros
  void* to;
  const int* lengths;  // [kBatchPadded]: steps of each sample
  const float* bias;   // [kGates, kHidden], added to the input; null: none
  long long stride;    // elements from one sample of the caller's sequence to the next
  int first_step;      // of this launch, in the sequence
  int steps;           // of this launch
  int backward;        // 1: the sequence of each sample runs from its last step to its first
};

// Of the translation that only brings lengths; a plan's kernel takes kBatchPadded of them.
template <int kSamples>
struct LengthArguments {
  int* to;  // [kSamples]
  int lengths[kSamples];
};

}  // namespace onchip
