// SPDX-License-Identifier: Apache-2.0
// onchip fit: does a network stay on the chip, and how large may it be?
#include "experiments/command/plan_options.hpp"
#include "experiments/command/report.hpp"
#include "experiments/command/verbs.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/runtime/compiler.hpp"
#endif

#include <algorithm>
#include <cmath>
#include <functional>

namespace onchip {
namespace {

OptionGroup fit_options() {
  OptionGroup group = option_group("Check");
  // clang-format off
  group.add_options()
      ("compile", "Let the compiler have the last word, for the chip's architecture as it is; no GPU is needed. Of plans "
       "that it spills, the next is taken that it keeps; where it keeps none, the network does not fit.");
  // clang-format on
  return group;
}

// The architecture whose compiler has the last word; "": the model has it.
std::string deciding_compiler([[maybe_unused]] const Chip& chip, bool compiles) {
  if (!compiles) {
    return "";
  }
#ifdef ONCHIP_HAS_CUDA
  if (chip.architecture.empty()) {
    throw InputError("no compiler target is known for the " + chip.name + ": leave --compile out");
  }
  return chip.architecture;
#else
  throw InputError("built without CUDA: --compile needs a CUDA toolkit when onchip is configured");
#endif
}

// Adds to an answer who compiled it.
void name_compiler([[maybe_unused]] Report& report, [[maybe_unused]] const Chip& chip) {
#ifdef ONCHIP_HAS_CUDA
  report.json["compiled"] = {{"architecture", chip.architecture}, {"compiler", compiler_version()}};
  report.text += "\nCompiled for " + chip.architecture + " by " + compiler_version() + ".\n";
#endif
}

// One change that alone makes a network fit.
struct Remedy {
  std::string what;  // "hidden", "density", or a key of the chip
  double from = 0, to = 0;
  std::string text;
};

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

Json to_json(const std::vector<Remedy>& remedies) {
  Json json = Json::array();
  for (const Remedy& remedy : remedies) {
    json.push_back({{"change", remedy.what}, {"from", rounded(remedy.from, 9)}, {"to", rounded(remedy.to, 9)}});
  }
  return json;
}

std::string to_text(const std::vector<Remedy>& remedies) {
  std::string text;
  for (const Remedy& remedy : remedies) {
    text += "  - " + remedy.text + '\n';
  }
  return text.empty() ? "" : "\nAny one of these makes it fit (expected row lengths):\n" + text;
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

Report report_one(const ChipFile& chip, const Case& answer, int granule) {
  const bool fits_now = answer.planned.prediction.footprint.fits;
  std::vector<Remedy> found;
  if (!fits_now && !answer.configuration.plan) {
    found = remedies(chip.chip, answer.planned, granule, answer.configuration.constraints,
                     expected_mask(answer.configuration));
  }
  Json json = to_json(answer, Binding::resource);
  json["to_fit"] = to_json(found);
  std::string text = std::string(fits_now ? "It fits: " : "It does not fit: ") + to_text(answer) + to_text(found);
  if (!fits_now) {
    const PlannedNetwork other = quickest_instead(chip.chip, answer);
    json["instead"] = instead_json(other);
    text += "\nThe quickest way to compute it all the same:\n  " + instead_text(other) + '\n';
  }
  return {std::move(text), {case_columns(), {case_cells(answer, Binding::resource)}}, std::move(json)};
}

Report report_capacity(const ChipFile& chip, const Configuration& configuration, const Capacity& capacity,
                       int granule) {
  const Case next{chip.chip.name, configuration, {capacity.next}};
  if (capacity.largest && capacity.next.prediction.footprint.fits) {  // the kernels' index, not the chip, is the limit
    const Case largest{chip.chip.name, configuration, {*capacity.largest}};
    return {"The largest that the kernels can index: " + to_text(largest),
            {case_columns(), {case_cells(largest, Binding::resource)}},
            to_json(largest, Binding::resource)};
  }
  const std::vector<Remedy> found =
      remedies(chip.chip, capacity.next, granule, configuration.constraints, expected_mask(configuration));
  const Footprint& over = capacity.next.prediction.footprint;
  const std::string reason = over.indexed_units > kMostIndexedUnits
                                 ? explain(over)
                                 : "does not fit: too little of " + std::string(info(over.binding).name);
  const std::string why = "H=" + std::to_string(capacity.next.network.hidden) + ' ' + reason + "\n\n" +
                          resources_text(over) + to_text(found);
  if (!capacity.largest) {
    Json json = to_json(next, Binding::resource);
    json["to_fit"] = to_json(found);
    return {"Not even " + why, {case_columns(), {case_cells(next, Binding::resource)}}, std::move(json)};
  }
  const Case largest{chip.chip.name, configuration, {*capacity.largest}};
  Json json = to_json(largest, Binding::resource);
  json["next"] = to_json(next, Binding::resource);
  json["next"]["to_fit"] = to_json(found);
  return {"The largest that fits: " + to_text(largest) + '\n' + why,
          {case_columns(), {case_cells(largest, Binding::resource)}},
          std::move(json)};
}

}  // namespace

int run_fit(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(verb, arguments,
                                     {chip_options(), network_options(), plan_options(), whole_plan_option(),
                                      granule_option(), fit_options(), output_options()});
  if (!options) {
    return 0;
  }
  const ChipFile chip = read_chip(*options);
  Configuration configuration = read_configuration(*options, /*needs_hidden=*/false);
  if (!configuration.constraints.tier) {  // what fits stays on the SMs; predict's plans may stream
    configuration.constraints.tier = Tier::shared_memory;
  }
  const int granule = read_granule(*options);
  const bool compiles = options->flag("compile");
  const std::string compiler = deciding_compiler(chip.chip, compiles);
  const auto write = [&](Report report, Output& output) {
    if (compiles) {
      name_compiler(report, chip.chip);
    }
    output.write(report);
  };
  if (configuration.network.hidden > 0) {
    Output output(*options);
    const Case answer{chip.chip.name, configuration,
                      plan_network(chip.chip, configuration, row_profile(configuration), compiler)};
    write(report_one(chip, answer, granule), output);
    return answer.planned.prediction.footprint.fits ? 0 : 1;
  }
  Output output(*options);
  const auto exact = [&](const Recurrent& network, const Constraints& constraints) -> PlannedNetwork {
    Configuration sized = configuration;
    sized.network = network;
    sized.constraints = constraints;
    return plan_network(chip.chip, sized, row_profile(sized), compiler);
  };
  const Capacity capacity = find_capacity(chip.chip, configuration.network, granule, configuration.constraints, exact,
                                          expected_mask(configuration));
  write(report_capacity(chip, configuration, capacity, granule), output);
  return capacity.largest ? 0 : 1;
}

}  // namespace onchip
