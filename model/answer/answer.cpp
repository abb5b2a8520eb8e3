// SPDX-License-Identifier: Apache-2.0
#include "model/answer/answer.hpp"

#include "model/answer/case_columns.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/answer/least.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip_keys.hpp"
#include "model/plan/search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace onchip {
namespace {

std::optional<Remedy> smaller(const RecurrentQuestion& question, const Configuration& configuration) {
  const int hidden = configuration.network.hidden;
  Configuration any_size = configuration;
  any_size.network.hidden = 0;
  any_size.weights = nullptr;
  const Capacity capacity = largest_network(question, any_size, decided_by_model);
  if (!capacity.largest || capacity.largest->network.hidden >= hidden) {
    return std::nullopt;
  }
  const std::string value = std::to_string(capacity.largest->network.hidden);
  return Remedy{"hidden", static_cast<double>(hidden), static_cast<double>(capacity.largest->network.hidden),
                "--hidden " + value, value + " hidden units instead of " + std::to_string(hidden)};
}

// In three significant digits. The search goes by expected rows; its end is decided by the mask as it would be.
std::optional<Remedy> sparser(const RecurrentQuestion& question, const Configuration& configuration) {
  const Chip& chip = question.chip.chip;
  const MaskKind kind = expected_mask(configuration);
  const double density = configuration.network.density;
  const double unit = std::pow(10.0, std::floor(std::log10(density)) - 2);
  const int most = static_cast<int>(std::ceil(density / unit)) - 1;
  const auto at = [&](int steps) {  // fewer
    Configuration changed = configuration;
    changed.network.density = rounded((most - steps) * unit, 4);
    changed.weights = nullptr;
    changed.mask = kind == MaskKind::two_four ? kind : configuration.mask;
    return changed;
  };
  const Misses misses = [&](int fewer) {
    const Recurrent changed = at(fewer).network;
    return any_plan_fits(chip, changed, RowProfile::uniform(changed, kind), configuration.constraints) ? 0 : 1;
  };
  std::optional<int> steps = find_reach(-1, most - 1, misses, 2, 0).least;
  constexpr int kTries = 8;
  for (int tries = 0; steps && *steps < most; ++*steps, ++tries) {
    const Configuration changed = at(*steps);
    if (plan_network(chip, changed, row_profile(changed)).prediction.footprint.fits) {
      const std::string value = format_number(changed.network.density);
      return Remedy{"density", density, changed.network.density, "--density " + value,
                    "a density of " + significant(100 * changed.network.density, 3) + " % instead of " +
                        significant(100 * density, 3) + " %"};
    }
    if (tries == kTries) {
      break;
    }
  }
  return std::nullopt;
}

// In the steps that hardware can have.
std::optional<Remedy> larger(const RecurrentQuestion& question, const Configuration& configuration,
                             const RowProfile& rows, std::string_view name) {
  const Choices choice = choices(question.chip.chip, name);
  const Misses misses = [&](int at) {
    ChipFile changed = question.chip;
    set_chip_key(changed, choice.assignment(at));
    return any_plan_fits(changed.chip, configuration.network, rows, configuration.constraints) ? 0 : 1;
  };
  const auto found = find_reach(choice.now, choice.best, misses, 2, 0).least;
  if (!found) {
    return std::nullopt;
  }
  const double from = question.chip.chip.*choice.key->member, to = choice.value(*found);
  return Remedy{std::string(name), from, to, "--set '" + choice.assignment(*found) + "'",
                "a chip with " + fixed(100 * (to / from - 1), 0) + " % more " + std::string(name) + ": " +
                    format_quantity(to, choice.key->dimension) + " instead of " +
                    format_quantity(from, choice.key->dimension)};
}

// Each alone makes a network fit that does not, by the model.
std::vector<Remedy> remedies(const RecurrentQuestion& question, const Configuration& asked,
                             const PlannedNetwork& planned) {
  if (footprint(question.chip.chip, planned.network, planned.plan).fits) {
    return {};  // it is the compiler that lacks registers, and the model knows not of what it would keep
  }
  Configuration configuration = asked;
  configuration.network = planned.network;
  std::vector<Remedy> found;
  const auto add = [&](std::optional<Remedy> remedy) {
    if (remedy) {
      found.push_back(std::move(*remedy));
    }
  };
  if (asked.network.hidden > 0) {
    add(smaller(question, configuration));
  }
  add(sparser(question, configuration));
  const RowProfile rows = row_profile(configuration);
  for (const std::string_view key : kCapacityKeys) {
    add(larger(question, configuration, rows, key));
  }
  return found;
}

// The fastest plan that may stream a part of the weights from L2.
PlannedNetwork streamed(const Chip& chip, const RecurrentCase& answer) {
  Configuration asked = answer.configuration;
  asked.network = answer.planned.network;
  asked.plan.reset();
  asked.constraints.tier = Tier::streamed;
  return plan_network(chip, asked, row_profile(asked));
}

// What computes it instead: of what does not fit a library or a plan that streams, whichever is faster; of what fits
// such a plan, where it is clearly faster.
std::optional<PlannedNetwork> instead_of(const Chip& chip, const RecurrentCase& answer) {
  constexpr double kClearly = 0.99;
  PlannedNetwork other = streamed(chip, answer);
  const Prediction& prediction = answer.planned.prediction;
  if (prediction.footprint.fits) {
    const bool is_faster = other.prediction.step_us < kClearly * prediction.step_us;
    return is_faster && other.prediction.footprint.fits ? std::optional(std::move(other)) : std::nullopt;
  }
  PlannedNetwork library = fastest_library(chip, answer.planned.network);
  return other.prediction.footprint.fits && other.prediction.step_us < library.prediction.step_us ? other : library;
}

FitAnswer fit_largest(const RecurrentQuestion& question, const Configuration& configuration, const Decide& decide) {
  const Capacity capacity = largest_network(question, configuration, decide);
  const auto found = [&](const PlannedNetwork& planned) {
    return RecurrentCase{question.chip.chip.name, configuration, {planned}};
  };
  FitAnswer answer{found(capacity.largest ? *capacity.largest : capacity.next)};
  if (capacity.largest) {
    answer.next = found(capacity.next);
  }
  if (!capacity.next.prediction.footprint.fits) {
    answer.to_fit = remedies(question, configuration, capacity.next);
  }
  return answer;
}

}  // namespace

