// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_price.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

namespace onchip {
namespace {

// Cycles of a turn.
struct TurnCycles {
  double waiting = 0, staging = 0, arithmetic = 0, gather = 0, reduction = 0, split = 0, activation = 0;
};

TurnCycles turn_cycles(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape) {
  constexpr double kWarp = 32, kSpanBytes = 64, kTileBytes = 512, kSumBytes = 4;
  const CostValues& cost = chip.cost;
  const double row_cycles = chip.lds_wavefront_cycles / (chip.smem_banks * chip.smem_bank_bytes);
  TurnCycles cycles;
  cycles.waiting = cost[Cost::training_turn];
  cycles.arithmetic = cost[Cost::training_products] * std::ceil(plan.warps / chip.partitions) * shape.tiles *
                      shape.sample_tiles * chip.tensor_issue_cycles / chip.tensor_clock_share;
  cycles.gather = cost[Cost::transfers_exposed] * plan.warps * plan.shared_tiles * kTileBytes * row_cycles;
  // A warp asks for two groups of its spans at once, and for each further one when the one before it has come.
  const double group_spans = std::max(1, plan.loads_in_flight / (2 * shape.sample_tiles));
  const double groups = std::ceil(shape.warp_spans / group_spans);
  const double late = std::max(0.0, cost[Cost::training_round_trip] - (cycles.arithmetic + cycles.gather) / groups);
  cycles.staging = kSpanBytes * shape.spans * shape.samples / cost[Cost::training_bytes_per_cycle] +
                   std::max(0.0, groups - 2) * late;
  const double sums = kSumBytes * 16 * shape.row_tiles * 8 * shape.sample_tiles * plan.warps;
  cycles.reduction = cost[Cost::transfers_exposed] * 2 * sums * row_cycles;
  cycles.split = split_cycles(chip, plan.split, 1.0 * plan.units * shape.samples);
  cycles.activation =
      std::ceil(plan.units * shape.samples / (kWarp * chip.partitions)) * cost[Cost::training_item_warp];
  return cycles;
}

}  // namespace

double split_cycles(const Chip& chip, int split, double items) {
  constexpr double kSumBytes = 4;
  return split > 1 ? chip.cluster_sums_cycles + chip.cluster_sums_per_byte_cycles * kSumBytes * (split - 1) * items : 0;
}

Price recurrence_price(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const TurnCycles turn = turn_cycles(chip, plan, shape);
  const double us = 1e6 / chip.clock_hz, own_turns = 1.0 * plan.turns / plan.warp_groups;
  const double turns = us * own_turns * (plan.warp_groups > 1 ? chip.cost[Cost::training_beside] : 1);
  Price result;
  result.terms.add("exchange",
                   turns * turn.waiting +
                       (own_turns > 1 ? 0 : us * chip.signal_cycles * chip.cost[Cost::training_exchange_exposed]));
  result.terms.add("staging", turns * turn.staging);
  result.terms.add("gather", turns * turn.gather);
  result.terms.add("arithmetic", turns * turn.arithmetic);
  result.terms.add("reduction", turns * turn.reduction);
  if (plan.split > 1) {
    result.terms.add("split", turns * turn.split);
  }
  result.terms.add("activation", turns * turn.activation);
  result.below_us = result.above_us = result.terms.total() * chip.gather_scatter;
  return result;
}

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
// one turn.
int poll_delay(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  constexpr int kFewSamples = 16;
  constexpr double kDelayBytes = 205, kLeast = 160, kMost = 320;
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  if (!is_backward || plan.turns > 1 || shape.samples > kFewSamples) {
    return 0;
  }
  return static_cast<int>(std::clamp(64.0 * shape.spans * shape.samples / kDelayBytes, kLeast, kMost));
}

}  // namespace

RecurrencePlan choose_recurrence(const Chip& chip, const TrainingSize& size, bool is_backward, int share) {
  struct Warps {
    int warps, warp_groups;
  };
  constexpr std::array<Warps, 4> kWarps{{{8, 1}, {16, 1}, {4, 2}, {8, 2}}};
  constexpr int kMostTurns = 64;
  const int sms = static_cast<int>(chip.sm_count) / share;
  const auto shared_bytes = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  const bool has_clusters = chip.cluster_sms >= 4;
  std::optional<RecurrencePlan> best;
  double least_us = 0;
  std::string refusal;
  const auto consider = [&](RecurrencePlan plan) {
    try {
      plan.ahead = steps_ahead(size, plan, is_backward);
      plan.poll_delay = poll_delay(size, plan, is_backward);
      plan = with_room(size, plan, is_backward, sms, shared_bytes);
      const double us = recurrence_price(chip, size, plan, is_backward).terms.total();
      if (!best || us < least_us) {
        best = plan;
        least_us = us;
      }
    } catch (const InputError& error) {
      refusal = refusal.empty() ? error.what() : refusal;
    }
  };
  const auto consider_all = [&](int split, int units) {
    const int of_group = (size.hidden + units * split - 1) / (units * split) * split;
    // Clusters of 4 fill ten elevenths of the SMs or more.
    const int usable = split == 4 ? sms * 10 / 11 : sms;
    if (split > 1 && of_group > usable) {
      return;
    }
    const int most_groups = std::clamp(usable / of_group, 1, size.batch);
    for (const int groups : std::set<int>{most_groups, (most_groups + 1) / 2, 1}) {
      const int of_group_samples = (size.batch + groups - 1) / groups;
      std::set<int> turns;
      for (const int samples : {8, 16, 24, 32, 48, 64}) {
        turns.insert((of_group_samples + samples - 1) / samples);
      }
      for (const int of_plan : turns) {
        const int sample_tiles = ((of_group_samples + of_plan - 1) / of_plan + 7) / 8;
        for (const Warps& warps : kWarps) {
          for (const int loads : {8, 16}) {
            const int whole = 2 * sample_tiles;
            if (of_plan <= kMostTurns && of_plan % warps.warp_groups == 0 && loads >= whole) {
              consider({.batch_groups = groups,
                        .turns = of_plan,
                        .warps = warps.warps,
                        .split = split,
                        .loads_in_flight = loads / whole * whole,
                        .units = units,
                        .warp_groups = warps.warp_groups});
            }
          }
        }
      }
    }
  };
  // Of 32 units on an SM, no more weights were measured: too many are in shared memory.
  constexpr std::int64_t kMostWeights = 200 << 10;
  const bool has_wide = std::int64_t{2} * info(size.cell).gates * size.hidden * 32 <= kMostWeights;
  for (const int split : {1, 2, 4}) {
    if (split == 1 || (is_backward && has_clusters)) {
      consider_all(split, 16);
      if (has_wide) {
        consider_all(split, 32);
      }
    }
  }
  if (!best) {
    throw InputError(refusal);
  }
  return *best;
}

TrainingPlan choose_training_plan(const TrainingSize& size, const Chip& chip) {
  TrainingPlan plan{choose_recurrence(chip, size, false), choose_recurrence(chip, size, true), gains_by_alignment(size),
                    false};
  if (size.directions == 1) {
    return plan;
  }
  const auto us = [&](const TrainingPlan& of) {
    return recurrence_price(chip, size, of.forward, false).terms.total() +
           recurrence_price(chip, size, of.backward, true).terms.total();
  };
  try {
    const TrainingPlan halves{choose_recurrence(chip, size, false, 2), choose_recurrence(chip, size, true, 2),
                              plan.aligned, true};
    return us(halves) < 2 * us(plan) ? halves : plan;
  } catch (const InputError&) {  // they do not fit beside each other
    return plan;
  }
}

}  // namespace onchip
