// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/layout.hpp"

#include "model/base/error.hpp"
#include "model/sparse/layout/bank_balance.hpp"
#include "model/sparse/layout/packing.hpp"
#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>

namespace onchip {
namespace {

// Sets the rows of every group, and the place of every unit in the state.
void assign_rows(SparseLayout& layout, const RowProfile& profile, const SparseMatrix& matrix) {
  const SparseGeometry& geometry = layout.geometry;
  const int units = geometry.units_per_sm;
  const int gates = profile.gates();
  layout.rows.assign(static_cast<std::size_t>(geometry.sms) * geometry.all_rows() * geometry.groups(), -1);
  layout.order.resize(layout.geometry.network.hidden);
  std::vector<std::int32_t> ranks = assign_units(geometry, profile);
  if (geometry.order != RowOrder::natural && geometry.storage != Storage::dense) {
    ranks = balance_banks(geometry, profile, matrix, std::move(ranks));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0) {
      continue;
    }
    const std::int32_t unit = profile.unit(ranks[i]);
    layout.order[unit] = static_cast<std::int32_t>(i);
    const int sm = static_cast<int>(i) / units, place = static_cast<int>(i) % units;
    const int group = place % geometry.groups();
    for (int at = 0; at < gates; ++at) {
      const int r = place / geometry.groups() * gates + at;
      layout.rows[layout.group_row(sm, r, group)] = profile.gate(ranks[i], at) * profile.units() + unit;
    }
  }
}

// Splits the rows of one SM, [rows_per_group, groups] of so many non-zeros, into what its groups keep and the splits.
// Of distances a row keeps what comes first in the state, and its splits take about as many slots each.
void split_rows_of_sm(SparseLayout& layout, const SparseMatrix& matrix, const std::vector<std::int64_t>& lengths,
                      int sm) {
  const SparseGeometry& geometry = layout.geometry;
  const int groups = geometry.groups();
  const std::vector<Split> splits = assign_splits(geometry, lengths);
  if (std::ssize(splits) > geometry.row_splits * groups) {
    throw InputError("SM " + std::to_string(sm) + " has more splits of rows than the " +
                     std::to_string(geometry.row_splits * groups) + " that the plan's groups take");
  }
  const bool has_deltas = geometry.storage == Storage::packed_delta;
  const auto room_of = [&](int r) { return std::int64_t{geometry.row_room(r)} * geometry.lanes_per_row; };
  for (int r = 0; r < geometry.rows_per_group; ++r) {
    for (int group = 0; group < groups; ++group) {
      const std::int64_t length = lengths[static_cast<std::size_t>(r) * groups + group];
      layout.ends[layout.group_row(sm, r, group)] =
          static_cast<std::int32_t>(has_deltas ? length : std::min(length, room_of(r)));
    }
  }
  std::vector<std::int64_t> stretches;  // of distances, of the row whose splits these are: non-zeros of each
  std::int32_t begin = 0;
  for (int number = 0; number < std::ssize(splits); ++number) {
    const Split& split = splits[static_cast<std::size_t>(number)];
    if (split.r < 0) {
      continue;
    }
    const std::size_t from = layout.group_row(sm, split.r, split.group);
    const std::size_t to = layout.group_row(sm, geometry.rows_per_group + number / groups, number % groups);
    if (split.number == 0 && has_deltas) {
      const std::vector<Placed> row = placed(layout, matrix, layout.rows[from]);
      const auto kept = first_of_row(row, static_cast<int>(room_of(split.r)));
      layout.ends[from] = static_cast<std::int32_t>(kept.size());
      stretches.clear();
      for (const std::span<const Placed> stretch : cut_row(std::span(row).subspan(kept.size()), split.of)) {
        stretches.push_back(std::ssize(stretch));
      }
    }
    begin = split.number == 0 ? layout.ends[from] : begin;
    const std::int64_t taken = has_deltas ? stretches[static_cast<std::size_t>(split.number)]
                                          : std::int64_t{split.slots} * geometry.lanes_per_row;
    const std::int64_t length = lengths[static_cast<std::size_t>(split.r) * groups + split.group];
    layout.rows[to] = layout.rows[from];
    layout.begins[to] = begin;
    layout.ends[to] = begin = static_cast<std::int32_t>(std::min(length, begin + taken));
  }
}

void split_long_rows(SparseLayout& layout, const SparseMatrix& matrix) {
  const SparseGeometry& geometry = layout.geometry;
  layout.begins.assign(layout.rows.size(), 0);
  layout.ends.assign(layout.rows.size(), 0);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(geometry.rows_per_group) * geometry.groups());
  for (int sm = 0; sm < geometry.sms; ++sm) {
    std::transform(layout.rows.begin() + static_cast<std::ptrdiff_t>(layout.group_row(sm, 0, 0)),
                   layout.rows.begin() + static_cast<std::ptrdiff_t>(layout.group_row(sm, geometry.rows_per_group, 0)),
                   lengths.begin(),
                   [&](std::int32_t row) { return row < 0 ? 0 : matrix.row_begin[row + 1] - matrix.row_begin[row]; });
    split_rows_of_sm(layout, matrix, lengths, sm);
  }
}

}  // namespace

SparseLayout make_layout(const SparseGeometry& geometry, const SparseMatrix& matrix, int threads) {
  const std::int64_t room =
      static_cast<std::int64_t>(geometry.sms) * (geometry.rows_per_group / geometry.gates) * geometry.groups();
  if (room < geometry.network.hidden) {
    throw InputError("the plan has room for " + std::to_string(room) + " units, the network has " +
                     std::to_string(geometry.network.hidden));
  }
  if (geometry.storage == Storage::dense && !geometry.has_overflow() &&
      geometry.slots[0] * geometry.lanes_per_row < geometry.state_units) {
    throw InputError("the plan's slots reach " + std::to_string(geometry.slots[0] * geometry.lanes_per_row) +
                     " places, a dense row of it has " + std::to_string(geometry.state_units));
  }
  SparseLayout layout(geometry);
  assign_rows(layout, RowProfile::from_matrix(matrix), matrix);
  if (geometry.row_splits > 0) {
    split_long_rows(layout, matrix);
  }
  pack_rows(layout, matrix, threads);
  if (geometry.has_overflow() && geometry.ring_chunks == 0) {
    split_overflow(layout);  // throws if there is no room for them
  }
  return layout;
}

SparseLayout make_block_layout(const SparseGeometry& geometry, const SparseMatrix& block) {
  SparseLayout layout(geometry);
  const int groups = geometry.groups();
  layout.rows.assign(static_cast<std::size_t>(geometry.all_rows()) * groups, -1);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(block.rows));
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, std::greater(),
                           [&](std::int32_t row) { return block.row_begin[row + 1] - block.row_begin[row]; });
  for (int i = 0; i < block.rows; ++i) {
    const BlockPlace place = block_place(i, block.rows, groups);
    layout.rows[layout.group_row(0, place.r, place.group)] = rows[static_cast<std::size_t>(i)];
  }
  layout.order.resize(static_cast<std::size_t>(geometry.state_units));
  std::iota(layout.order.begin(), layout.order.end(), 0);
  pack_rows(layout, block, 1);
  if (geometry.has_overflow()) {
    split_overflow(layout);  // as above
  }
  return layout;
}

}  // namespace onchip
