// SPDX-License-Identifier: Apache-2.0
// What a kernel should compute, in double precision:
//   h[t+1] = act(W h[t] + x[t])
// with the weights rounded to their precision, as the kernels store them.
#pragma once

#include "model/mask.hpp"
#include "model/network.hpp"

#include <span>
#include <vector>

namespace onchip {

// The states after each step, [steps, hidden, batch], of the cells relu and tanh. `weights`: [hidden, hidden];
// `initial`: [hidden, batch]; `input`: [steps, hidden, batch]. `round_state`: also round the initial state and each new
// one to `precision`, as a kernel does when it hands them to the next step; else they stay doubles. relu(NaN) is NaN.
// Throws InputError for the other cells, a matrix that is not square, or sizes that do not match it.
std::vector<double> reference_states(const SparseMatrix& weights, Cell cell, Precision precision, int batch, int steps,
                                     std::span<const float> initial, std::span<const float> input,
                                     bool round_state = false);

// ||got - expected|| / ||expected||, 2-norms over all elements. Elements that are NaN, or the same infinity, on both
// sides count as equal; NaN or an infinity on one side makes the error infinite, as does a difference from all zeros.
// Throws InputError if the lengths differ.
double relative_error(std::span<const double> expected, std::span<const float> got);

}  // namespace onchip
