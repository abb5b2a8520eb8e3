// SPDX-License-Identifier: Apache-2.0
#include "model/training/planner.hpp"

#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace onchip {

// ---- a pass ---------------------------------------------------------------------------------------------------------

namespace {

// Steps from emptying a word of the ring to publishing there: fences are fewer the more there are, and a ring that L2
// cannot hold beside the gates is slower. Four are the least.
int steps_ahead(const TrainingSize& size, RecurrencePlan plan, bool is_backward) {
  constexpr std::size_t kLargeRing = 4u << 20;
  plan.ahead = 16;
  for (std::size_t most = kLargeRing; plan.ahead > 4 && recurrence_shape(size, plan, is_backward).ring_bytes > most;
       most = 4 * kLargeRing) {
    plan.ahead /= 2;
  }
  return plan.ahead;
}

// Polls that find nothing make those that would find something wait, the longer the larger the state. Of an SM that has
// one sub-batch.
int poll_delay(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  constexpr int kFewSamples = 16;
  constexpr double kDelayBytes = 205, kLeast = 160, kMost = 320;
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  if (!is_backward || plan.sub_batches > 1 || shape.samples > kFewSamples) {
    return 0;
  }
  return static_cast<int>(std::clamp(64.0 * shape.spans * shape.samples / kDelayBytes, kLeast, kMost));
}

}  // namespace

bool has_tensor_cores(const Chip& chip) {
  constexpr int kAmpere = 8;
  return chip.compute_capability_major >= kAmpere;
}

Found<std::vector<RecurrencePlan>> rank_recurrences(const Chip& chip, const TrainingSize& size, bool is_backward,
                                                    int share, std::size_t most, int layers) {
  struct Warps {
    int warps, warp_groups;
  };
  constexpr std::array<Warps, 4> kWarps{{{8, 1}, {16, 1}, {4, 2}, {8, 2}}};
  constexpr int kMostSubBatches = 64, kMostOfSubBatch = 64;
  const int sms = static_cast<int>(chip.sm_count) / share;
  const auto shared_bytes = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  const auto registers = static_cast<int>(chip.registers_per_block);
  const bool has_clusters = chip.cluster_sms >= 4;
  struct Priced {
    RecurrencePlan plan;
    double us;
  };
  std::vector<Priced> best;  // of each division of the work
  std::string refusal;
  const auto consider = [&](RecurrencePlan plan) {
    plan.layers = std::max(1, layers);
    const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
    plan.interleaved = layers > 0 && items_of_thread(shape.samples, plan) > 1 ? 1 : 0;
    plan.ahead = steps_ahead(size, plan, is_backward);
    plan.poll_delay = poll_delay(size, plan, is_backward);
    const Found<RecurrencePlan> fitting = with_room(size, plan, is_backward, sms, shared_bytes, registers);
    if (!fitting) {
      refusal = refusal.empty() ? fitting.why() : refusal;
      return;
    }
    const double us = recurrence_price(chip, size, *fitting, is_backward).terms.total();
    const auto division = [](const RecurrencePlan& of) {
      return std::tuple(of.units, of.split, of.batch_groups, of.sub_batches, of.launches);
    };
    const auto same =
        std::ranges::find_if(best, [&](const Priced& other) { return division(other.plan) == division(*fitting); });
    if (same == best.end()) {
      best.push_back({*fitting, us});
    } else if (us < same->us) {
      *same = {*fitting, us};
    }
  };
  const auto consider_all = [&](int launches, int split, int units) {
    const int batch = (kernel_batch(size.batch) + launches - 1) / launches;
    const int of_group = (size.hidden + units * split - 1) / (units * split) * split;
    // Clusters of 4 fill ten elevenths of the SMs or more.
    const int usable = split == 4 ? sms * 10 / 11 : sms;
    if (split > 1 && of_group > usable) {
      return;
    }
    const int most_groups = std::clamp(usable / (of_group * std::max(1, layers)), 1, batch);
    for (const int groups : std::set<int>{most_groups, (most_groups + 1) / 2, 1}) {
      const int of_group_samples = (batch + groups - 1) / groups;
      std::set<int> sub_batches;
      for (const int samples : {8, 16, 24, 32, 48, kMostOfSubBatch}) {
        sub_batches.insert((of_group_samples + samples - 1) / samples);
      }
      for (const int of_plan : sub_batches) {
        const int sample_tiles = ((of_group_samples + of_plan - 1) / of_plan + 7) / 8;
        for (const Warps& warps : kWarps) {
          for (const int loads : {8, 16}) {
            const int whole = 2 * sample_tiles;
            if (of_plan <= kMostSubBatches && of_plan % warps.warp_groups == 0 && loads >= whole) {
              consider({.batch_groups = groups,
                        .sub_batches = of_plan,
                        .warps = warps.warps,
                        .split = split,
                        .loads_in_flight = loads / whole * whole,
                        .units = units,
                        .warp_groups = warps.warp_groups,
                        .launches = launches});
            }
          }
        }
      }
    }
  };
  constexpr std::array<int, 2> kTrained{16, 32};
  constexpr std::array<int, 3> kUnits{16, 24, 32};
  // Of more than 16 units on an SM, no more weights were measured: too many are in shared memory. Of an SM that has
  // more shared memory than any has, as many more.
  constexpr double kMostWeights = 200 << 10, kMostShared = 227 << 10;
  const double most_weights = kMostWeights * std::max(1.0, chip.smem_bytes_per_block / kMostShared);
  const auto weights = [&](int units) { return 2.0 * info(size.cell).gates * size.hidden * units; };
  // Of several launches only where fewer have no room or little, for the states of all samples of a launch are in
  // shared memory.
  constexpr int kManySamples = 1024;
  for (int launches = 1; launches <= (layers > 1 ? 1 : std::max(1, size.batch / kMostOfSubBatch)) &&
                         (best.empty() || launches * kManySamples <= size.batch);
       launches *= 2) {
    for (const int split : {1, 2, 4}) {
      if (split == 1 || (is_backward && has_clusters)) {
        for (const int units : layers > 0 ? std::span<const int>(kUnits) : std::span<const int>(kTrained)) {
          if (units <= 16 || weights(units) <= most_weights) {
            consider_all(launches, split, units);
          }
        }
      }
    }
  }
  if (!best.empty()) {
    std::ranges::stable_sort(best, {}, &Priced::us);
    std::vector<RecurrencePlan> plans;
    for (std::size_t i = 0; i < std::min(most, best.size()); ++i) {
      plans.push_back(best[i].plan);
    }
    return plans;
  }
  return Found<std::vector<RecurrencePlan>>::nothing(
      !refusal.empty()
          ? refusal
          : "a batch of " + std::to_string(size.batch) + " takes more than " + std::to_string(kMostSubBatches) +
                " sub-batches of " + std::to_string(kMostOfSubBatch) + " samples on every batch group");
}

