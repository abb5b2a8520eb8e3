// SPDX-License-Identifier: Apache-2.0
#include "model/training/training_plan.hpp"

#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <type_traits>

namespace onchip {
namespace {

constexpr std::array kDenseFields{
    choice<&DenseTrainingPlan::stash>("stash", kStashNames), nested<&DenseTrainingPlan::forward>("forward"),
    nested<&DenseTrainingPlan::backward>("backward"), number<&DenseTrainingPlan::beside>("beside", 0, 1).usually(0),
    number<&DenseTrainingPlan::chunk>("chunk", 0, 1 << 30).usually(0)};
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
  const auto found = std::ranges::find(kStashNames, name);
  if (found == kStashNames.end()) {
    throw InputError("unknown stash '" + std::string(name) + "'" + did_you_mean(name, kStashNames));
  }
  return static_cast<Stash>(found - kStashNames.begin());
}

std::int64_t chunk_steps(const TrainingSize& size, const DenseTrainingPlan& plan) {
  // So many bytes of gates, and at least so many steps, for each chunk packs the weights and empties the ring anew.
  constexpr std::int64_t kBytes = 64 << 20, kFewest = 64;
  const std::int64_t usual = std::max(kFewest, kBytes / (8 * std::int64_t{size.batch} * size.hidden));
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
    recurrence_shape(size_of(training), dense->forward, false);
    recurrence_shape(size_of(training), dense->backward, true);
  }
}

}  // namespace onchip
