// SPDX-License-Identifier: Apache-2.0
// What the recurrences of a training step are given.

// Elements are of kPrecision; null: zeros.
struct Recurrence {
  const void* weights;                      // W_hh, [kCellGates][kHidden][kHidden]
  u32* packed;                              // the same as the SMs load them
  char* ring;                               // where they exchange states
  void* gates;                              // [steps][kBatch][4][kHidden]: W_ih x, then the gates, then their gradients
  void* cells;                              // LSTM: c, [steps + 1][kBatch][kHidden], the initial one first
  void* states;                             // h, likewise; LSTM: only forward
  const void *initial, *initial_cell;       // h0, c0: [kBatch][kHidden]; only forward
  const void *input_bias, *recurrent_bias;  // [kCellGates][kHidden]; only forward
  const void* states_gradient;              // [steps][kBatch][kHidden]
  const void *final_gradient, *final_cell_gradient;     // of the last h and c: [kBatch][kHidden]
  void *initial_gradient, *initial_cell_gradient;       // of h0 and c0
  float* bias_sums;                                     // [kBatchGroups * kSumSamples][4][kHidden]
  void *input_bias_gradient, *recurrent_bias_gradient;  // [kCellGates][kHidden]; null: not wanted
  long long steps;
  u32* status;  // set to 1 if a wait was given up
};