ChosenPlan decided_by_model(const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
  return {plan_network(chip, configuration, rows)};
}

Capacity largest_network(const RecurrentQuestion& question, const Configuration& configuration, const Decide& decide) {
  const auto exact = [&](const Recurrent& network, const Constraints& constraints) -> PlannedNetwork {
    Configuration sized = configuration;
    sized.network = network;
    sized.constraints = constraints;
    return decide(question.chip.chip, sized, row_profile(sized));
  };
  return find_capacity(question.chip.chip, configuration.network, question.granule, configuration.constraints, exact,
                       expected_mask(configuration));
}

FitAnswer fit(const RecurrentQuestion& question, const Decide& decide) {
  const Chip& chip = question.chip.chip;
  Configuration configuration = question.configuration;
  configuration.constraints.tier = configuration.constraints.tier.value_or(Tier::shared_memory);
  if (configuration.network.hidden == 0) {
    return fit_largest(question, configuration, decide);
  }
  FitAnswer answer{{chip.name, configuration, decide(chip, configuration, row_profile(configuration))}};
  if (!answer.is_yes() && !configuration.plan) {
    answer.to_fit = remedies(question, configuration, answer.answer.planned);
  }
  if (!answer.is_yes() || !configuration.plan) {
    answer.instead = instead_of(chip, answer.answer);
  }
  return answer;
}

