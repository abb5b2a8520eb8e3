// SPDX-License-Identifier: Apache-2.0
#include "model/training/step.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/training/price.hpp"
#include "model/training/recurrence_price.hpp"
#include "model/training/sparse_price.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace onchip {

// ---- the plan of a step ---------------------------------------------------------------------------------------------

namespace {

// Of all directions of a layer: one after another, or beside each other on a share of the SMs each.
struct Recurrences {
  std::variant<RecurrencePlan, SparseTrainingPlan> plan;
  bool beside = false;
  int of_sms = 0;
};
Recurrences recurrences(const Chip& chip, const Training& training, bool is_backward) {
  if (training.mask) {
    return {choose_sparse_recurrence(chip, training, is_backward).plan};
  }
  const TrainingSize size = size_of(training);
  const int directions = training.stack.directions();
  const RecurrencePlan alone = choose_recurrence(chip, size, is_backward);
  if (directions == 1) {
    return {alone};
  }
  const auto us = [&](const RecurrencePlan& plan) {
    return recurrence_price(chip, size, plan, is_backward).terms.total();
  };
  try {
    const RecurrencePlan shared = choose_recurrence(chip, size, is_backward, directions);
    if (us(shared) < directions * us(alone)) {
      return {shared, true, static_cast<int>(chip.sm_count) / directions};
    }
  } catch (const InputError&) {  // they do not fit beside each other
  }
  return {alone};
}

// Why there are no kernels, or nothing.
std::string what_lacks(const Chip& chip, const Training& training) {
  constexpr int kAmpere = 8;
  const Recurrent& network = training.network;
  if (training.mask && !what_lacks_sparse(training).empty()) {
    return what_lacks_sparse(training);
  }
  if (info(network.cell).gates == 1) {
    return "there are training kernels for the LSTM and the GRU, not for '" + std::string(info(network.cell).name) +
           "'";
  }
  if (network.precision != Precision::fp16 && network.precision != Precision::bf16) {
    return "the chip trains in fp16 and bf16, not in '" + std::string(info(network.precision).name) + "'";
  }
  return chip.compute_capability_major < kAmpere ? "the " + chip.name + " has no tensor cores for these kernels" : "";
}

}  // namespace

std::string what_lacks_sparse(const Training& training) {
  const Recurrent& network = training.network;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  return network.cell != Cell::lstm || !is_16_bit || training.stack.layers * training.stack.directions() > 1
             ? "a sparse network is trained as one layer and direction of an LSTM in fp16 or bf16"
             : "";
}

TrainingSize size_of(const Training& training, int layer) {
  const Recurrent& network = training.network;
  return {training.stack.columns(network, layer), network.hidden, network.batch, network.steps, network.cell};
}

SparseRecurrence sparse_recurrence(const Chip& chip, const Training& training, const SparseTrainingPlan& plan,
                                   bool is_backward) {
  return sparse_recurrence(size_of(training), training.network.precision, *training.mask, plan, is_backward,
                           static_cast<int>(chip.sm_count), static_cast<std::size_t>(chip.smem_bytes_per_block.value));
}

SparseRecurrence choose_sparse_recurrence(const Chip& chip, const Training& training, bool is_backward) {
  return choose_sparse_recurrence(chip, size_of(training), training.network.precision, *training.mask, is_backward);
}

TrainingStep library_step() {
  return {Stash::gates, {{.kind = PhaseKind::library, .how = Plan(CudnnPlan{})}}};
}

TrainingStep plan_training(const Chip& chip, const Training& training, Stash stash) {
  try {
    TrainingStep own = own_step(chip, training, stash);
    const TrainingStep library = library_step();
    const double library_us = price(chip, training, library).us;
    return price(chip, training, own).us <= (1 - kLibraryDoubt) * library_us ? own : library;
  } catch (const InputError&) {
    return library_step();
  }
}

