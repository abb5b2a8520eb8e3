// SPDX-License-Identifier: Apache-2.0
// What an iteration of a training takes in time and bytes, phase by phase.
//
//   packing      the elements read and written through L2; and training_nodes, what an iteration takes beside all
//   phases products     product_price() of model/library/price.hpp recurrences  steps * step of the plan
//   (recurrence_price.hpp), and the launch of a kernel with its weights library      steps * (waiting + 2 W / L2 +
//   values of gates through L2 + six products), fitted to cuDNN's best algorithm
//                in a graph; cells without gates and fp32: forward and backward step of inference, and both weight
//                products
//
// Phases beside each other take as long as the longest of them: what they cost each other is not in it.
#pragma once

#include "model/plan/prediction.hpp"
#include "model/training/memory.hpp"
#include "model/training/phases.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace onchip {

struct PhasePrice {
  double us = 0, low_us = 0, high_us = 0;
  std::int64_t bytes = 0;  // of device memory that it reads and writes
};

// Of an iteration over its steps, as of a step of inference: its terms are the kinds of phases. Phases that take no
// longer than one beside them are in no term. There is no floor.
struct TrainingPrediction : Prediction {
  PhasePrice iteration;            // all steps, layers and directions
  std::vector<PhasePrice> phases;  // of phases_of()
  TrainingMemory memory;
};

Stash stash_of(const TrainingPlan& plan);  // a library's keeps the gates
inline std::string_view stash_name(const TrainingPlan& plan) {
  return kStashNames[static_cast<std::size_t>(stash_of(plan))];
}

// Its footprint is what the busiest SM needs in either pass. Throws InputError as check() does, and for non-zeros of a
// mask that the SMs do not hold.
TrainingPrediction predict(const Chip& chip, const Training& training, const TrainingPlan& plan);

// A call without gradients, of all steps: the forward half of an iteration and the node behind it; of a library's plan,
// cuDNN's inference.
double inference_us(const Chip& chip, const Training& training, const TrainingPlan& plan);

// The products of a training by cuBLAS alone, without its cells: what a library takes at least.
PhasePrice cublas_price(const Chip& chip, const Training& training);

}  // namespace onchip
