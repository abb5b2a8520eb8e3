// SPDX-License-Identifier: Apache-2.0
// The products of a training step over all steps at once (training_program.hpp). `aligned`: of copies whose rows are
// whole 16 bytes, where those of the caller's are not.
#pragma once

#include "kernels/training/training_program.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct TrainingProducts {
  TrainingSize size;
  Precision precision = Precision::fp16;
  bool aligned = false;
  TrainingArrays arrays;
  int gates = 0, first_gradient = 0;                 // arrays
  int copied_rows = 0, copied_w = 0, copied_dw = 0;  // if aligned: of x, y or dx; of W_ih; of the gradient of a weight
  int copy_rows = 0;                                 // kernel

  void add_arrays(InferenceProgram& program);
  std::vector<ProgramNode> forward(ArrayPlaces at) const;
  std::vector<ProgramNode> backward(ArrayPlaces at) const;
};

// Throws InputError if cuBLAS counts no so many of `what`.
int of_size(std::int64_t size, const char* what);

}  // namespace onchip
