// SPDX-License-Identifier: Apache-2.0
// What a training step takes on the current device, random data.
#pragma once

#include "kernels/runtime/timing.hpp"
#include "kernels/training/training_program.hpp"
#include "model/chip/chip.hpp"
#include "model/training/training.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace onchip {

// A step's nodes by what they belong to.
enum class TrainingPart : std::uint8_t { forward, backward, products, other };
inline constexpr std::size_t kTrainingParts = 4;

// Samples are in us per step.
struct TrainingWays {
  Way graph;  // everything, in one CUDA graph; fails where a wait was given up
  Way parts;  // each node for itself: their sum; parts by TrainingPart
  int spill_bytes = 0;
  std::array<std::string, kTrainingParts> codes = {};  // fingerprints of the machine code of both recurrences
};

// Of one layer and direction. Compiles, and loads the program. Throws CudaError.
TrainingWays training_ways(const TrainingProgram& training, const TrainingSize& size, Precision precision);

// Of any number of layers and directions without a mask: the layers' halves (training_layer.hpp) in one CUDA graph, as
// who trains the network has them, and all gradients. Throws InputError for a plan of replay.
Way stack_way(const Chip& chip, const Training& training, const TrainingPlan& plan);

}  // namespace onchip
