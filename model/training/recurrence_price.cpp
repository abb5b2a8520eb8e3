// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_price.hpp"

#include "model/dense/plan.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/sparse/price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

constexpr double kWarp = 32, kSumBytes = 4;

// What dense and sparse sub-batches end with, where each of `split` SMs finishes so many items; and a step's interval.
void add_last_terms(const Chip& chip, int split, double sub_batches, double items, double activation_us, Price& price) {
  if (split > 1) {
    price.terms.add("split", sub_batches * (chip.cluster_sums_cycles +
                                            chip.cluster_sums_per_byte_cycles * kSumBytes * (split - 1) * items));
  }
  price.terms.add("activation", activation_us);
  price.below_us = price.above_us = price.terms.total() * chip.gather_scatter;
}

double warps_of_partition(const Chip& chip, double items) {
  return std::ceil(items / (kWarp * chip.partitions));
}

// An SM's block as a network's: as many units as it has columns, of which its rows have so many on average.
SparseGeometry as_network(const SparseRecurrence& recurrence, Precision precision) {
  SparseGeometry geometry = recurrence.geometry;
  const double rows = geometry.network.hidden;
  geometry.network.precision = precision;
  geometry.network.hidden = geometry.units_per_sm = geometry.state_units;
  geometry.network.density = recurrence.mean_nonzeros / (rows * geometry.state_units);
  geometry.longest_overflow =
      (geometry.overflow_chunks + geometry.warps() - 1) / geometry.warps();  // as even as its rows
  return geometry;
}

}  // namespace

Price recurrence_price(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  constexpr double kSpanBytes = 64;
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const CostValues& cost = chip.cost;
  // Cycles of a sub-batch.
  const double row_cycles = chip.lds_wavefront_cycles / (chip.smem_banks * chip.smem_bank_bytes);
  const double arithmetic = cost[Cost::training_products] * std::ceil(plan.warps / chip.partitions) * shape.tiles *
                            shape.sample_tiles * chip.tensor_issue_cycles / chip.tensor_clock_share;
  const double gather = cost[Cost::transfers_exposed] * plan.warps * plan.shared_tiles * kTileBytes * row_cycles;
  // A warp asks for two groups of its spans at once, and for each further one when the one before it has come.
  const double group_spans = std::max(1, plan.loads_in_flight / (2 * shape.sample_tiles));
  const double groups = std::ceil(shape.warp_spans / group_spans);
  const double late = std::max(0.0, cost[Cost::training_round_trip] - (arithmetic + gather) / groups);
  const int sources = plan.warps / shape.source_warps;
  const double staging = kSpanBytes * sources * shape.spans * shape.samples / cost[Cost::training_bytes_per_cycle] +
                         std::max(0.0, groups - 2) * late;
  const double sums = kSumBytes * 16 * shape.row_tiles * 8 * shape.sample_tiles * plan.warps;
  const double reduction = cost[Cost::transfers_exposed] * 2 * sums * row_cycles;

  const double us = plan.launches * 1e6 / chip.clock_hz, own_sub_batches = 1.0 * plan.sub_batches / plan.warp_groups;
  const double sub_batches = us * own_sub_batches * (plan.warp_groups > 1 ? cost[Cost::training_beside] : 1);
  Price result;
  result.terms.add("exchange",
                   sub_batches * cost[Cost::training_turn] +
                       (own_sub_batches > 1 ? 0 : us * chip.signal_cycles * cost[Cost::training_exchange_exposed]));
  result.terms.add("staging", sub_batches * staging);
  result.terms.add("gather", sub_batches * gather);
  result.terms.add("arithmetic", sub_batches * arithmetic);
  result.terms.add("reduction", sub_batches * reduction);
  const double items = 1.0 * plan.units * shape.samples;
  add_last_terms(chip, plan.split, sub_batches, items,
                 sub_batches * (warps_of_partition(chip, items) * cost[Cost::training_item_warp]), result);
  return result;
}

Price recurrence_price(const Chip& chip, Precision precision, const SparseRecurrence& recurrence) {
  const SparseGeometry geometry = as_network(recurrence, precision);
  const SparseRecurrencePlan& plan = recurrence.plan;
  const CostValues& cost = chip.cost;
  const double sub_batches = 1e6 / chip.clock_hz * recurrence.sub_batches;
  const BlockCycles block = block_cycles(chip, geometry);
  const double computing = block.gather + block.arithmetic + block.reduction;

  const double plane_bytes = static_cast<double>(geometry.exchange_bytes) / geometry.planes;
  const ExchangeCycles first =
      exchange_cycles(chip, {plane_bytes, recurrence.blocks / plan.split, geometry.threads, plan.loads_in_flight});
  // A thread looks at words that were copied one after the other, too.
  const double looks =
      std::ceil(plane_bytes / 16 / geometry.threads) * (chip.lds_latency_cycles + chip.exchange_per_word_cycles);
  const double late = std::max(0.0, plane_bytes / chip.exchange_bytes_per_cycle_per_sm - computing / geometry.planes);
  // Written, and a word of every 16 bytes looked at, which takes as many wavefronts.
  const double through_shared = 2 * plane_bytes / (chip.smem_banks * chip.smem_bank_bytes) * chip.lds_wavefront_cycles;
  // A barrier between passes, and one more than inference has.
  const double barriers = geometry.planes * block_barrier_cycles(chip, geometry.threads);

  Price result;
  result.terms.add("exchange", sub_batches * (first.latency + barriers + cost[Cost::sparse_training_turn]));
  result.terms.add("staging", sub_batches * (first.copying + (geometry.planes - 1) * (late + through_shared + looks)));
  result.terms.add("gather", sub_batches * block.gather);
  result.terms.add("arithmetic", sub_batches * block.arithmetic);
  result.terms.add("reduction", sub_batches * (block.reduction +
                                               cost[Cost::sparse_training_tile] * geometry.tiles * geometry.planes));
  const double items = 1.0 * recurrence.units * plan.samples;
  add_last_terms(chip, plan.split, sub_batches, items,
                 sub_batches * warps_of_partition(chip, items) * cost[Cost::training_item_warp], result);
  return result;
}

}  // namespace onchip
