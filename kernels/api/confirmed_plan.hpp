// SPDX-License-Identifier: Apache-2.0
// Plans for those who compile them. The registers that the model counts are a fit to the compiler, and now and then a
// kernel needs one or two more. What is launched is therefore the first of the model's candidates whose kernels the
// compiler keeps in registers; where that is not its first choice, the answer has both. Needs no GPU.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/answer/answer.hpp"
#include "model/answer/training/training.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

template <typename Candidate>
struct Confirmed {
  Candidate chosen;
  std::optional<Candidate> refused = {};  // the model's first choice, if the compiler spills it and another is taken
};

// `compile(candidate)`: the ResourceReport of its kernels. `next(candidate, report)`: what the model takes instead of
// one that spills, std::nullopt if there is nothing; then the first choice is left as it is.
template <typename Candidate, typename Compile, typename Next>
Confirmed<Candidate> confirm(const Candidate& first, const Compile& compile, Next next) {
  ResourceReport report = compile(first);
  if (!report.spills()) {
    return {first};
  }
  std::optional<Candidate> candidate = next(first, report);
  while (candidate) {
    report = compile(*candidate);
    if (!report.spills()) {
      return {std::move(*candidate), first};
    }
    candidate = next(*candidate, report);
  }
  return {first};
}

// choose_plan()'s plan of a recurrent network; where the compiler spills it, the fastest with 2 registers of a thread
// to spare, or 4, up to 8. Compiles for `architecture` ("sm_90"), or finds in the cache; what is no kernel, does not
// fit or does not compile is not refused here.
Confirmed<PlannedNetwork> confirmed_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                         const Constraints& constraints, const std::string& architecture);

// Likewise rank_families(): with registers to spare in all families.
Confirmed<std::vector<RankedPlan>> confirmed_ranking(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                                     const Constraints& constraints, const std::string& architecture);

// The model's plan for a layer that is trained by the kernels, before a compiler is asked. Throws DoesNotFit, with what
// it takes and what there is.
PlannedTraining planned_layer(const Chip& chip, const TrainingSize& size, Precision precision,
                              const SparseMatrix* mask = nullptr, Stash stash = Stash::gates);

// A training's plan on the chip: where the compiler spills a pass, with more of its weights in shared memory. Both
// passes are compiled side by side. `mask`: of a sparse one.
Confirmed<TrainingPlan> confirmed_plan(const Chip& chip, const TrainingSize& size, Precision precision,
                                       const SparseMatrix* mask, const TrainingPlan& plan,
                                       const std::string& architecture);

}  // namespace onchip
