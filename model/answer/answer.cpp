// SPDX-License-Identifier: Apache-2.0
#include "model/answer/answer.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace onchip {
namespace {

bool fits(const Chip& chip, const Recurrent& network, const Constraints& constraints, MaskKind kind) {
  return any_plan_fits(chip, network, RowProfile::uniform(network, kind), constraints);
}

// The least n in (0, most] for which holds(n), which is monotonic but for ripples; 0 if holds(most) is false.
int least(int most, const std::function<bool(int)>& holds) {
  if (!holds(most)) {
    return 0;
  }
  int fails = 0, enough = most;
  while (enough - fails > 1) {
    const int middle = fails + (enough - fails) / 2;
    (holds(middle) ? enough : fails) = middle;
  }
  return enough;
}

// Chip numbers that only make sense together: the capacity of an SM and what one block may ask of it.
struct Knob {
  std::string_view key;
  std::vector<Number Chip::*> members;
};
const std::vector<Knob>& knobs() {
  static const std::vector<Knob> knobs{
      {"sm.count", {&Chip::sm_count}},
      {"registers.per_sm", {&Chip::registers_per_sm, &Chip::registers_per_block}},
      {"shared_memory.per_sm", {&Chip::smem_bytes_per_sm, &Chip::smem_bytes_per_block}},
  };
  return knobs;
}

// As the model expects, for a network that does not fit.
std::vector<Remedy> remedies(const Chip& chip, const PlannedNetwork& planned, int granule,
                             const Constraints& constraints, MaskKind kind) {
  const Recurrent& network = planned.network;
  if (footprint(chip, network, planned.plan).fits) {
    return {};  // it is the compiler that lacks registers, and the model knows not of what it would keep
  }
  std::vector<Remedy> found;
  if (const Capacity capacity = find_capacity(chip, network, granule, constraints, {}, kind);
      capacity.largest && capacity.largest->network.hidden < network.hidden) {
    const int hidden = capacity.largest->network.hidden;
    found.push_back({"hidden", static_cast<double>(network.hidden), static_cast<double>(hidden),
                     std::to_string(hidden) + " hidden units instead of " + std::to_string(network.hidden)});
  }
  constexpr int kSteps = 1000;
  const int sparser = least(kSteps - 1, [&](int step) {
    Recurrent changed = network;
    changed.density *= 1 - static_cast<double>(step) / kSteps;
    return fits(chip, changed, constraints, kind);
  });
  if (sparser > 0) {
    const double density = network.density * (1 - static_cast<double>(sparser) / kSteps);
    found.push_back({"density", network.density, rounded(density, 4),
                     "a density of " + significant(100 * density, 3) + " % instead of " +
                         significant(100 * network.density, 3) + " %"});
  }
  constexpr int kMostPercent = 700;  // up to 8 times as much
  for (const Knob& knob : knobs()) {
    const auto changed = [&](int percent) {
      Chip larger = chip;
      for (const auto member : knob.members) {
        (larger.*member).value = std::floor((larger.*member).value * (1 + percent / 100.0));
      }
      return larger;
    };
    const int percent = least(kMostPercent, [&](int more) { return fits(changed(more), network, constraints, kind); });
    if (percent > 0) {
      const double from = chip.*knob.members.front(), to = changed(percent).*knob.members.front();
      found.push_back({std::string(knob.key), from, to,
                       "a chip with " + std::to_string(percent) + " % more " + std::string(knob.key) + ": " +
                           format_number(to) + " instead of " + format_number(from)});
    }
  }
  return found;
}

// Of what does not stay on the chip: a library, or a plan that streams a part of the weights from L2.
PlannedNetwork quickest_instead(const Chip& chip, const Case& answer) {
  PlannedNetwork library = quickest_library(chip, answer.planned.network);
  Configuration asked = answer.configuration;
  asked.plan.reset();
  asked.constraints.tier = Tier::streamed;
  PlannedNetwork streamed = plan_network(chip, asked, row_profile(asked));
  const bool is_faster = streamed.prediction.footprint.fits && streamed.prediction.step_us < library.prediction.step_us;
  return is_faster ? streamed : library;
}

FitAnswer fit_largest(const Question& question, const Configuration& configuration, const Decide& decide) {
  const Chip& chip = question.chip.chip;
  const auto exact = [&](const Recurrent& network, const Constraints& constraints) -> PlannedNetwork {
    Configuration sized = configuration;
    sized.network = network;
    sized.constraints = constraints;
    return decide(chip, sized, row_profile(sized));
  };
  const MaskKind mask = expected_mask(configuration);
  const Capacity capacity =
      find_capacity(chip, configuration.network, question.granule, configuration.constraints, exact, mask);
  const auto found = [&](const PlannedNetwork& planned) { return Case{chip.name, configuration, {planned}}; };
  FitAnswer answer{found(capacity.largest ? *capacity.largest : capacity.next)};
  if (capacity.largest) {
    answer.next = found(capacity.next);
  }
  if (!capacity.next.prediction.footprint.fits) {
    answer.to_fit = remedies(chip, capacity.next, question.granule, configuration.constraints, mask);
  }
  return answer;
}

WhatIfSide side(const ChipFile& chip, const Configuration& configuration, int granule) {
  const Capacity capacity = find_capacity(chip.chip, configuration.network, granule, configuration.constraints, {},
                                          expected_mask(configuration));
  WhatIfSide side{{chip.chip.name, configuration, {}}, capacity.largest ? capacity.largest->network.hidden : 0};
  if (configuration.network.hidden == 0) {
    side.answer.planned = {capacity.largest ? *capacity.largest : capacity.next};
  } else {
    side.answer.planned = decided_by_model(chip.chip, configuration, row_profile(configuration));
  }
  return side;
}

}  // namespace

