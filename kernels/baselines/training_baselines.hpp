// SPDX-License-Identifier: Apache-2.0
// What a training step is measured against: libraries doing the same iteration, or a part of it.
//
//   cudnn    forward, gradients of input, first state, all weights and biases; every algorithm, with hidden size and
//            batch as they are and padded to 8 and 64, plain and as a CUDA graph. Checked by a derivative: along its
//            own gradients its own output changes by as much as they say.
//   cublas   a product for every step of both recurrences and the products over all steps, without cells, as a CUDA
//            graph or plain; elements of each product are checked in double precision
//
// An input that is as wide as the network is padded with it. One run is an iteration: all steps, layers and directions.
// Their make() ignores the matrix: networks are dense.
#pragma once

#include "kernels/baselines/baseline.hpp"
#include "model/workload/stack.hpp"

#include <vector>

namespace onchip {

inline constexpr int kCheckedSteps = 6;  // of a sequence whose results are compared

std::vector<BaselineCandidate> training_baseline_candidates(const Recurrent& network, const Stack& stack);

std::vector<BaselineCandidate> cudnn_training_candidates(const Recurrent& network, const Stack& stack);
std::vector<BaselineCandidate> cublas_training_candidates(const Recurrent& network, const Stack& stack);

// How far two numbers are apart that should be the change of an output along gradients: `change`, as it is, `expected`,
// as the gradients say. Throws BaselineRefusal where they differ by more than a derivative of 16-bit outputs does.
void check_derivative(const char* of, double change, double expected);

}  // namespace onchip