Found<RecurrencePlan> choose_recurrence(const Chip& chip, const TrainingSize& size, bool is_backward, int share) {
  const Found<std::vector<RecurrencePlan>> ranked = rank_recurrences(chip, size, is_backward, share, 1);
  return ranked ? Found(ranked->front()) : Found<RecurrencePlan>::nothing(ranked.why());
}

// Whichever of samples, split, load_bytes and lanes is fastest, with as many buffers as fit.
Found<SparseRecurrence> choose_sparse_recurrence(const Chip& chip, const TrainingSize& size, Precision precision,
                                                 const SparseMatrix& w_hh, bool is_backward) {
  constexpr std::size_t kLargeRing = 8u << 20;
  const auto sms = static_cast<int>(chip.sm_count);
  const auto shared_bytes = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  const bool has_clusters = chip.cluster_sms >= 4;
  AssignedRows assigned(size, w_hh, is_backward);
  std::optional<SparseRecurrence> best;
  double least_us = 0;
  std::string refusal;
  const auto consider = [&](SparseRecurrencePlan plan) {
    for (const int buffers : {0, 3, 2}) {
      plan.buffers = buffers;
      const Found<SparseRecurrence> found = sparse_recurrence(assigned, precision, plan, sms, shared_bytes);
      if (found) {
        const double us = recurrence_price(chip, precision, *found).terms.total();
        if (!best || us < least_us) {
          best = *found;
          least_us = us;
        }
        return;
      }
      refusal = found.why();
    }
  };
  const int element = info(precision).bytes;
  for (int samples = std::min(size.batch, kMostSamples);; samples = (samples + 1) / 2) {
    const double before_us = best ? least_us : std::numeric_limits<double>::infinity();
    SparseRecurrencePlan plan{.samples = samples};
    const std::int64_t state = std::int64_t{element} * samples * size.hidden * (is_backward ? 4 : 1);
    while (plan.ahead > 4 && 2 * static_cast<std::size_t>(plan.ahead * state) > kLargeRing) {
      plan.ahead /= 2;
    }
    for (const int split : {1, 2, 4}) {
      for (const int load_bytes : {8, 16}) {
        for (const int lanes : {4, 8, 16, 32}) {
          if ((split == 1 || (is_backward && has_clusters)) && (load_bytes == 8 || samples * element > 8)) {
            plan.split = split;
            plan.load_bytes = load_bytes;
            plan.lanes = lanes;
            consider(plan);
          }
        }
      }
    }
    if (samples == 1 || (best && least_us == before_us)) {  // shorter sub-batches are not faster
      break;
    }
  }
  return best ? Found(*best) : Found<SparseRecurrence>::nothing(refusal);
}

