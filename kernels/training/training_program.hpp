// SPDX-License-Identifier: Apache-2.0
// A training step of one LSTM layer: forward, and all gradients, as one list of kernels and products (a program with
// arrays in the place of images). A GPU runs it as one CUDA graph, an interpreter of PTX on the host.
//
//   packing of W and W^T | W_ih x, all steps at once | forward | backward | dx, dW_ih, dW_hh, all steps at once |
//   biases
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "kernels/training/sparse_program.hpp"
#include "kernels/training/training_plan.hpp"

namespace onchip {

// Arrays of elements of the layer's type, row-major, as TrainingInput and TrainingResult have them. Those that come in
// must be written before a run; zeros where there are none. `states` and `cells` begin with the first state, so that h
// of step t is at t + 1.
struct TrainingArrays {
  int x = 0, w_ih = 0, w_hh = 0, b_ih = 0, b_hh = 0, h0 = 0, c0 = 0, dy = 0, dhn = 0, dcn = 0;
  int states = 0, cells = 0;  // [steps + 1, batch, hidden]
  int gates = 0;              // [steps, batch, 4, hidden]: what backward needs, and overwrites
  int dx = 0, dw_ih = 0, dw_hh = 0, db = 0, dh0 = 0, dc0 = 0;
};

struct TrainingProgram {
  InferenceProgram program;  // results: one word, 1 if a wait was given up
  TrainingArrays arrays;
  TrainingPlan plan;
  std::shared_ptr<const SparseTraining> sparse = nullptr;  // that the recurrences are instead of what the plan says
};

// Moves tiles to shared memory until no kernel spills. Throws InputError for a plan that is not possible.
TrainingProgram training_program(const TrainingSize& size, Precision precision, TrainingPlan plan,
                                 const std::string& architecture);

// With a mask that stays: gradients of W_hh only where it has weights, and those of W_hh elsewhere are not read.
TrainingProgram sparse_training_program(const TrainingSize& size, Precision precision,
                                        std::shared_ptr<const SparseTraining> sparse);

}  // namespace onchip
