// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <cmath>

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
  const double us = 1e6 / chip.clock_hz, own_turns = 1.0 * plan.sub_batches / plan.warp_groups;
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

}  // namespace onchip
