// SPDX-License-Identifier: Apache-2.0
// Questions about training: how long does an iteration take, forward and all gradients, and what memory does it need;
// do the weights stay on the chip in both passes, and up to which size; what if the chip were another? The same of a
// stack without gradients: are all of its layers on the SMs at once? Every plan of a training is chosen here, for
// whoever prints, replays or launches it.
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"
#include "model/training/planner.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// ---- which plan? ----------------------------------------------------------------------------------------------------

// What is asked for of a plan; the planner chooses the rest.
struct TrainingConstraints {
  std::optional<std::string> family = {};   // by the name that a plan's text begins with
  std::optional<Stash> stash = {};          // none: the gates, but with memory_bytes the fastest that fits in these
  bool resident = false;                    // with Stash::none: all layers of the stack on the SMs at once
  int cell_layers = 0;                      // with a stash of gates, as DenseTrainingPlan::cell_layers
  std::optional<double> memory_bytes = {};  // of the device, beside the input and the weights
  std::optional<TrainingPlan> plan = {};    // a whole one
  PassFields fields = {};  // otherwise than in the plan that is given or chosen, which then stays on the chip
};

struct PlannedTraining {
  TrainingPlan plan;
  TrainingPrediction prediction;
};

// How far a library's price is off where the two are near each other: the chosen plan must not lose to it.
inline constexpr double kLibraryDoubt = 0.08;

// The plan that is asked for, else the fastest one on the chip, and cuDNN's where there is none and where the two
// prices are too close to tell. Throws InputError for a given plan or fields that cannot be built.
Found<PlannedTraining> plan_training(const Chip& chip, const Training& training,
                                     const TrainingConstraints& constraints = {});
// The same of the families that keep the weights on the chip, unless another is asked for: what fit and what-if ask,
// and what is replayed and launched.
Found<PlannedTraining> plan_training_on_chip(const Chip& chip, const Training& training,
                                             const TrainingConstraints& constraints = {});

// Of all stashes of a dense training, of mixes of them and of shorter chunks, with the recurrences of `chosen`: the one
// of the least time that fits in so much memory; where none does, that which needs the least.
PlannedTraining within_budget(const Chip& chip, const Training& training, const DenseTrainingPlan& chosen, double bytes,
                              bool may_replay = true, int length_bytes = 0);

// Microseconds of a call over all steps, with all gradients or, of inference, without: with the plan that is launched,
// and with cuDNN.
struct CallPrices {
  double own_us = 0, library_us = 0;
  bool takes_library() const { return own_us > (1 - kLibraryDoubt) * library_us; }
};
Found<CallPrices> call_prices(const Chip& chip, const Training& training, bool is_inference);

// The kernels' family for this training, cuDNN's and cuBLAS, the fastest first, then what has no plan: cuBLAS has none,
// for it computes the products alone. `stashes`: of the kernels' plans, one each, with its cell_layers.
struct AskedStash {
  std::optional<Stash> stash = {};
  int cell_layers = 0;
};
struct RankedTraining {
  std::string_view family;
  std::optional<PlannedTraining> planned;
  PhasePrice iteration;
  std::string why;  // "the fastest", "1.31 times as long"; or why there is no plan

  bool is_library() const { return family != DenseTrainingPlan::kName && family != SparseTrainingPlan::kName; }
  std::string_view library() const { return family == CudnnTrainingPlan::kName ? "cudnn" : family; }
  std::string_view computes() const { return planned ? "all of it" : "its products alone, without cells"; }
};
std::vector<RankedTraining> rank_trainings(const Chip& chip, const Training& training,
                                           const std::vector<AskedStash>& stashes = {{Stash::gates}},
                                           std::optional<double> memory_bytes = {});

// ---- questions ------------------------------------------------------------------------------------------------------

struct TrainingQuestion {
  ChipFile chip;
  Configuration configuration;  // network and mask
  Stack stack;
  TrainingConstraints constraints;
  int granule = 32;  // of hidden units, where sizes are sought
};

// What is trained, its mask generated. Throws InputError for a sparse network that has no kernels or more non-zeros
// than any chip holds.
Training training_of(const Configuration& configuration, const Stack& stack);

// With the chip's memory, less the input and the weights, where none is given.
TrainingConstraints with_memory_of(const Chip& chip, const Training& training, TrainingConstraints constraints);

// Of a stack without gradients that is to be on the SMs at once.
inline TrainingQuestion stack_question(const ChipFile& chip, const Configuration& configuration, const Stack& stack,
                                       int granule) {
  return {chip, configuration, stack, {.stash = Stash::none, .resident = true}, granule};
}

// An answer of a chip.
struct TrainingCase {
  static constexpr bool kHasSize = true;

  std::string chip;
  Training training;
  Found<PlannedTraining> planned = Found<PlannedTraining>::nothing("");
  bool is_resident = false;                       // it has no gradients, and all layers are to be on the SMs at once
  std::optional<PlannedTraining> otherwise = {};  // then the fastest, whatever layers are; where that is another plan
  bool fits() const { return planned && is_on_chip(planned->plan) && planned->prediction.footprint.fits; }
  std::string why_not() const;  // "" of what fits
};
PlanTime plan_time(const TrainingCase& answer);
inline const Recurrent& network_of(const TrainingCase& answer) {
  return answer.training.network;
}
// "lstm H=1024 B=64 fp16, 1 layer, ..., training on H200"; "..., all layers on the SMs of H200 at once"
std::string describe(const TrainingCase& answer);
const Columns<TrainingCase>& columns_of(const TrainingCase&);
inline Json to_json(const TrainingCase& answer) {
  return columns_of(answer).json(answer);
}

RankOf<TrainingCase> rank(const TrainingQuestion& question);

// An iteration with the chosen plan, and beside it what libraries and, where it is a library's, the kernels take.
struct TrainingAnswer : TrainingCase {
  std::vector<RankedTraining> ranking;
};
// Throws InputError where the network cannot be trained, or a given plan cannot be built for it.
TrainingAnswer predict_training(const ChipFile& chip, const Training& training,
                                const TrainingConstraints& constraints = {});
inline TrainingAnswer predict(const TrainingQuestion& question) {
  const Training training = training_of(question.configuration, question.stack);
  return predict_training(question.chip, training, with_memory_of(question.chip.chip, training, question.constraints));
}

// The largest of a number with which the weights stay on the chip, all others as they are.
struct TrainingLimit {
  std::string_view what;  // "hidden", "batch", "steps"; of a stack "layers", too
  int largest = 0;        // 0: not even the least does
  std::string why;        // the next does not
};
struct TrainingFit {
  TrainingCase answer;  // of the size that was asked for, or else of the largest
  std::vector<TrainingLimit> limits;
  std::optional<ReachedOf<TrainingCase>> to_fit = {};  // of what does not fit: the least of the chip's numbers

  bool is_yes() const { return answer.fits(); }
};
TrainingFit fit(const TrainingQuestion& question);
// The largest hidden size that fits alone; if none does, the least.
TrainingCase largest_training(const TrainingQuestion& question);

SideOf<TrainingCase> side_of(const ChipFile& chip, const TrainingQuestion& question);
AskedOfChips asked_of_chips(const TrainingQuestion& question, const SideOf<TrainingCase>& base, int granule);
TargetOf<TrainingCase> reach(const TrainingQuestion& question, const TargetQuestion& target);

Json to_json(const TrainingAnswer& answer);
Json to_json(const TrainingFit& answer);

}  // namespace onchip
