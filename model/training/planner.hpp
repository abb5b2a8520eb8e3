// SPDX-License-Identifier: Apache-2.0
// Which plan a training has on a chip: of all plans that its kernels have, those of the least price. A search that
// finds nothing says why, with what is needed and what there is.
#pragma once

#include "model/training/price.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace onchip {

// Those that dense recurrences multiply with.
bool has_tensor_cores(const Chip& chip);

// The plans of a dense recurrence with the least prices on so many of the chip's SMs, those of both directions one of
// two shares: `most` at most, each with other units, sub-batches, batch groups or clusters; the least first. `layers`:
// of a stack without a stash, on the SMs at once; 0: of a training.
Found<std::vector<RecurrencePlan>> rank_recurrences(const Chip& chip, const TrainingSize& size, bool is_backward,
                                                    int share, std::size_t most, int layers = 0);
Found<RecurrencePlan> choose_recurrence(const Chip& chip, const TrainingSize& size, bool is_backward, int share = 1);

// That of a sparse one. `w_hh` [4 hidden, hidden]: its mask.
Found<SparseRecurrence> choose_sparse_recurrence(const Chip& chip, const TrainingSize& size, Precision precision,
                                                 const SparseMatrix& w_hh, bool is_backward);
Found<SparseRecurrence> choose_sparse_recurrence(const Chip& chip, const Training& training, bool is_backward);

// The fastest plan whose weights stay on the chip in both passes; without a stash the one whose layers are on the chip
// at once or one after another, as it takes less time. Directions are beside each other in both passes, or in none.
// Nothing also where the cell, the type or, with a mask, more than one layer and direction has no kernels.
Found<TrainingPlan> choose_on_chip(const Chip& chip, const Training& training, Stash stash = Stash::gates);

// That plan, and the next best: `most` at most. Of a sparse training, that one.
Found<std::vector<TrainingPlan>> rank_on_chip(const Chip& chip, const Training& training, Stash stash,
                                              std::size_t most);

// The fastest without a stash that has all layers of the stack on the SMs at once.
Found<TrainingPlan> choose_resident(const Chip& chip, const Training& training);

// Fields of a plan's passes in words, "sub_batches=2 warps=16"; "" for a pass without any.
struct PassFields {
  std::string forward, backward;
  bool any() const { return !forward.empty() || !backward.empty(); }
};
// The plan with other fields. How much lies in shared memory is derived again unless the words have it. Throws
// InputError for words that are no fields, and where the pass does not fit.
TrainingPlan with_fields(const Chip& chip, const Training& training, TrainingPlan plan, const PassFields& fields);
// The plan that has these fields, and all others as a plan without choices. Throws InputError as check() does.
TrainingPlan with_passes(const Training& training, const PassFields& fields, Stash stash = Stash::gates);

}  // namespace onchip
