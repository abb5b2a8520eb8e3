// SPDX-License-Identifier: Apache-2.0
// What the recurrences of a training step are given, in their constants.
#pragma once

namespace onchip {

// Samples in the order in which they are given to groups and sub-batches: the longest first.
struct alignas(8) Ranked {
  int sample, length;
};

// Where rows go; with lengths, from to_packed on (rows.cuh).
enum class RowMap : int {
  same,
  to_gates,     // from [gates][kHidden] to [gates][kGateColumns], with zeros behind each gate's units
  from_gates,   // and back
  to_packed,    // from the caller's; zeros in the rows behind the last that products read, too
  from_packed,  // to the caller's; zeros beyond a sample's end
  to_later      // from the caller's y to the packed row of the step after it; of a sample's first step there, from h0
};

// Of matrices whose rows are not whole 16 bytes, or lie in another order (rows.cuh).
struct RowCopy {
  const void* from = nullptr;  // [rows][from_stride]
  void* to = nullptr;          // [rows][to_stride]
  long long rows = 0;          // 0: nothing
  int from_stride = 0, to_stride = 0;
  int columns = 0, written_columns = 0;  // that are copied; that are written: zeros behind
  int adds = 0;                          // to what is there
  RowMap map = RowMap::same;
  int is_fp32 = 0;  // what is copied from
};
constexpr int kMostCopies = 4;  // at once

// Elements are of kPrecision; null: zeros, or not wanted. Rows are those of [steps][batch]. With lengths they are
// packed, as torch's PackedSequence has them: of one position after another, of each the samples that are there, by
// their ranks.
struct TrainingArguments {
  const void* weights;                 // W_hh, [kCellGates][kHidden][kHidden]; null: they are packed already
  unsigned* packed;                    // the same as the SMs load them
  char* ring;                          // where they exchange states
  void* gates;                         // rows of [4][kGateColumns]: W_ih x, then the gates, then their gradients
  void *cells, *last_cells;            // LSTM: rows of c, and of c in the step before
  void* output;                        // rows of h; LSTM: only forward; the caller's rows, if they are others
  const void *initial, *initial_cell;  // h0, c0: [batch][kHidden]; LSTM: only forward
  void *final_state, *final_cell;      // likewise; only forward
  // Between chunks of steps, in fp32, instead of what is given of the first and wanted of the last state. Forward c of
  // an LSTM or h of a GRU, [batch][kHidden]; backward [2][batch][kHidden], the gradients of h and, of an LSTM, of c.
  const float* initial_carry;
  float* final_carry;
  const void *input_bias, *recurrent_bias;              // [kCellGates][kHidden]; only forward
  const void* output_gradient;                          // rows, likewise
  const void *final_gradient, *final_cell_gradient;     // of the last h and c: [batch][kHidden]
  void *initial_gradient, *initial_cell_gradient;       // of h0 and c0
  float* bias_sums;                                     // [kBatchGroups * kSumSamples][4][kHidden]
  void *input_bias_gradient, *recurrent_bias_gradient;  // [kCellGates][kHidden]
  const void* lengths;                                  // [batch]
  Ranked* ranks;  // [batch]; made of lengths; behind them int [steps + 1]: the first row of each position
  long long steps;
  int batch;         // the kernel's sub-batches may have room for more samples
  int keeps;         // forward: whether a backward follows, which reads the gates and c of every step
  int continues;     // backward: whether `output` has a state before the first step, too, which then is not `initial`
  int descends;      // whether the recurrence goes from a sample's last position to its first
  int packed_rows;   // with lengths, of the caller's x, y and their gradients, too; below 0: those are [steps][batch],
                     // and products are of a multiple of so many rows, which are zeros behind the last
  int first_sample;  // of several launches, each of a part of the samples: the part's first rank
  unsigned* status;  // set to 1 if a wait was given up, to 2 if a length is not one of 1 to `steps`
  RowCopy copies[kMostCopies];  // before the products, or behind them
};

// Of a stack whose layers are on the SMs at once; arrays as those of one layer.
struct StackedLayer {
  const void *w_ih, *w_hh;  // [gates][kHidden][kHidden] each; w_ih not of the first
  const void *input_bias, *recurrent_bias;
  const void *initial, *initial_cell;
  void *final_state, *final_cell;
};
inline constexpr int kMostStacked = 16;

// Packed, ring, initial_carry and final_carry are the first layer's, those of the others behind it.
struct StackArguments : TrainingArguments {
  int layers = 1;                // kLayers at most
  unsigned* progress = nullptr;  // [kLayers][kBatchGroups][kSms][kWarpGroups]: steps that have been multiplied
  StackedLayer stacked[kMostStacked] = {};
};

// Of a layer's step in one launch (single_step.cu); as TrainingArguments, of one step.
struct StepArguments {
  const void *x, *h;  // null: h is zero
  const void *w_ih, *w_hh, *b_ih, *b_hh;
  const void* c;       // LSTM, of the first step
  const float* carry;  // [batch][kHidden], c or of a GRU h of the step before; null: c, or h
  float* next_carry;   // null behind the last step
  void* y;
  void *hn, *cn;
};

// Of a sparse LSTM's.
struct SparseTrainingArguments : TrainingArguments {
  const int* tables = nullptr;  // of each SM: of its overflow, then [kRowsPerGroup][kGroups] rows, -1: none
  int sub_batch = 0;
};

// Of what a mask leaves to do (sparse_weights.cu).
struct SparseWeightsArguments {
  const unsigned short* weights = nullptr;  // W_hh, [4][hidden][hidden]
  const unsigned* words = nullptr;          // packed, without values
  const int* sources = nullptr;             // [2 * count]: the weight in each half of a word, -1: none
  unsigned* packed = nullptr;               // [count]
  long long count = 0;
  float scale = 1;       // a power of two
  void* ring = nullptr;  // [ring_words] of 16 bytes, which becomes empty
  long long ring_words = 0;
  void* gradient = nullptr;             // of W_hh, words of 4 elements
  const unsigned char* mask = nullptr;  // of each of these, a bit for each element
  long long gradient_words = 0;
};

// Of what stands behind a half (outcome.cu).
struct OutcomeArguments {
  unsigned *status, *report;  // as TrainingArguments::status; where the host reads it
  struct {
    unsigned short* at;
    long long count;
  } written[100];  // by the half, of two directions or of the layers that are replayed
};

// Of what chooses the body of a conditional node (graph_switch.cu).
struct GraphChoice {
  unsigned long long handle;
  const int* rows;
  int unit;
};

}  // namespace onchip
