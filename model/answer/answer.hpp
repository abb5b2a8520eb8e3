// SPDX-License-Identifier: Apache-2.0
// From a question to an answer, both values: what the verbs print, what C and Python return. Here every plan is chosen
// and every price asked for. Nothing here knows files, terminals or processes.
#pragma once

#include "model/answer/capacity.hpp"
#include "model/answer/chip_changes.hpp"
#include "model/answer/configuration.hpp"
#include "model/chip/chip.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

struct Question {
  ChipFile chip;  // with its changes
  Configuration configuration;
  int granule = 32;  // of hidden units, where sizes are sought
};

struct ChosenPlan : PlannedNetwork {
  std::optional<RecurrentPlan> refused =
      {};  // the model's choice, if a compiler spills it and another plan is taken instead
};

// A network with the plan that was found for it.
struct Case {
  std::string chip;
  Configuration configuration;  // what was asked: mask and seed are from here
  ChosenPlan planned;           // what was found
};

// Whose word is the last about a plan: the model's, or that of a compiler beside it.
using Decide = std::function<ChosenPlan(const Chip&, const Configuration&, const RowProfile&)>;
ChosenPlan decided_by_model(const Chip& chip, const Configuration& configuration, const RowProfile& rows);

// ---- does it fit? ---------------------------------------------------------------------------------------------------

// One change that alone makes a network fit, which was tried; the next smaller one does not, but for ripples.
struct Remedy {
  std::string what;  // "hidden", "density", or a key of the chip
  double from = 0, to = 0;
  std::string option;  // "--hidden 5632", "--set 'shared_memory.per_sm=244 KiB'"
  std::string text;    // "5632 hidden units instead of 8192"
};

struct FitAnswer {
  Case answer;                      // the size that was asked for, or else the largest that fits
  std::optional<Case> next = {};    // beside the largest: the next granule, which does not fit
  std::vector<Remedy> to_fit = {};  // of what does not fit
  // The quickest way to compute what does not fit all the same; or one that streams weights, where that is quicker.
  std::optional<PlannedNetwork> instead = {};

  bool fits() const { return answer.planned.prediction.footprint.fits; }
};
// Without a hidden size the largest that fits is sought; if none does, the smallest is the answer. Unless asked
// otherwise, what fits stays in registers and shared memory.
FitAnswer fit(const Question& question, const Decide& decide = decided_by_model);
// That largest size alone, of the question's chip and granule.
Capacity largest_network(const Question& question, const Configuration& configuration,
                         const Decide& decide = decided_by_model);

// ---- how long does a step take? -------------------------------------------------------------------------------------

struct PredictAnswer {
  Case answer;
  std::optional<PlannedNetwork> instead = {};  // the fastest library, where it is quicker or the network does not fit
};
PredictAnswer predict(const Question& question);

// The best plan of every family, or of the one that is asked for, the fastest first, with why it is the answer or why
// it is not.
struct RankAnswer {
  std::string chip;
  Configuration configuration;
  std::vector<RankedPlan> ranking;
  bool fits = false;  // a plan that keeps the weights on the chip
};
RankAnswer rank(const Question& question);
std::vector<RankedPlan> rank_plans(const Chip& chip, const Configuration& configuration, const RowProfile& rows);

// ---- what if the chip were another? ---------------------------------------------------------------------------------

// One chip's answer: the network that was asked for, or the largest that fits where no size was given.
struct WhatIfSide {
  Case answer;
  int largest_hidden = 0;  // as fit() finds it
};
using WhatIfChange = ChangeOf<WhatIfSide>;
struct WhatIfAnswer : ComparedOf<WhatIfSide> {
  std::optional<std::vector<Sensitivity>> sensitivity = {};  // of the base
  std::optional<std::vector<OneMore>> one_more = {};         // of the base
};
// Ranking the chip's numbers takes the longest, and may be left out.
WhatIfAnswer what_if(const Question& base, const std::vector<std::string>& changes = {}, bool ranks_numbers = true);

std::optional<Interaction> interaction(const WhatIfAnswer& answer);

}  // namespace onchip
