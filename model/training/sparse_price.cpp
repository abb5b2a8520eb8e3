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
  const SparseTrainingPlan& plan = recurrence.plan;
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

// Whichever of samples, split, load_bytes and lanes is quickest, with as many buffers as fit.
SparseRecurrence choose_sparse_recurrence(const Chip& chip, const TrainingSize& size, Precision precision,
                                          const SparseMatrix& w_hh, bool is_backward) {
  constexpr std::size_t kLargeRing = 8u << 20;
  const auto sms = static_cast<int>(chip.sm_count);
  const auto shared_bytes = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  const bool has_clusters = chip.cluster_sms >= 4;
  DealtRows dealt(size, w_hh, is_backward);
  std::optional<SparseRecurrence> best;
  double least_us = 0;
  std::string refusal;
  const auto consider = [&](SparseTrainingPlan plan) {
    for (const int buffers : {0, 3, 2}) {
      plan.buffers = buffers;
      try {
        const SparseRecurrence found = sparse_recurrence(dealt, precision, plan, sms, shared_bytes);
        const double us = sparse_recurrence_price(chip, precision, found).terms.total();
        if (!best || us < least_us) {
          best = found;
          least_us = us;
        }
        return;
      } catch (const InputError& error) {
        refusal = error.what();
      }
    }
  };
  const int element = info(precision).bytes;
  for (int samples = std::min(size.batch, kMostSamples);; samples = (samples + 1) / 2) {
    const double before_us = best ? least_us : std::numeric_limits<double>::infinity();
    SparseTrainingPlan plan{.samples = samples};
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
    if (samples == 1 || (best && least_us == before_us)) {  // shorter turns are not quicker
      break;
    }
  }
  if (!best) {
    throw InputError(refusal);
  }
  return *best;
}

}  // namespace onchip