// ---- a training -----------------------------------------------------------------------------------------------------

namespace {

Found<DenseTrainingPlan> choose_dense(const Chip& chip, const TrainingSize& size, Stash stash, int share) {
  const Found<RecurrencePlan> forward = choose_recurrence(chip, size, false, share);
  const Found<RecurrencePlan> backward = choose_recurrence(chip, size, true, share);
  if (!forward || !backward) {
    return Found<DenseTrainingPlan>::nothing(forward ? backward.why() : forward.why());
  }
  return DenseTrainingPlan{stash, *forward, *backward, share > 1};
}

// Of a stack without a stash, with so many layers on the SMs at once.
Found<DenseTrainingPlan> choose_at_once(const Chip& chip, const Training& training, int layers) {
  const auto ranked = rank_recurrences(chip, size_of(training), false, 1, 1, layers);
  return ranked ? Found(DenseTrainingPlan{.stash = Stash::none, .forward = ranked->front(), .backward = {}})
                : Found<DenseTrainingPlan>::nothing(ranked.why());
}

// The best of step by step and of each number of layers that may be on the SMs at once.
Found<DenseTrainingPlan> choose_stack(const Chip& chip, const Training& training) {
  Found<DenseTrainingPlan> best = Found<DenseTrainingPlan>::nothing("");
  double least_us = 0;
  if (training.network.batch <= kMostOfSingleStep) {
    best = DenseTrainingPlan{.stash = Stash::none, .forward = {}, .backward = {}, .stepwise = true};
    least_us = predict(chip, training, *best).iteration.us;
  }
  for (int layers = 1; layers <= std::min(training.stack.layers, kMostLayersAtOnce); ++layers) {
    const Found<DenseTrainingPlan> plan = choose_at_once(chip, training, layers);
    if (!plan) {
      return best ? best : plan;
    }
    const double us = predict(chip, training, *plan).iteration.us;
    if (!best || us < least_us) {
      best = plan;
      least_us = us;
    }
  }
  return best;
}

// Both directions beside each other in both passes, or in none: whichever is faster.
Found<DenseTrainingPlan> choose_dense(const Chip& chip, const Training& training, Stash stash) {
  const TrainingSize size = size_of(training);
  Found<DenseTrainingPlan> whole = choose_dense(chip, size, stash, 1);
  if (!whole || size.directions == 1) {
    return whole;
  }
  const auto us = [&](const DenseTrainingPlan& of) {
    return recurrence_price(chip, size, of.forward, false).terms.total() +
           recurrence_price(chip, size, of.backward, true).terms.total();
  };
  Found<DenseTrainingPlan> halves = choose_dense(chip, size, stash, 2);
  return halves && us(*halves) < 2 * us(*whole) ? halves : whole;
}

Found<SparseTrainingPlan> choose_sparse(const Chip& chip, const Training& training, Stash stash) {
  const Found<SparseRecurrence> forward = choose_sparse_recurrence(chip, training, false);
  const Found<SparseRecurrence> backward = choose_sparse_recurrence(chip, training, true);
  if (!forward || !backward) {
    return Found<SparseTrainingPlan>::nothing(forward ? backward.why() : forward.why());
  }
  return SparseTrainingPlan{stash, forward->plan, backward->plan};
}

// Why no kernels train it, or nothing.
std::string what_lacks(const Chip& chip, const Training& training) {
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
  if (const std::int64_t samples = std::int64_t{network.steps} * network.batch; samples > kMostTrainedSamples) {
    return "cuBLAS counts at most " + std::to_string(kMostTrainedSamples) + " samples of all steps, not " +
           std::to_string(samples);
  }
  return has_tensor_cores(chip) ? "" : "the " + chip.name + " has no tensor cores for these kernels";
}

// Why it has no plan without a stash, or nothing.
std::string what_lacks_stack(const Chip& chip, const Training& training) {
  return training.mask                  ? "with a mask, training keeps the gates"
         : training.stack.bidirectional ? "a stack without a stash has one direction"
                                        : what_lacks(chip, training);
}

}  // namespace

Found<SparseRecurrence> choose_sparse_recurrence(const Chip& chip, const Training& training, bool is_backward) {
  return choose_sparse_recurrence(chip, size_of(training), training.network.precision, *training.mask, is_backward);
}

