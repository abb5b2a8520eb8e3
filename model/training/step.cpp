// SPDX-License-Identifier: Apache-2.0
#include "model/training/step.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/plan/planner.hpp"
#include "model/training/price.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace onchip {

// ---- the plan of a step ---------------------------------------------------------------------------------------------

namespace {

struct PlannedRecurrence {
  Plan plan;
  int turns = 1;
  double step_us = 0;
};

// The quickest dense plan of a pass on a share of the SMs, in the fewest turns with which one fits.
std::optional<PlannedRecurrence> recurrence_on(Chip chip, Recurrent network, Pass pass, int share) {
  constexpr int kMostTurns = 16;
  chip.sm_count.value = static_cast<double>(static_cast<int>(chip.sm_count) / share);
  chip.cluster_usable_sms.value = static_cast<double>(static_cast<int>(chip.cluster_usable_sms) / share);
  const RowProfile rows = RowProfile::uniform(network);  // all rows are full
  network.pass = pass;
  Constraints constraints;
  constraints.family = DensePlan::kName;
  fix<&DensePlan::storage>(constraints, Storage::dense);
  for (int turns = 1; turns <= kMostTurns && network.batch % turns == 0; turns *= 2) {
    Recurrent of_turn = network;
    of_turn.batch /= turns;
    try {
      const PlannedNetwork planned = choose_plan(chip, of_turn, rows, constraints);
      if (planned.prediction.footprint.fits) {
        return PlannedRecurrence{planned.plan, turns, step_us(planned.prediction, turns)};
      }
    } catch (const InputError&) {  // no candidate
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// The same of all directions: one after another, or beside each other on a share of the SMs each.
struct Recurrences {
  PlannedRecurrence each;
  bool beside = false;
  int of_sms = 0;
};
std::optional<Recurrences> recurrences(const Chip& chip, const Training& training, Pass pass) {
  const int directions = training.stack.directions();
  const auto alone = recurrence_on(chip, training.network, pass, 1);
  const auto shared = directions > 1 ? recurrence_on(chip, training.network, pass, directions) : std::nullopt;
  if (shared && (!alone || shared->step_us < directions * alone->step_us)) {
    return Recurrences{*shared, true, static_cast<int>(chip.sm_count) / directions};
  }
  return alone ? std::optional(Recurrences{*alone}) : std::nullopt;
}

}  // namespace

TrainingStep library_step() {
  return {Stash::gates, {{.kind = PhaseKind::library, .how = Plan(CudnnPlan{})}}};
}

TrainingStep plan_training(const Chip& chip, const Training& training, Stash stash) {
  const Recurrent& network = training.network;
  if (network.density < 1) {
    throw InputError("training of sparse networks is not built yet: leave --density out");
  }
  const auto forward = recurrences(chip, training, Pass::forward);
  const auto backward = recurrences(chip, training, Pass::backward);
  if (!forward || !backward || info(network.cell).gates == 1) {
    return library_step();
  }
  const Stack& stack = training.stack;
  const std::int64_t samples = std::int64_t{network.steps} * network.batch, hidden = network.hidden;
  const std::int64_t rows = network.rows();
  TrainingStep step{stash, {}};
  const auto product = [&](PhaseKind kind, int layer, int direction, std::int64_t of_rows, std::int64_t columns,
                           std::int64_t depth) {
    step.phases.push_back({.kind = kind,
                           .layer = layer,
                           .reversed = direction == 1,
                           .how = ProductSize{of_rows, columns, depth, network.precision}});
  };
  const auto recurrence = [&](PhaseKind kind, int layer, const Recurrences& how) {
    for (int direction = 0; direction < stack.directions(); ++direction) {
      step.phases.push_back(
          {kind, layer, direction == 1, how.beside && direction > 0, how.of_sms, how.each.turns, how.each.plan});
    }
  };
  step.phases.push_back(
      {.kind = PhaseKind::packing, .how = Packing{2 * rows * hidden * stack.layers * stack.directions()}});
  for (int layer = 0; layer < stack.layers; ++layer) {
    for (int direction = 0; direction < stack.directions(); ++direction) {
      product(PhaseKind::input_product, layer, direction, rows, samples, stack.columns(network, layer));
    }
    recurrence(PhaseKind::forward, layer, *forward);
  }
  for (int layer = stack.layers; layer-- > 0;) {
    const std::int64_t columns = stack.columns(network, layer);
    for (int direction = 0; stash == Stash::cells && direction < stack.directions(); ++direction) {
      product(PhaseKind::gates_product, layer, direction, rows, samples, columns + hidden);
    }
    recurrence(PhaseKind::backward, layer, *backward);
    for (int direction = 0; direction < stack.directions(); ++direction) {
      product(PhaseKind::data_product, layer, direction, columns, samples, rows);
      product(PhaseKind::weight_product, layer, direction, rows, columns, samples);
      // Of a GRU, the last gate's gradients for W are others than those for W_ih.
      const std::int64_t apart = network.cell == Cell::gru ? hidden : 0;
      product(PhaseKind::weight_product, layer, direction, rows - apart, hidden, samples);
      if (apart > 0) {
        product(PhaseKind::weight_product, layer, direction, apart, hidden, samples);
      }
    }
  }
  return step;
}

void check(const Training& training, const TrainingStep& step) {
  for (const Phase& phase : step.phases) {
    const Plan* plan = std::get_if<Plan>(&phase.how);
    if (phase.layer >= training.stack.layers || (phase.reversed && !training.stack.bidirectional)) {
      throw InputError("training step: " + std::string(name(phase.kind)) + " of layer " + std::to_string(phase.layer) +
                       (phase.reversed ? " reversed" : "") + ", which the network has not");
    }
    if (training.network.batch % phase.turns != 0) {
      throw InputError("training step: expected turns that divide the batch of " +
                       std::to_string(training.network.batch) + ", found " + std::to_string(phase.turns));
    }
    if (plan != nullptr && phase.kind != PhaseKind::library) {
      if (!std::holds_alternative<DensePlan>(*plan)) {
        throw InputError("training step: " + std::string(name(phase.kind)) + " takes a plan of " +
                         std::string(DensePlan::kName) + ", found " + std::string(family_name(*plan)));
      }
      Recurrent of_turn = training.network;
      of_turn.batch /= phase.turns;
      of_turn.pass = phase.kind == PhaseKind::forward ? Pass::forward : Pass::backward;
      check_plan(of_turn, *plan);
    }
  }
}

// ---- as text --------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kSeparator = " | ";
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

std::string to_string(const Phase& phase) {
  std::string text(name(phase.kind));
  const auto add = [&](std::string_view field, std::int64_t value) {
    text += ' ' + std::string(field) + '=' + std::to_string(value);
  };
  if (phase.kind != PhaseKind::packing && phase.kind != PhaseKind::library) {
    add("layer", phase.layer);
  }
  text += phase.reversed ? " reversed" : "";
  text += phase.beside ? " beside" : "";
  if (phase.of_sms > 0) {
    add("of_sms", phase.of_sms);
  }
  if (phase.turns > 1) {
    add("turns", phase.turns);
  }
  return text + ' ' + how_text(phase);
}

// The next word of a text, which loses it.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

// `layer=3` of the name "layer".
std::optional<std::int64_t> number(std::string_view word, std::string_view field) {
  if (!word.starts_with(field) || word.substr(field.size()).substr(0, 1) != "=") {
    return std::nullopt;
  }
  const std::string_view digits = word.substr(field.size() + 1);
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc{} || end != digits.data() + digits.size() || value < 0 || value > kMostElements) {
    throw InputError("training step: found " + in_quotes(word) + ": expected a whole number");
  }
  return value;
}

template <std::size_t size>
std::size_t place_of(std::string_view what, std::string_view word, const std::array<std::string_view, size>& names) {
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) {
    throw InputError("training step: unknown " + std::string(what) + ' ' + in_quotes(word) + did_you_mean(word, names));
  }
  return static_cast<std::size_t>(found - names.begin());
}

Phase parse_phase(std::string_view text) {
  Phase phase;
  phase.kind = static_cast<PhaseKind>(place_of("phase", take_word(text), kPhaseNames));
  const bool is_recurrence =
      phase.kind == PhaseKind::forward || phase.kind == PhaseKind::backward || phase.kind == PhaseKind::library;
  ProductSize size;
  Packing packing;
  while (!text.empty()) {
    std::string_view rest = text;
    const std::string_view word = take_word(rest);
    if (const auto layer = number(word, "layer")) {
      phase.layer = static_cast<int>(std::min<std::int64_t>(*layer, kMostLayers));
    } else if (const auto sms = number(word, "of_sms")) {
      phase.of_sms = static_cast<int>(std::min<std::int64_t>(*sms, kMostSms));
    } else if (const auto turns = number(word, "turns")) {
      phase.turns = static_cast<int>(std::clamp<std::int64_t>(*turns, 1, kMostTrainingSamples));
    } else if (word == "reversed") {
      phase.reversed = true;
    } else if (word == "beside") {
      phase.beside = true;
    } else if (is_recurrence) {
      break;
    } else if (const auto elements = number(word, "elements")) {
      packing.elements = *elements;
    } else if (const auto rows = number(word, "rows")) {
      size.rows = *rows;
    } else if (const auto columns = number(word, "columns")) {
      size.columns = *columns;
    } else if (const auto depth = number(word, "depth")) {
      size.depth = *depth;
    } else {
      size.precision = parse_precision(word);
    }
    text = rest;
  }
  if (is_recurrence) {
    phase.how = parse_plan(text);
  } else if (phase.kind == PhaseKind::packing) {
    phase.how = packing;
  } else {
    phase.how = size;
  }
  return phase;
}

}  // namespace

