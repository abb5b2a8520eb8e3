// SPDX-License-Identifier: Apache-2.0
#include "model/training/sparse_price.hpp"

#include "model/base/error.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/sparse/price.hpp"
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace onchip {
namespace {

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

Price sparse_recurrence_price(const Chip& chip, Precision precision, const SparseRecurrence& recurrence) {
  const SparseGeometry geometry = as_network(recurrence, precision);
  const SparseRecurrencePlan& plan = recurrence.plan;
  const CostValues& cost = chip.cost;
  const double turns = 1e6 / chip.clock_hz * recurrence.turns;
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
  result.terms.add("exchange", turns * (first.latency + barriers + cost[Cost::sparse_training_turn]));
  result.terms.add("staging", turns * (first.copying + (geometry.planes - 1) * (late + through_shared + looks)));
  result.terms.add("gather", turns * block.gather);
  result.terms.add("arithmetic", turns * block.arithmetic);
  result.terms.add("reduction",
                   turns * (block.reduction + cost[Cost::sparse_training_tile] * geometry.tiles * geometry.planes));
  if (plan.split > 1) {
    result.terms.add("split", turns * split_cycles(chip, plan.split, 1.0 * recurrence.units * plan.samples));
  }
  constexpr double kWarp = 32;
  const double warps = std::ceil(1.0 * recurrence.units * plan.samples / (kWarp * chip.partitions));
  result.terms.add("activation", turns * warps * cost[Cost::training_item_warp]);
  result.below_us = result.above_us = result.terms.total() * chip.gather_scatter;
  return result;
}

}  // namespace onchip
