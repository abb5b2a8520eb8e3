// SPDX-License-Identifier: Apache-2.0
#include "model/training/training_plan.hpp"

#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace onchip {
namespace {

bool has_forward(const DenseTrainingPlan& plan) {
  return !plan.stepwise;
}
bool has_backward(const DenseTrainingPlan& plan) {
  return plan.stash != Stash::none;
}
constexpr std::array kDenseFields{choice<&DenseTrainingPlan::stash>("stash", kStashNames),
                                  nested<&DenseTrainingPlan::forward, has_forward>("forward"),
                                  nested<&DenseTrainingPlan::backward, has_backward>("backward"),
                                  number<&DenseTrainingPlan::beside>("beside", 0, 1).usually(0),
                                  number<&DenseTrainingPlan::chunk>("chunk", 0, 1 << 30).usually(0),
                                  number<&DenseTrainingPlan::cell_layers>("cell_layers", 0, kMostLayers).usually(0),
                                  number<&DenseTrainingPlan::stepwise>("stepwise", 0, 1).usually(0)};
constexpr std::array kSparseFields{choice<&SparseTrainingPlan::stash>("stash", kStashNames),
                                   nested<&SparseTrainingPlan::forward>("forward"),
                                   nested<&SparseTrainingPlan::backward>("backward")};

}  // namespace

std::span<const Field<DenseTrainingPlan>> fields(const DenseTrainingPlan&) {
  return kDenseFields;
}

std::span<const Field<SparseTrainingPlan>> fields(const SparseTrainingPlan&) {
  return kSparseFields;
}

Stash parse_stash(std::string_view name) {
  const auto of_trainings = std::span(kStashNames).first<static_cast<std::size_t>(Stash::none)>();
  const auto found = std::ranges::find(of_trainings, name);
  if (found == of_trainings.end()) {
    throw InputError("unknown stash '" + std::string(name) + "'" + did_you_mean(name, of_trainings));
  }
  return static_cast<Stash>(found - of_trainings.begin());
}

DenseTrainingPlan of_layer(DenseTrainingPlan plan, int layer) {
  plan.stash = layer < plan.cell_layers ? Stash::cells : plan.stash;
  plan.cell_layers = 0;
  return plan;
}

std::int64_t chunk_steps(const TrainingSize& size, const DenseTrainingPlan& plan) {
  // So many bytes of gates, and at least so many steps, for each chunk packs the weights and empties the ring anew. A
  // replay has all layers' gates at once, and 6 bytes of a state behind each chunk beside 14 of each of its steps:
  // about sqrt(6 / 14 steps) need the least.
  constexpr std::int64_t kBytes = 64 << 20, kFewest = 64, kReplayedBytes = 16 << 20, kReplayedFewest = 16;
  const bool is_replay = plan.stash == Stash::replay;
  const std::int64_t of_bytes = (is_replay ? kReplayedBytes : kBytes) / (8 * std::int64_t{size.batch} * size.hidden);
  const std::int64_t usual =
      is_replay ? std::max({kReplayedFewest, of_bytes,
                            static_cast<std::int64_t>(std::sqrt(6.0 / 14 * static_cast<double>(size.steps)))})
                : std::max(kFewest, of_bytes);
  const std::int64_t most = size.length_bytes > 0 ? size.steps : plan.chunk > 0 ? plan.chunk : usual;
  const std::int64_t chunks = (size.steps + most - 1) / most;
  return (size.steps + chunks - 1) / chunks;  // of about the same size
}

bool is_on_chip(const TrainingPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.kIsOnChip; }, plan);
}

std::string_view family_name(const TrainingPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.kName; }, plan);
}

std::string to_string(const TrainingPlan& plan) {
  return plan_text_of(plan);
}

