// SPDX-License-Identifier: Apache-2.0
// What is trained: a recurrent network of some layers and directions, forward and all gradients, which are of the
// input, of all weights and biases and of the first state.
#pragma once

#include "model/training/training_reference.hpp"
#include "model/workload/mask.hpp"
#include "model/workload/recurrent.hpp"
#include "model/workload/stack.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace onchip {

inline constexpr std::int64_t kMostTrainedSamples = 2147483647;  // of all steps: what cuBLAS counts

// Every layer and direction has the network's cell, size and batch.
struct Training {
  Recurrent network;
  Stack stack;
  std::shared_ptr<const SparseMatrix> mask = {};  // of W [4 hidden, hidden], whatever its values; none: W is dense
};

TrainingSize size_of(const Training& training, int layer = 0);
// Of one layer, its directions and lengths beside each other.
Training training_of(const TrainingSize& size, Precision precision, const SparseMatrix* mask = nullptr);

// Why a network with a mask has no kernels, or nothing.
std::string what_lacks_sparse(const Training& training);

}  // namespace onchip
