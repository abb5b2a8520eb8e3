// SPDX-License-Identifier: Apache-2.0
// What the recurrences of a training step are given.

// Samples in the order in which they are given to groups and turns: the longest first.
struct __align__(8) Ranked {
  int sample, length;
};

// Where rows go, with lengths (rows.cuh).
enum RowMap {
  kSameRows,
  kToPacked,    // from the caller's; zeros in the rows behind the last that products read, too
  kFromPacked,  // to the caller's; zeros beyond a sample's end
  kToLater      // from the caller's y to the packed row of the step after it; of a sample's first step there, from h0
};

// Of matrices whose rows are not whole 16 bytes, or lie in another order (rows.cuh).
struct RowCopy {
  const void* from;  // [rows][from_stride]
  void* to;          // [rows][to_stride]
  long long rows;    // 0: nothing
  int from_stride, to_stride;
  int columns, written_columns;  // that are copied; that are written: zeros behind
  int adds;                      // to what is there
  int map;                       // RowMap
};
constexpr int kMostCopies = 3;  // at once

// Elements are of kPrecision; null: zeros, or not wanted. Rows are those of [steps][kBatch]. With lengths they are packed, as
// torch's PackedSequence has them: of one position after another, of each the samples that are there, by their ranks.
struct Recurrence {
  const void* weights;                      // W_hh, [kCellGates][kHidden][kHidden]
  u32* packed;                              // the same as the SMs load them
  char* ring;                               // where they exchange states
  void* gates;                              // rows of [4][kHidden]: W_ih x, then the gates, then their gradients
  void *cells, *last_cells;                 // LSTM: rows of c, and of c in the step before
  void* output;                             // rows of h; LSTM: only forward; the caller's rows, if they are others
  const void *initial, *initial_cell;       // h0, c0: [kBatch][kHidden]; LSTM: only forward
  void *final_state, *final_cell;           // likewise; only forward
  const void *input_bias, *recurrent_bias;  // [kCellGates][kHidden]; only forward
  const void* output_gradient;              // rows, likewise
  const void *final_gradient, *final_cell_gradient;     // of the last h and c: [kBatch][kHidden]
  void *initial_gradient, *initial_cell_gradient;       // of h0 and c0
  float* bias_sums;                                     // [kBatchGroups * kSumSamples][4][kHidden]
  void *input_bias_gradient, *recurrent_bias_gradient;  // [kCellGates][kHidden]
  void* first_gradient;                                 // of the gates of the first step: [kBatch][4][kHidden]
  const void* lengths;                                  // [kBatch]
  Ranked* ranks;                                        // [kBatch]; made of lengths; behind them int [steps + 1]: the first row of each position
  long long steps;
  int descends;  // whether the recurrence goes from a sample's last position to its first
  int packed_rows;  // with lengths, of the caller's x, y and their gradients, too; below 0: those are [steps][kBatch], and
                    // products are of a multiple of so many rows, which are zeros behind the last
  u32* status;   // set to 1 if a wait was given up, to 2 if a length is not one of 1 to `steps`
  RowCopy copies[kMostCopies];  // before the products, or behind them
};
