// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_layout.hpp"

#include "model/base/numeric.hpp"
#include "model/dense/fragments.hpp"
#include "model/dense/plan.hpp"
#include "model/training/memory.hpp"

#include <bit>
#include <cstddef>

namespace onchip {

TrainingSize training_size(const Recurrent& network) {
  return {.input = network.hidden,
          .hidden = network.hidden,
          .batch = network.batch,
          .steps = network.steps,
          .cell = network.cell};
}

RecurrenceGeometry geometry(const Recurrent& network, const RecurrencePlan& plan) {
  const RecurrenceShape shape = recurrence_shape(training_size(network), plan, false);
  constexpr std::int64_t kGateBytes = 2;
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
  const std::int64_t of_sm = kTileWavefronts * of.shared_tiles * of.warps * of.sub_batches * of.launches;
  return {of.blocks * of_sm, of_sm, of.blocks * of_sm};
}

}  // namespace onchip