PredictAnswer predict(const RecurrentQuestion& question) {
  const Chip& chip = question.chip.chip;
  const Configuration& configuration = question.configuration;
  PredictAnswer answer{{chip.name, configuration, decided_by_model(chip, configuration, row_profile(configuration))}};
  const Prediction& prediction = answer.answer.planned.prediction;
  PlannedNetwork library = fastest_library(chip, answer.answer.planned.network);
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

RankOf<RecurrentCase> rank(const RecurrentQuestion& question) {
  const Configuration& configuration = question.configuration;
  const Chip& chip = question.chip.chip;
  RankOf<RecurrentCase> answer{chip.name, describe(configuration.network) + " on " + chip.name,
                               to_json(configuration.network)};
  for (RankedPlan& ranked : rank_plans(chip, configuration, row_profile(configuration))) {
    RankedOf<RecurrentCase>& one = answer.ranking.emplace_back();
    one.family = ranked.family;
    one.why = std::move(ranked.why);
    if (ranked.planned) {
      one.is_on_chip = is_on_chip(ranked.planned->plan);
      one.answer = {chip.name, configuration, {std::move(*ranked.planned)}};
      answer.has_fitting |= one.answer->fits();
    }
  }
  return answer;
}

// ---- what if the chip were another? ---------------------------------------------------------------------------------

SideOf<RecurrentCase> side_of(const ChipFile& chip, const RecurrentQuestion& question) {
  const Configuration& configuration = question.configuration;
  RecurrentQuestion of_chip = question;
  of_chip.chip = chip;
  Configuration any_size = configuration;
  any_size.network.hidden = 0;
  any_size.weights = nullptr;
  any_size.constraints.tier = any_size.constraints.tier.value_or(Tier::shared_memory);
  const Capacity capacity = largest_network(of_chip, any_size, decided_by_model);
  SideOf<RecurrentCase> side{{chip.chip.name, configuration, {}},
                             capacity.largest ? capacity.largest->network.hidden : 0};
  if (configuration.network.hidden == 0) {
    side.planned = {capacity.largest ? *capacity.largest : capacity.next};
  } else {
    side.planned = decided_by_model(chip.chip, configuration, row_profile(configuration));
  }
  return side;
}

AskedOfChips asked_of_chips(const RecurrentQuestion& question, const RecurrentCase& base, int granule) {
  Configuration found = question.configuration;
  found.network = base.planned.network;
  const RowProfile rows =
      question.configuration.network.hidden > 0 ? row_profile(found) : RowProfile::uniform(found.network, found.mask);
  return asked_of_chips(found.network, rows, granule, found.constraints);
}

namespace {

// The network of the target.
Configuration sized(const RecurrentQuestion& question, const Target& target) {
  Configuration configuration = question.configuration;
  take_hidden(configuration.network, target);
  if (!target.step_us || target.hidden > 0) {  // to fit is to stay on the SMs, as fit says
    configuration.constraints.tier = configuration.constraints.tier.value_or(Tier::shared_memory);
  }
  check(configuration);
  return configuration;
}

}  // namespace

TargetOf<RecurrentCase> reach(const RecurrentQuestion& question, const TargetQuestion& asked) {
  const Configuration configuration = sized(question, asked.target);
  const RowProfile rows = row_profile(configuration);
  const std::optional<double> step_us = asked.target.step_us;
  const auto misses = [&](const ChipFile& file) {
    const Chip& chip = file.chip;
    const Prediction prediction =
        step_us || configuration.plan
            ? plan_network(chip, configuration, rows).prediction
            : choose_plan(chip, configuration.network, rows, configuration.constraints, Effort::whether_fits)
                  .prediction;
    return !prediction.footprint.fits ? kDoesNotFit * std::max(1.0, overload(prediction.footprint))
           : step_us                  ? prediction.step_us / *step_us - 1
                                      : 0;
  };
  const ReachedOf<ChipFile> found = find_least({question.chip, asked.vary_or(kCapacityKeys), asked.prices, misses});
  return {with_answers<RecurrentCase>(
              found,
              [&](const ChipFile& chip) {
                return RecurrentCase{chip.chip.name, configuration, decided_by_model(chip.chip, configuration, rows)};
              }),
          asked.target};
}

}  // namespace onchip
