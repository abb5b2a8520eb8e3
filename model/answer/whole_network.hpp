// SPDX-License-Identifier: Apache-2.0
// A forward pass of a whole recurrent network, as python/onchip and examples/pruned_lstm.cpp run one: of each layer,
// one direction after another, for a whole sequence
//
//   input product   W_ih input of all steps at once, a dense product of a library (model/library/price.hpp)
//   launch          launches + (10 input + 16 output) / bandwidth of L2
//   recurrence      steps * step
//
// A launch has small kernels that bring input and output from the caller's order into the plan's and back, and loads
// the weights. A layer's input is the output of all directions of the layer before it. All layers and directions have
// one plan.
//
// Beside it stands the same network as a dense stack of which several layers are on the SMs at once, each a step behind
// the one below, or of which each step of a layer is a launch, whichever is faster: what python/onchip runs where
// nobody wants gradients. Of LSTMs and GRUs of one direction, in 16 bits.
//
// With measured steps, launch and recurrence are off by 2.2 % of a sequence of 256 steps on average for 2515 rows of
// experiments/data/h200, to which the cost terms sequence_* were fitted, and by 2.6 % for 1349 rows of h100_sxm. No
// input product of this size was measured: its interval is the library's.
#pragma once

#include "model/answer/answer.hpp"
#include "model/training/price.hpp"
#include "model/workload/stack.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// "2 layers, both directions, input of 512, 200 steps"
std::string describe(const Stack& stack, const Recurrent& network);

inline constexpr std::string_view kInputProduct = "input product";

struct SequencePart {
  int layer = 0;
  bool backward = false;
  std::string_view name;  // static
  double us = 0, low_us = 0, high_us = 0;
};

// In the order in which they run, of a layer whose plan takes so long for a step. `is_pipelined`: it is one of
// dense_pipelined, which brings no sequence into an order of its own.
std::vector<SequencePart> sequence_parts(const Chip& chip, const Recurrent& network, const Prediction& step,
                                         const Stack& stack, bool is_pipelined = false);

struct PlannedStack {
  DenseTrainingPlan plan;
  PhasePrice time;
};

struct WholeNetworkAnswer {
  PredictAnswer of_layer;  // each direction of each layer
  Stack stack;
  std::vector<SequencePart> parts;  // none where the network does not fit
  SequencePart total;               // their sum
  Found<PlannedStack> dense = Found<PlannedStack>::nothing("");

  bool is_yes() const { return !parts.empty(); }
};

// Throws InputError for a library's plan: its step may include the input product.
WholeNetworkAnswer predict(const RecurrentQuestion& question, const Stack& stack);

}  // namespace onchip
