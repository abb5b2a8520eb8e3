// SPDX-License-Identifier: Apache-2.0
// What follows from a recurrent network and a dense recurrence's plan, and which weight sits in which fragment of which
// SM's lanes.
#pragma once

#include "model/exchange/state.hpp"
#include "model/plan/encoded.hpp"
#include "model/training/recurrence_plan.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// Of one direction, whose input is as wide as its state.
TrainingSize training_size(const Recurrent& network);

// The state is exchanged through a ring, and read and written where the caller has it.
struct RecurrenceGeometry : RecurrencePlan, StateGeometry {
  Recurrent network;
  RecurrenceShape shape;
};
// Throws InputError for a plan that the kernel does not have.
RecurrenceGeometry geometry(const Recurrent& network, const RecurrencePlan& plan);

// The weights as the SMs load them (prepare.cuh): each has [warps, tiles in registers], then [warps, shared_tiles]
// tiles of [32 lanes, 4 words].
struct RecurrenceLayout {
  RecurrenceGeometry geometry;
  std::vector<std::uint32_t> words;
};
RecurrenceLayout make_layout(const RecurrenceGeometry& geometry, const SparseMatrix& matrix, int threads = 1);
SparseMatrix unpack(const RecurrenceLayout& layout);
inline Encoded encode(const RecurrenceLayout& layout) {
  return {.weights = layout.words, .streamed = {}, .overflow = {}};
}
Wavefronts gather_wavefronts(const RecurrenceLayout& layout);

}  // namespace onchip
