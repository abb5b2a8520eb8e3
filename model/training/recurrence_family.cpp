// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_family.hpp"

#include "model/base/error.hpp"
#include "model/dense/plan.hpp"
#include "model/plan/require.hpp"
#include "model/training/planner.hpp"
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace onchip {
namespace {

constexpr int kRegistersOfTile = 4;  // of a thread

}  // namespace

std::string beyond_limits(const Recurrent& network, const RecurrencePlan&) {
  if (info(network.cell).gates == 1) {
    return "takes cells of 'lstm' and 'gru'";
  }
  if (network.precision != Precision::fp16 && network.precision != Precision::bf16) {
    return "takes fp16 and bf16";
  }
  return network.batch > kMostSamples ? "" : "takes more than " + std::to_string(kMostSamples) + " samples";
}

void check(const Recurrent& network, const RecurrencePlan& plan) {
  require(plan.split == 1, "split=1 without gradients, found " + std::to_string(plan.split));
  require(plan.layers == 1, "layers=1 of one layer, found " + std::to_string(plan.layers));
  require(is_of_trainings(plan), "units=16 or units=32 and interleaved=0");
  geometry(network, plan);
}

Footprint footprint(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape, int directions) {
  const auto [others, most] = recurrence_registers(shape, plan, static_cast<int>(chip.registers_per_block));
  Footprint need;
  const double weights = kRegistersOfTile * (shape.tiles - plan.shared_tiles);
  need[Resource::registers] = {others + weights, 1.0 * most, weights};
  need[Resource::shared_memory] = {static_cast<double>(shape.shared_bytes), chip.smem_bytes_per_block,
                                   1.0 * plan.warps * plan.shared_tiles * kTileBytes,
                                   static_cast<double>(shape.carry_bytes)};
  need[Resource::threads] = {1.0 * shape.threads, chip.max_threads_per_block};
  need[Resource::sms] = {1.0 * shape.blocks * directions, chip.sm_count};
  conclude(need);
  return need;
}

Footprint footprint(const Chip& chip, const RecurrenceGeometry& geometry) {
  return footprint(chip, geometry, geometry.shape, 1);
}

Price price(const Chip& chip, const RecurrenceGeometry& geometry) {
  return recurrence_price(chip, training_size(geometry.network), geometry, false);
}

void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile&, const Constraints& constraints,
                        const Consider<RecurrencePlan>& consider) {
  const TrainingSize size = training_size(network);
  const int registers = static_cast<int>(chip.registers_per_block);
  const auto offer = [&](RecurrencePlan plan) {
    for (const Field<RecurrencePlan>& field : fields(plan)) {
      if (const FixedField* const fixed = constraints.find(field.name)) {
        field.set(plan, fixed->value);
      }
    }
    try {
      plan = with_shared_tiles(size, plan, false, registers);
    } catch (const InputError&) {  // no kernel has what is fixed
      return;
    }
    const RecurrenceShape shape = recurrence_shape(size, plan, false);
    const auto [others, most] = recurrence_registers(shape, plan, registers);
    const int lacking =
        others + kRegistersOfTile * (shape.tiles - plan.shared_tiles) + constraints.spare_registers - most;
    plan.shared_tiles = std::clamp(plan.shared_tiles + (lacking + kRegistersOfTile - 1) / kRegistersOfTile,
                                   plan.shared_tiles, shape.tiles);
    if (constraints.tier.value_or(Tier::streamed) >= plan.tier()) {
      consider(plan);
    }
  };
  if (!has_tensor_cores(chip)) {
    return;
  }
  if (const auto plans = rank_recurrences(chip, size, false, 1, std::numeric_limits<std::size_t>::max())) {
    std::ranges::for_each(*plans, offer);
  } else {  // what misses by least tells by how much
    constexpr int kSamples = 8;
    for (const int units : {16, 32}) {
      offer(with_shared_tiles(size, {.sub_batches = (network.batch + kSamples - 1) / kSamples, .units = units}, false));
    }
  }
}

std::string why_none(const Chip& chip, const Recurrent&, const Constraints&, const RecurrencePlan&) {
  return has_tensor_cores(chip) ? "dense_pipelined has no plan with what is fixed"
                                : "the " + chip.name + " has no tensor cores for dense_pipelined";
}

}  // namespace onchip
