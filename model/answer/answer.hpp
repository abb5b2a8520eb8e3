// SPDX-License-Identifier: Apache-2.0
// Questions about a step of a recurrent network, and their answers, both values: what the verbs print, what C and
// Python return. Nothing here knows files, terminals or processes. The forms of answers are those of all workloads.
#pragma once

#include "model/answer/capacity.hpp"
#include "model/answer/configuration.hpp"
#include "model/answer/forms.hpp"
#include "model/chip/chip.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

struct RecurrentQuestion {
  ChipFile chip;  // with its changes
  Configuration configuration;
  int granule = 32;  // of hidden units, where sizes are sought
};

struct ChosenPlan : PlannedNetwork {
  // The model's choice, if a compiler spills it and another plan is taken instead.
  std::optional<RecurrentPlan> refused = {};
};

// A network with the plan that was found for it.
struct RecurrentCase {
  static constexpr bool kHasSize = true;

  std::string chip;
  Configuration configuration;  // what was asked: mask and seed are from here
  ChosenPlan planned;           // what was found

  bool runs() const { return planned.prediction.footprint.fits; }      // and has a time
  bool fits() const { return runs() && keeps_weights(planned.plan); }  // weights stay on the chip
  std::string_view tier() const { return is_on_chip(planned.plan) ? name(tier_of(planned.plan)) : ""; }
};
inline PlanTime plan_time(const RecurrentCase& answer) {
  return plan_time(answer.planned);
}
inline const Recurrent& network_of(const RecurrentCase& answer) {
  return answer.planned.network;
}

// Whose word is the last about a plan: the model's, or that of a compiler beside it.
using Decide = std::function<ChosenPlan(const Chip&, const Configuration&, const RowProfile&)>;
ChosenPlan decided_by_model(const Chip& chip, const Configuration& configuration, const RowProfile& rows);

// ---- does it fit? ---------------------------------------------------------------------------------------------------

struct FitAnswer {
  RecurrentCase answer;                    // the size that was asked for, or else the largest that fits
  std::optional<RecurrentCase> next = {};  // beside the largest: the next granule, which does not fit
  std::vector<Remedy> to_fit = {};         // of what does not fit
  // The fastest way to compute what does not fit all the same; or one that streams weights, where that is faster.
  std::optional<PlannedNetwork> instead = {};

  bool is_yes() const { return answer.fits(); }
};
// Without a hidden size the largest that fits is sought; if none does, the smallest is the answer. Where it is asked
// for (--tier streamed), weights may be streamed: then the largest that runs.
FitAnswer fit(const RecurrentQuestion& question, const Decide& decide = decided_by_model);
// That largest size alone, of the question's chip and granule.
Capacity largest_network(const RecurrentQuestion& question, const Configuration& configuration,
                         const Decide& decide = decided_by_model);

// ---- how long does a step take? -------------------------------------------------------------------------------------

struct PredictAnswer {
  RecurrentCase answer;
  std::optional<PlannedNetwork> instead = {};  // the fastest library, where it is faster or no plan runs

  bool is_yes() const { return answer.runs(); }  // a time is the answer
};
PredictAnswer predict(const RecurrentQuestion& question);

// Of every family, or of the one that is asked for.
RankOf<RecurrentCase> rank(const RecurrentQuestion& question);
std::vector<RankedPlan> rank_plans(const Chip& chip, const Configuration& configuration, const RowProfile& rows);

// ---- what if the chip were another? ---------------------------------------------------------------------------------

// As fit and predict answer: of the network that was asked for, or the largest that fits where no size was given.
SideOf<RecurrentCase> side_of(const ChipFile& chip, const RecurrentQuestion& question);
AskedOfChips asked_of_chips(const RecurrentQuestion& question, const RecurrentCase& base, int granule);

// The least that a chip must have for a network to fit, or for a step to take no longer. Throws InputError.
TargetOf<RecurrentCase> reach(const RecurrentQuestion& question, const TargetQuestion& target);

}  // namespace onchip