std::string how_text(const Phase& phase) {
  if (const auto* packing = std::get_if<Packing>(&phase.how)) {
    return "elements=" + std::to_string(packing->elements);
  }
  if (const auto* product = std::get_if<ProductSize>(&phase.how)) {
    return "rows=" + std::to_string(product->rows) + " columns=" + std::to_string(product->columns) +
           " depth=" + std::to_string(product->depth) + ' ' + std::string(info(product->precision).name);
  }
  return to_string(std::get<Plan>(phase.how));
}

std::string to_string(const TrainingStep& step) {
  std::string text = "stash=" + std::string(kStashNames[static_cast<std::size_t>(step.stash)]);
  for (const Phase& phase : step.phases) {
    text += std::string(kSeparator) + to_string(phase);
  }
  return text;
}

TrainingStep parse_training_step(std::string_view text) {
  constexpr std::string_view kStash = "stash=";
  TrainingStep step;
  const std::string_view first = text.substr(0, text.find(kSeparator));
  if (!first.starts_with(kStash)) {
    throw InputError("training step: found " + in_quotes(first) + ": expected 'stash=gates' or 'stash=cells' first");
  }
  step.stash = static_cast<Stash>(place_of("stash", first.substr(kStash.size()), kStashNames));
  text.remove_prefix(first.size());
  while (!text.empty()) {
    text.remove_prefix(kSeparator.size());
    const std::string_view phase = text.substr(0, text.find(kSeparator));
    step.phases.push_back(parse_phase(phase));
    text.remove_prefix(phase.size());
  }
  if (step.phases.empty()) {
    throw InputError("training step: expected phases behind the stash");
  }
  return step;
}

}  // namespace onchip