Found<TrainingPlan> choose_on_chip(const Chip& chip, const Training& training, Stash stash) {
  const auto found = [](const auto& of_family) {
    return of_family ? Found<TrainingPlan>(*of_family) : Found<TrainingPlan>::nothing(of_family.why());
  };
  const bool is_stack = stash == Stash::none;
  if (std::string lacks = is_stack ? what_lacks_stack(chip, training) : what_lacks(chip, training); !lacks.empty()) {
    return Found<TrainingPlan>::nothing(std::move(lacks));
  }
  if (is_stack) {
    return found(choose_stack(chip, training));
  }
  if (training.mask && stash != Stash::gates) {
    return Found<TrainingPlan>::nothing("with a mask, training keeps the gates");
  }
  return training.mask ? found(choose_sparse(chip, training, stash)) : found(choose_dense(chip, training, stash));
}

Found<TrainingPlan> choose_resident(const Chip& chip, const Training& training) {
  const int layers = training.stack.layers;
  std::string lacks = what_lacks_stack(chip, training);
  if (lacks.empty() && layers > kMostLayersAtOnce) {
    lacks = "at most " + std::to_string(kMostLayersAtOnce) + " layers are on the SMs at once";
  }
  if (!lacks.empty()) {
    return Found<TrainingPlan>::nothing(std::move(lacks));
  }
  const Found<DenseTrainingPlan> plan = choose_at_once(chip, training, layers);
  return plan ? Found<TrainingPlan>(*plan) : Found<TrainingPlan>::nothing(plan.why());
}

Found<std::vector<TrainingPlan>> rank_on_chip(const Chip& chip, const Training& training, Stash stash,
                                              std::size_t most) {
  const Found<TrainingPlan> chosen = choose_on_chip(chip, training, stash);
  if (!chosen) {
    return Found<std::vector<TrainingPlan>>::nothing(chosen.why());
  }
  std::vector<TrainingPlan> plans{*chosen};
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&*chosen)) {
    const TrainingSize size = size_of(training);
    const int share = dense->beside ? 2 : 1;
    const auto forward = rank_recurrences(chip, size, false, share, most);
    const auto backward = rank_recurrences(chip, size, true, share, most);
    for (std::size_t i = 0; forward && i < forward->size(); ++i) {
      for (std::size_t j = i == 0 ? 1 : 0; backward && j < backward->size(); ++j) {
        DenseTrainingPlan other = *dense;
        other.forward = (*forward)[i];
        other.backward = (*backward)[j];
        plans.emplace_back(other);
      }
    }
    std::ranges::stable_sort(plans.begin() + 1, plans.end(), {},
                             [&](const TrainingPlan& plan) { return predict(chip, training, plan).iteration.us; });
    plans.resize(std::min(most, plans.size()));
  }
  return plans;
}

namespace {

// A pass with other fields; what follows from others is derived anew unless it is among them.
RecurrencePlan refitted(const Chip& chip, const Training& training, const RecurrencePlan& pass,
                        const std::string& words, bool is_backward) {
  const RecurrencePlan plan = changed(pass, words);
  if (words.find("shared_tiles=") != std::string::npos) {
    return plan;
  }
  return with_room(size_of(training), plan, is_backward, static_cast<int>(chip.sm_count),
                   static_cast<std::size_t>(chip.smem_bytes_per_block.value),
                   static_cast<int>(chip.registers_per_block))
      .value_or_throw();
}

SparseRecurrencePlan refitted(const Chip& chip, const Training& training, const SparseRecurrencePlan& pass,
                              const std::string& words, bool is_backward) {
  return sparse_recurrence(chip, training, changed(unsettled(pass), words), is_backward).value_or_throw().plan;
}

}  // namespace

TrainingPlan with_fields(const Chip& chip, const Training& training, TrainingPlan plan, const PassFields& fields) {
  check(training, plan);
  std::visit(
      [&]<typename P>(P& of_family) {
        if constexpr (P::kIsOnChip) {
          for (const bool is_backward : {false, true}) {
            auto& pass = is_backward ? of_family.backward : of_family.forward;
            if (const std::string& words = is_backward ? fields.backward : fields.forward; !words.empty()) {
              pass = refitted(chip, training, pass, words, is_backward);
            }
          }
        } else if (fields.any()) {
          throw InputError("plan: " + std::string(P::kName) + " has no passes of its own");
        }
      },
      plan);
  return plan;
}

TrainingPlan with_passes(const Training& training, const PassFields& fields, Stash stash) {
  TrainingPlan plan;
  if (training.mask) {
    plan = SparseTrainingPlan{stash, changed(SparseRecurrencePlan{.samples = training.network.batch}, fields.forward),
                              changed(SparseRecurrencePlan{.samples = training.network.batch}, fields.backward)};
  } else {
    plan =
        DenseTrainingPlan{stash, changed(RecurrencePlan{}, fields.forward), changed(RecurrencePlan{}, fields.backward)};
  }
  check(training, plan);
  return plan;
}

}  // namespace onchip