TrainingStep own_step(const Chip& chip, const Training& training, Stash stash) {
  const Recurrent& network = training.network;
  if (const std::string lacks = what_lacks(chip, training); !lacks.empty()) {
    throw InputError(lacks);
  }
  const Recurrences forward = recurrences(chip, training, false), backward = recurrences(chip, training, true);
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
      step.phases.push_back({kind, layer, direction == 1, how.beside && direction > 0, how.of_sms, {}});
      std::visit([&](const auto& plan) { step.phases.back().how = plan; }, how.plan);
    }
  };
  const std::int64_t weights = training.mask ? training.mask->nnz() : rows * hidden;
  step.phases.push_back({.kind = PhaseKind::packing, .how = Packing{2 * weights * stack.layers * stack.directions()}});
  for (int layer = 0; layer < stack.layers; ++layer) {
    for (int direction = 0; direction < stack.directions(); ++direction) {
      product(PhaseKind::input_product, layer, direction, rows, samples, stack.columns(network, layer));
    }
    recurrence(PhaseKind::forward, layer, forward);
  }
  for (int layer = stack.layers; layer-- > 0;) {
    const std::int64_t columns = stack.columns(network, layer);
    for (int direction = 0; stash == Stash::cells && direction < stack.directions(); ++direction) {
      product(PhaseKind::gates_product, layer, direction, rows, samples, columns + hidden);
    }
    recurrence(PhaseKind::backward, layer, backward);
    for (int direction = 0; direction < stack.directions(); ++direction) {
      product(PhaseKind::data_product, layer, direction, columns, samples, rows);
      product(PhaseKind::weight_product, layer, direction, rows, columns, samples);
      // Of a GRU, the last gate's gradients for W are others than those for W_ih.
      const std::int64_t apart = network.cell == Cell::gru ? hidden : 0;
      product(PhaseKind::weight_product, layer, direction, rows - apart, hidden, samples);
      if (apart > 0) {
        product(PhaseKind::weight_product, layer, direction, apart, hidden, samples);
      }
      if (training.mask) {
        step.phases.push_back({.kind = PhaseKind::gradient_mask, .layer = layer, .how = Packing{rows * hidden}});
      }
    }
  }
  return step;
}

TrainingStep with_plans(TrainingStep step, const std::string& forward, const std::string& backward) {
  for (Phase& phase : step.phases) {
    const std::string& words = phase.kind == PhaseKind::forward ? forward : backward;
    if (std::holds_alternative<RecurrencePlan>(phase.how)) {
      phase.how = changed(RecurrencePlan{}, words);
    } else if (std::holds_alternative<SparseTrainingPlan>(phase.how)) {
      phase.how = changed(SparseTrainingPlan{}, words);
    }
  }
  return step;
}

void check(const Training& training, const TrainingStep& step) {
  for (const Phase& phase : step.phases) {
    if (phase.layer >= training.stack.layers || (phase.reversed && !training.stack.bidirectional)) {
      throw InputError("training step: " + std::string(name(phase.kind)) + " of layer " + std::to_string(phase.layer) +
                       (phase.reversed ? " reversed" : "") + ", which the network has not");
    }
    const auto* const dense = std::get_if<RecurrencePlan>(&phase.how);
    if ((dense != nullptr && training.mask) ||
        (std::holds_alternative<SparseTrainingPlan>(phase.how) && !training.mask)) {
      throw InputError(
          "training step: " + std::string(name(phase.kind)) + " of a " +
          (training.mask ? "dense network, and this one is sparse" : "sparse network, and this one is dense"));
    }
    if (dense != nullptr) {
      recurrence_shape(size_of(training, phase.layer), *dense, phase.kind == PhaseKind::backward);
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
  if (phase.kind == PhaseKind::library) {
    phase.how = parse_plan(text);
  } else if (is_recurrence) {
    if (text.empty()) {
      throw InputError("training step: expected the plan of a recurrence, such as '" + onchip::text(RecurrencePlan{}) +
                       "'");
    }
    if (text.find("samples=") != std::string_view::npos) {
      phase.how = changed(SparseTrainingPlan{}, std::string(text));
    } else {
      phase.how = changed(RecurrencePlan{}, std::string(text));
    }
  } else if (phase.kind == PhaseKind::packing || phase.kind == PhaseKind::gradient_mask) {
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
  if (const auto* recurrence = std::get_if<RecurrencePlan>(&phase.how)) {
    return text(*recurrence);
  }
  if (const auto* sparse = std::get_if<SparseTrainingPlan>(&phase.how)) {
    return text(*sparse);
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
