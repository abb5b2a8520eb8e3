// SPDX-License-Identifier: Apache-2.0
// What the dense recurrence of trainings provides as a family of recurrent networks (plan/family.hpp): its forward
// pass, which keeps nothing, for more samples than one launch of the other families takes. onchip.LSTM and GRU run it
// where no gradients are wanted.
#pragma once

#include "model/exchange/state.hpp"
#include "model/plan/encoded.hpp"
#include "model/plan/family.hpp"
#include "model/training/recurrence_plan.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <string>
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

std::string beyond_limits(const Recurrent& network, const RecurrencePlan& plan);
void check(const Recurrent& network, const RecurrencePlan& plan);
inline void check_rows(const Recurrent&, const RecurrencePlan&, const RowProfile&) {}

Footprint footprint(const Chip& chip, const RecurrenceGeometry& geometry);
Price price(const Chip& chip, const RecurrenceGeometry& geometry);

// Those of rank_recurrences(), which the model prices itself.
void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                        const Constraints& constraints, const Consider<RecurrencePlan>& consider);
inline RecurrencePlan settled(const Chip&, const Recurrent&, const RowProfile&, const Constraints&,
                              const RecurrencePlan& plan) {
  return plan;
}
std::string why_none(const Chip& chip, const Recurrent& network, const Constraints& constraints, const RecurrencePlan&);

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

// Of a pass: what it takes of an SM with `directions` of them beside each other.
Footprint footprint(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape, int directions);

}  // namespace onchip
