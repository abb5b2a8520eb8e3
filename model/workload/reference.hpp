// SPDX-License-Identifier: Apache-2.0
// What a kernel should compute, in double precision, with the weights rounded as the kernels store them
// (round_weights). W: [gates * hidden, hidden], one block of rows per gate, in PyTorch's order (torch.nn.LSTM,
// torch.nn.GRU); a: the gate's rows of W h[t] + b; s: the logistic function:
//   relu, tanh     h' = act(x + a)
//   lstm i f g o   c' = s(x_f + a_f) c + s(x_i + a_i) tanh(x_g + a_g);  h' = s(x_o + a_o) tanh(c')
//   gru  r z n     n = tanh(x_n + s(x_r + a_r) a_n);  h' = (1 - z) n + z h with z = s(x_z + a_z)
#pragma once

#include "model/workload/mask.hpp"
#include "model/workload/recurrent.hpp"

#include <span>
#include <vector>

namespace onchip {

struct ReferenceInput {
  int batch = 1;
  int steps = 0;
  std::span<const float> initial = {};         // h0, [hidden, batch]
  std::span<const float> initial_cell = {};    // c0, [hidden, batch], LSTM only; empty: zeros
  std::span<const float> input = {};           // x, [steps, gates * hidden, batch]: the input projection with its bias
  std::span<const float> recurrent_bias = {};  // b, [gates * hidden]; empty: zeros
  std::span<const int> lengths = {};           // [batch]: steps of each sample; empty: all
  // Also round h to the type of the state, the initial one and each new one, as a kernel does when it hands it to the
  // next step; else it stays a double. c does, and so does the h in the GRU's z h: a kernel carries them in registers.
  bool round_state = false;
  // [steps, hidden, batch]: what the next step multiplies instead of this one's h, as where each step of a kernel is
  // checked for itself; empty: h.
  std::span<const float> handed_on = {};
};

struct ReferenceStates {
  std::vector<double> states;       // h after each step, [steps, hidden, batch]; zero beyond a sample's length
  std::vector<double> final_state;  // h after the last step of each sample, [hidden, batch]; rounded as `states` are
  std::vector<double> final_cell;   // c likewise, LSTM only
};

// NaN passes through every cell, relu too. Throws InputError for sizes that do not match `weights` and the cell, an
// initial c for a cell without one, or a length outside 0..steps.
ReferenceStates reference_states(const SparseMatrix& weights, Cell cell, Precision precision, const ReferenceInput& in);

// ---- several layers, in one direction or both -----------------------------------------------------------------------

// One direction of one layer; x = W_ih input + b_ih.
struct ReferenceLayer {
  std::span<const float> input_weights;        // W_ih, [gates * hidden, input of the layer]; rounded as the state is
  SparseMatrix recurrent_weights;              // W_hh
  std::span<const float> input_bias = {};      // b_ih, [gates * hidden]; empty: zeros
  std::span<const float> recurrent_bias = {};  // b_hh, likewise
};

struct ReferenceStackInput {
  int input_size = 0;
  int directions = 1;  // 2: a layer's output is that of the forward and of the backward direction, one after the other
  int batch = 1;
  int steps = 0;
  std::span<const float> input = {};         // [steps, batch, input size]
  std::span<const float> initial = {};       // h0, [layers, directions, batch, hidden]; empty: zeros
  std::span<const float> initial_cell = {};  // c0, likewise, LSTM only
  std::span<const int> lengths = {};         // [batch]: steps of each sample; empty: all
  bool round_state = false;                  // as in ReferenceInput; also round x
};

struct ReferenceStack {
  std::vector<double> output;       // of the last layer, [steps, batch, directions, hidden]; zero beyond a length
  std::vector<double> final_state;  // [layers, directions, batch, hidden]: forward of the last step, backward of step 0
  std::vector<double> final_cell;   // c likewise, LSTM only
};

// What torch.nn.RNN, GRU and LSTM compute (batch_first=False; lengths: as a packed sequence). `layers`: [layers,
// directions]. The backward direction runs from each sample's last step to step 0. Throws InputError for sizes that do
// not match.
ReferenceStack reference_stack(std::span<const ReferenceLayer> layers, Cell cell, Precision precision,
                               const ReferenceStackInput& in);

// ||got - expected|| / ||expected||, 2-norms over all elements. Elements that are NaN, or the same infinity, on both
// sides count as equal; NaN or an infinity on one side makes the error infinite, as does a difference from all zeros.
// Throws InputError if the lengths differ.
double relative_error(std::span<const double> expected, std::span<const float> got);

}  // namespace onchip
