// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/layout.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace onchip {
namespace {

// Calls `visit` with every row of W and each of its slots: place and value.
template <typename Visit>
void for_each_entry(const SparseLayout& layout, Visit&& visit) {
  const SparseGeometry& geometry = layout.geometry;
  for (int sm = 0; sm < geometry.sms; ++sm) {
    for (int r = 0; r < geometry.all_rows(); ++r) {
      for (int thread = 0; thread < geometry.threads; ++thread) {
        const int group = geometry.group_lane_of(thread).group;
        const std::int32_t row = layout.row(sm, r, group);
        const std::size_t warp_row = layout.warp_row(sm, r, thread / kWarpLanes);
        for (int slot = 0; row >= 0 && slot < layout.slots(warp_row); ++slot) {
          const std::size_t entry = layout.entry(warp_row, slot, thread % kWarpLanes);
          visit(row, layout.place[entry], layout.value[entry]);
        }
      }
    }
  }
}

}  // namespace

SparseMatrix unpack(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  std::vector<std::int32_t> unit_at(geometry.state_units, -1);
  for (int unit = 0; unit < layout.geometry.network.hidden; ++unit) {
    unit_at[layout.order[unit]] = unit;
  }
  std::vector<std::vector<std::pair<std::int32_t, float>>> rows(layout.geometry.network.rows());
  for_each_entry(layout, [&](std::int32_t row, std::int32_t place, float value) {
    // A non-zero may have been rounded to zero; storage that multiplies units by zero cannot tell.
    const bool stored = place < geometry.state_units && (geometry.storage == Storage::packed_pair || value != 0.0f);
    if (stored) {
      rows[row].emplace_back(unit_at[place], value);
    }
  });
  SparseMatrix matrix;
  matrix.rows = layout.geometry.network.rows();
  matrix.columns = layout.geometry.network.hidden;
  matrix.row_begin.push_back(0);
  for (auto& row : rows) {
    std::sort(row.begin(), row.end());
    for (const auto& [column, value] : row) {
      matrix.column.push_back(column);
      matrix.value.push_back(value);
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

std::vector<float> row_scales(const SparseLayout& layout) {
  std::vector<float> scales;
  if (layout.geometry.network.precision != Precision::fp8) {
    return scales;
  }
  std::vector<float> largest(layout.geometry.network.rows(), 0.0f);
  for_each_entry(layout, [&](std::int32_t row, std::int32_t, float value) {
    largest[row] = std::max(largest[row], std::abs(value));
  });
  std::transform(largest.begin(), largest.end(), std::back_inserter(scales), e4m3_scale);
  return scales;
}

Wavefronts gather_wavefronts(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  const BankRule rule(geometry.plane_unit_bytes);
  const int access = std::max(kBankBytes, rule.stride);
  const int copies = geometry.planes;  // every plane repeats the pattern
  Wavefronts result;
  for (int sm = 0; sm < geometry.sms; ++sm) {
    std::int64_t in_sm = 0;
    const std::int64_t first_slot = layout.first[layout.warp_row(sm, 0, 0)];
    const std::int64_t last_slot = layout.first[layout.warp_row(sm + 1, 0, 0)];
    for (std::size_t first = first_slot * kWarpLanes; first < static_cast<std::size_t>(last_slot) * kWarpLanes;
         first += rule.phase_lanes) {
      std::array<std::array<std::int32_t, kWarpLanes>, kMaxBankSets> words;
      std::array<int, kMaxBankSets> count{};
      int most = 0;
      for (int lane = 0; lane < rule.phase_lanes; ++lane) {
        const std::int32_t word = layout.place[first + lane] * rule.stride / access;
        const int set = word % rule.bank_sets;
        const auto end = words[set].begin() + count[set];
        if (std::find(words[set].begin(), end, word) == end) {
          words[set][count[set]++] = word;
          most = std::max(most, count[set]);
        }
      }
      in_sm += static_cast<std::int64_t>(most) * copies;
      result.ideal += copies;
    }
    result.total += in_sm;
    result.busiest_sm = std::max(result.busiest_sm, in_sm);
  }
  return result;
}

std::vector<std::int32_t> splits_of_rows(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  if (geometry.row_splits == 0) {
    return {};
  }
  const std::vector<std::int32_t> places = row_places(layout);
  std::vector<std::int32_t> table(static_cast<std::size_t>(geometry.state_units) *
                                  info(layout.geometry.network.cell).gates);
  for (int sm = 0; sm < geometry.sms; ++sm) {
    for (int split = 0; split < geometry.row_splits * geometry.groups(); ++split) {
      const std::int32_t row =
          layout.row(sm, geometry.rows_per_group + split / geometry.groups(), split % geometry.groups());
      if (row >= 0) {
        std::int32_t& entry = table[places[row]];
        entry = entry == 0 ? 1 << 16 | split : entry + (1 << 16);
      }
    }
  }
  return table;
}

std::vector<std::int32_t> row_places(const SparseLayout& layout) {
  const int gates = info(layout.geometry.network.cell).gates;
  std::vector<std::int32_t> places(layout.geometry.network.rows());
  for (int sm = 0; sm < layout.geometry.sms; ++sm) {
    for (int r = 0; r < layout.geometry.rows_per_group; ++r) {
      for (int group = 0; group < layout.geometry.groups(); ++group) {
        if (const std::int32_t row = layout.row(sm, r, group); row >= 0) {
          places[row] = layout.order[row % layout.geometry.network.hidden] * gates + r % gates;
        }
      }
    }
  }
  return places;
}

}  // namespace onchip