TrainingPlan parse_training_plan(std::string_view text) {
  if (text.starts_with("stash=")) {
    throw InputError("plan: a list of phases follows from the plan now: expected '" +
                     to_string(text.find(" library ") != std::string_view::npos  ? TrainingPlan(CudnnTrainingPlan{})
                               : text.find("samples=") != std::string_view::npos ? TrainingPlan(SparseTrainingPlan{})
                                                                                 : TrainingPlan(DenseTrainingPlan{})) +
                     "' with the fields of both recurrences in the brackets");
  }
  return parse_plan_of(std::type_identity<TrainingPlan>{}, text);
}

std::string pass_text(const TrainingPlan& plan, bool is_backward) {
  return std::visit(
      [&]<typename P>(const P& of_family) {
        if constexpr (P::kIsOnChip) {
          return fields_text(is_backward ? of_family.backward : of_family.forward);
        } else {
          return std::string();
        }
      },
      plan);
}

Found<SparseRecurrence> sparse_recurrence(const Chip& chip, const Training& training, const SparseRecurrencePlan& plan,
                                          bool is_backward) {
  return sparse_recurrence(size_of(training), training.network.precision, *training.mask, plan, is_backward,
                           static_cast<int>(chip.sm_count), static_cast<std::size_t>(chip.smem_bytes_per_block.value));
}

std::string why_no_replay(const Stack& stack) {
  return stack.bidirectional            ? "replays stacks of one direction, and this one has two"
         : stack.layers > kMostReplayed ? "replays stacks of " + std::to_string(kMostReplayed) + " layers at most"
                                        : "";
}

std::string way_text(const DenseTrainingPlan& plan) {
  const int layers = plan.forward.layers;
  return plan.stepwise ? "a launch for each step of a layer"
         : layers == 1 ? "one layer at a time"
                       : std::to_string(layers) + " layers on the SMs at once";
}

std::vector<LayerGroup> layer_groups(int layers, const DenseTrainingPlan& plan) {
  std::vector<LayerGroup> groups;
  for (int first = 0; first < layers; first += plan.forward.layers) {
    groups.push_back({first, std::min(plan.forward.layers, layers - first)});
  }
  return groups;
}

void check(const Training& training, const TrainingPlan& plan) {
  const auto refuse = [&](const std::string& why) {
    throw InputError("plan: " + std::string(family_name(plan)) + ' ' + why);
  };
  if (const auto* const sparse = std::get_if<SparseTrainingPlan>(&plan)) {
    if (!training.mask) {
      refuse("trains sparse networks, and this one is dense");
    }
    if (sparse->stash != Stash::gates) {
      refuse("has stash=gates only");
    }
  }
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan)) {
    if (training.mask) {
      refuse("trains dense networks, and this one is sparse");
    }
    if (dense->beside && training.stack.directions() == 1) {
      refuse("has both directions beside each other, and this network has one");
    }
    if (dense->cell_layers > 0 && (dense->stash != Stash::gates || dense->cell_layers > training.stack.layers)) {
      refuse("has cell_layers=" + std::to_string(dense->cell_layers) + ": so many of " +
             std::to_string(training.stack.layers) + " layers, and of a stash of gates");
    }
    if (dense->stash == Stash::replay && !why_no_replay(training.stack).empty()) {
      refuse(why_no_replay(training.stack));
    }
    if (dense->stash == Stash::none && training.stack.bidirectional) {
      refuse("has stacks of one direction, and this one has two");
    }
    if (dense->stash != Stash::none && dense->forward.layers > 1) {
      refuse("has several layers at once only where no backward follows");
    }
    if (dense->stash != Stash::none && !(is_of_trainings(dense->forward) && is_of_trainings(dense->backward))) {
      refuse("has 16 or 32 units on an SM, and interleaved=0, where a backward follows");
    }
    if (dense->stepwise && (dense->stash != Stash::none || training.network.batch > kMostOfSingleStep)) {
      refuse("has launches of a step each only where no backward follows, of at most " +
             std::to_string(kMostOfSingleStep) + " samples");
    }
    if (dense->stepwise) {
      return;
    }
    recurrence_shape(size_of(training), dense->forward, false);
    if (dense->stash != Stash::none) {
      recurrence_shape(size_of(training), dense->backward, true);
    }
  }
}

}  // namespace onchip
