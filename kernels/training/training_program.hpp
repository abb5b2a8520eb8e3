// SPDX-License-Identifier: Apache-2.0
// A training step of one LSTM or GRU layer: forward, and all gradients, as one list of kernels and products (a program
// with arrays in the place of images). A GPU runs it as one CUDA graph, an interpreter of PTX on the host.
//
//   packing of W and W^T | W_ih x, all steps at once | forward | backward | dx, dW_ih, dW_hh, all steps at once |
//   biases
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/training/training_plan.hpp"

namespace onchip {

// Arrays of elements of the layer's type, row-major, empty where the cell has none, as TrainingInput and TrainingResult
// have them. Those that come in must be written before a run; zeros where there are none.
struct TrainingArrays {
  int x = 0, w_ih = 0, w_hh = 0, b_ih = 0, b_hh = 0, h0 = 0, c0 = 0, dhn = 0, dcn = 0;
  int lengths = 0;     // [batch], integers of size.length_bytes
  int y = 0, dy = 0;   // [steps, batch, directions * hidden], from this direction's first element on
  int hn = 0, cn = 0;  // [batch, hidden]
  int cells = 0;       // every c, [steps + 1, batch, hidden]; the initial one first, or last of the second direction
  int gates = 0;       // [steps, batch, 4, hidden]: what backward needs, and overwrites
  int dx = 0, dw_ih = 0, dw_hh = 0, db = 0, db_hh = 0, dh0 = 0, dc0 = 0;
};

struct TrainingProgram {
  InferenceProgram program;  // results: one word, 1 if a wait was given up, 2 if a length is none
  TrainingArrays arrays;
  TrainingPlan plan;
};

// Moves tiles to shared memory until no kernel spills. Throws InputError for a plan that is not possible.
TrainingProgram training_program(const TrainingSize& size, Precision precision, TrainingPlan plan,
                                 const std::string& architecture);

}  // namespace onchip
