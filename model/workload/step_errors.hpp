// SPDX-License-Identifier: Apache-2.0
// Whether the states that a kernel computed are right, step by step: each step of the reference multiplies the state
// that the kernel itself handed on, so that no error travels from step to step however much the network amplifies it.
// What remains are the roundings of one step. How large they are in a unit is found by rounding: references whose
// states are each off by one roundoff, up or down at random.
//
//   scale    root mean square, over steps and samples, of what that changes in the unit; of the unit's own roundoff,
//   and
//            of that of a mean unit's state
//   error    of the unit that is furthest off: |kernel - reference| / scale, times the unit roundoff u of the state
//
// A dropped weight w of a row of n that are as large changes its unit by 1 / (u sqrt(n)) scales.
#pragma once

#include "model/workload/reference.hpp"

namespace onchip {

struct Correctness {
  double relative_error = 0, tolerance = 0;
  bool correct = false;
};

// `got`: [steps, hidden, batch], of samples that all have all steps. Steps behind the first whose state comes near the
// largest number of its type are not looked at: sums may have overflown. Throws InputError as reference_states() does.
Correctness check_steps(const SparseMatrix& weights, Cell cell, Precision precision, ReferenceInput in,
                        std::span<const float> got);

}  // namespace onchip
