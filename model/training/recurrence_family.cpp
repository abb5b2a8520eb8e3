// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_family.hpp"

#include "model/base/numeric.hpp"
#include "model/dense/fragments.hpp"
#include "model/dense/plan.hpp"
#include "model/plan/require.hpp"
#include "model/training/memory.hpp"
#include "model/training/planner.hpp"
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

namespace onchip {
namespace {

constexpr std::int64_t kGateBytes = 2;
constexpr int kTileRegisters = 4;  // of a thread

}  // namespace

TrainingSize training_size(const Recurrent& network) {
  return {.input = network.hidden,
          .hidden = network.hidden,
          .batch = network.batch,
          .steps = network.steps,
          .cell = network.cell};
}

RecurrenceGeometry geometry(const Recurrent& network, const RecurrencePlan& plan) {
  const RecurrenceShape shape = recurrence_shape(training_size(network), plan, false);
  const int slots = 2 * plan.ahead;
  StateGeometry state;
  state.units_per_sm = plan.units;
  state.state_units = shape.sms * plan.units;
  state.blocks = shape.blocks;
  state.samples = network.batch;
  state.batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch)));
  state.state_stride = static_cast<std::int64_t>(shape.ring_bytes) / slots;
  state.exchange_bytes = state.state_stride / plan.batch_groups;
  state.input_bytes = kGateBytes * kKeptValues * aligned_columns(network.hidden) * network.batch;
  return {plan, state, network, shape};
}

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
  geometry(network, plan);
}

Footprint footprint(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape, int directions) {
  const auto [others, most] = recurrence_registers(shape, plan);
  Footprint need;
  need[Resource::registers] = {1.0 * others + kTileRegisters * (shape.tiles - plan.shared_tiles), 1.0 * most};
  need[Resource::shared_memory] = {static_cast<double>(shape.shared_bytes), chip.smem_bytes_per_block};
  need[Resource::threads] = {1.0 * shape.threads, chip.max_threads_per_block};
  need[Resource::sms] = {1.0 * shape.blocks * directions, chip.sm_count};
  conclude(need);
  return need;
}

Footprint footprint(const Chip& chip, const RecurrenceGeometry& geometry) {
  return footprint(chip, geometry, geometry.shape, 1);
}

namespace {

// Calls `visit(place, row, column)` for each weight that a place in the words, counted in halves of them, has room for.
template <typename Visit>
void for_each_place(const RecurrenceGeometry& geometry, const Visit& visit) {
  constexpr int kLanes = 32, kTileRows = 16, kSpanTiles = 2, kHalves = 8;
  const RecurrenceShape& shape = geometry.shape;
  const int hidden = geometry.network.hidden, gates = info(geometry.network.cell).gates;
  const int tiles = shape.tiles, row_tiles = shape.row_tiles, in_registers = tiles - geometry.shared_tiles;
  for (int sm = 0; sm < shape.sms; ++sm) {
    for (int warp = 0; warp < geometry.warps; ++warp) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int before = shared_tiles_before(tile, geometry.shared_tiles, tiles);
        const std::int64_t place = std::int64_t{sm} * geometry.warps * tiles +
                                   (is_in_shared(tile, geometry.shared_tiles, tiles)
                                        ? geometry.warps * in_registers + warp * geometry.shared_tiles + before
                                        : warp * in_registers + tile - before);
        const int span = warp * shape.warp_spans + tile / (kSpanTiles * row_tiles);
        for (int i = 0; span < shape.spans && i < kLanes * kHalves; ++i) {
          const int lane = i / kHalves, half = i % kHalves;
          const int row = tile % row_tiles * kTileRows + lane / 4 * 2 + half / 2 % 2;
          const int column =
              span * kSpanUnits + lane % 4 * 8 + tile / row_tiles % kSpanTiles * 4 + half / 4 * 2 + half % 2;
          const int unit = sm * geometry.units + row / gates;
          if (unit < hidden && column < hidden) {
            visit(place * kLanes * kHalves + i, row % gates * hidden + unit, column);
          }
        }
      }
    }
  }
}

}  // namespace

RecurrenceLayout make_layout(const RecurrenceGeometry& geometry, const SparseMatrix& matrix, int) {
  const std::vector<float> dense = to_dense(matrix);
  const Precision precision = geometry.network.precision;
  RecurrenceLayout layout{geometry, std::vector<std::uint32_t>(geometry.shape.packed_bytes / sizeof(std::uint32_t))};
  for_each_place(geometry, [&](std::int64_t place, int row, int column) {
    layout.words[static_cast<std::size_t>(place / 2)] |=
        to_bits(precision, dense[static_cast<std::size_t>(row) * matrix.columns + column]) << (16 * (place % 2));
  });
  return layout;
}

SparseMatrix unpack(const RecurrenceLayout& layout) {
  const Recurrent& network = layout.geometry.network;
  std::vector<float> dense(static_cast<std::size_t>(network.rows()) * network.hidden);
  for_each_place(layout.geometry, [&](std::int64_t place, int row, int column) {
    dense[static_cast<std::size_t>(row) * network.hidden + column] =
        from_bits(network.precision, layout.words[static_cast<std::size_t>(place / 2)] >> (16 * (place % 2)) & 0xffff);
  });
  SparseMatrix matrix{network.rows(), network.hidden, {0}, {}, {}};
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (dense[i] != 0) {
      matrix.column.push_back(static_cast<std::int32_t>(i % network.hidden));
      matrix.value.push_back(dense[i]);
    }
    if ((i + 1) % network.hidden == 0) {
      matrix.row_begin.push_back(matrix.nnz());
    }
  }
  return matrix;
}

Wavefronts gather_wavefronts(const RecurrenceLayout& layout) {
  const RecurrenceGeometry& of = layout.geometry;
  constexpr std::int64_t kTileWavefronts = kTileBytes / kBankRowBytes;
  const std::int64_t of_sm = kTileWavefronts * of.shared_tiles * of.warps * of.sub_batches;
  return {of.blocks * of_sm, of_sm, of.blocks * of_sm};
}

Price price(const Chip& chip, const RecurrenceGeometry& geometry) {
  return recurrence_price(chip, training_size(geometry.network), geometry, false);
}

void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile&, const Constraints& constraints,
                        const Consider<RecurrencePlan>& consider) {
  const auto has_what_is_fixed = [&](const RecurrencePlan& plan) {
    return std::ranges::all_of(fields(plan), [&](const Field<RecurrencePlan>& field) {
      const FixedField* const fixed = constraints.find(field.name);
      return fixed == nullptr || field.get(plan) == fixed->value;
    });
  };
  const TrainingSize size = training_size(network);
  const auto offer = [&](RecurrencePlan plan) {
    const RecurrenceShape shape = recurrence_shape(size, plan, false);
    const auto [others, most] = recurrence_registers(shape, plan);
    const int lacking =
        others + kTileRegisters * (shape.tiles - plan.shared_tiles) + constraints.spare_registers - most;
    plan.shared_tiles =
        std::clamp(plan.shared_tiles + (lacking + kTileRegisters - 1) / kTileRegisters, plan.shared_tiles, shape.tiles);
    if (constraints.tier.value_or(Tier::streamed) >= plan.tier() && has_what_is_fixed(plan)) {
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