ChosenPlan decided_by_model(const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
  return {plan_network(chip, configuration, rows)};
}

FitAnswer fit(const Question& question, const Decide& decide) {
  const Chip& chip = question.chip.chip;
  Configuration configuration = question.configuration;
  configuration.constraints.tier = configuration.constraints.tier.value_or(Tier::shared_memory);
  if (configuration.network.hidden == 0) {
    return fit_largest(question, configuration, decide);
  }
  FitAnswer answer{{chip.name, configuration, decide(chip, configuration, row_profile(configuration))}};
  if (!answer.fits()) {
    if (!configuration.plan) {
      answer.to_fit = remedies(chip, answer.answer.planned, question.granule, configuration.constraints,
                               expected_mask(configuration));
    }
    answer.instead = quickest_instead(chip, answer.answer);
  }
  return answer;
}

PredictAnswer predict(const Question& question) {
  const Chip& chip = question.chip.chip;
  const Configuration& configuration = question.configuration;
  PredictAnswer answer{{chip.name, configuration, decided_by_model(chip, configuration, row_profile(configuration))}};
  const Prediction& prediction = answer.answer.planned.prediction;
  PlannedNetwork library = quickest_library(chip, answer.answer.planned.network);
  if (!prediction.footprint.fits || library.prediction.step_us < prediction.step_us) {
    answer.instead = std::move(library);
  }
  return answer;
}

std::vector<RankedPlan> rank_plans(const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
  if (const std::string_view family = configuration.family(); !family.empty()) {
    return {{find_family(family).name, plan_network(chip, configuration, rows), "asked for"}};
  }
  return rank_families(chip, configuration.network, rows, configuration.constraints);
}

RankAnswer rank(const Question& question) {
  const Configuration& configuration = question.configuration;
  RankAnswer answer{question.chip.chip.name, configuration,
                    rank_plans(question.chip.chip, configuration, row_profile(configuration))};
  answer.fits = std::ranges::any_of(answer.ranking, [](const RankedPlan& ranked) {
    return ranked.planned && is_on_chip(ranked.planned->plan) && ranked.planned->prediction.footprint.fits;
  });
  return answer;
}

WhatIfAnswer what_if(const Question& base, const std::optional<ChipFile>& changed) {
  const Configuration& configuration = base.configuration;
  WhatIfAnswer answer{side(base.chip, configuration, base.granule), {}, {}};
  if (changed) {
    answer.changed = side(*changed, configuration, base.granule);
  }
  Configuration found = configuration;
  found.network = answer.base.answer.planned.network;
  const RowProfile rows =
      configuration.network.hidden > 0 ? row_profile(found) : RowProfile::uniform(found.network, found.mask);
  answer.sensitivity = sensitivities(base.chip, found.network, rows, base.granule, configuration.constraints);
  return answer;
}

}  // namespace onchip
