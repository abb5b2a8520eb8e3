// SPDX-License-Identifier: Apache-2.0
// The products of a training step over all steps at once (training_program.hpp). `aligned`: of copies whose rows are
// whole 16 bytes, where those of the caller's are not. With lengths they are of packed rows, which are copies of x,
// where the caller's are padded, and of the h before each step, h0 among them.
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
  int gates = 0, first_gradient = 0;  // arrays
  // Likewise, if aligned: of x, and then of its gradient; of y; of the weights.
  int copied_x = 0, copied_y = 0, copied_w_ih = 0, copied_dw_ih = 0, copied_dw_hh = 0;

  // The gradient of x is added to that of the first direction.
  bool has_lengths() const { return size.length_bytes > 0; }
  bool adds_dx() const { return size.is_reverse && size.directions == 2; }
  void add_arrays(KernelProgram& program);
  std::vector<ProgramNode> forward(ArrayPlaces at, const TrainingRows& rows) const;
  std::vector<ProgramNode> backward(ArrayPlaces at, const TrainingRows& rows) const;
  // Before each of them, and behind the last.
  RowCopies before_forward(ArrayPlaces at, const TrainingRows& rows) const;
  RowCopies before_backward(ArrayPlaces at, const TrainingRows& rows) const;
  RowCopies behind_backward(ArrayPlaces at, const TrainingRows& rows) const;
};

// Throws InputError if cuBLAS counts no so many of `what`.
int of_size(std::int64_t size, const char* what);

}  // namespace onchip
