// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/pack_layout.hpp"

#include "model/banks/bank_balance.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/base/error.hpp"
#include "model/sparse/row_elements.hpp"
#include "model/sparse/packing.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace onchip {
namespace {

// ---- dealing rows ---------------------------------------------------------------------------------------------------

// Sets the rows of every group, and the place of every unit in the state.
void deal_rows(Layout& layout, const RowProfile& profile, const SparseMatrix& matrix) {
  const Plan& plan = layout.plan;
  const int units = units_per_sm(layout.network, plan);
  const int gates = profile.gates();
  layout.rows.assign(static_cast<std::size_t>(plan.sms) * plan.all_rows() * plan.groups(), -1);
  layout.order.resize(layout.network.hidden);
  std::vector<std::int32_t> ranks = deal_units(layout.network, plan, profile);
  if (plan.order != RowOrder::natural && plan.storage != Storage::dense) {
    ranks = balance_banks(layout.network, plan, profile, matrix, std::move(ranks));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0) {
      continue;
    }
    const std::int32_t unit = profile.unit(ranks[i]);
    layout.order[unit] = static_cast<std::int32_t>(i);
    const int sm = static_cast<int>(i) / units, place = static_cast<int>(i) % units;
    const int group = place % plan.groups();
    for (int at = 0; at < gates; ++at) {
      const int r = place / plan.groups() * gates + at;
      layout.rows[layout.group_row(sm, r, group)] = profile.gate(ranks[i], at) * profile.units() + unit;
    }
  }
}

// Cuts the rows of one SM, [rows_per_group, groups] of so many non-zeros, into what its groups keep and the pieces. Of
// distances a row keeps what comes first in the state, and its pieces take about as many slots each.
void cut_rows_of_sm(Layout& layout, const SparseMatrix& matrix, const std::vector<std::int64_t>& lengths, int sm) {
  const Plan& plan = layout.plan;
  const int groups = plan.groups();
  const std::vector<Piece> pieces = deal_pieces(layout.network, plan, lengths);
  if (std::ssize(pieces) > plan.pieces * groups) {
    throw InputError("SM " + std::to_string(sm) + " has more pieces of rows than the " +
                     std::to_string(plan.pieces * groups) + " that the plan's groups take");
  }
  const bool has_deltas = plan.storage == Storage::packed_delta;
  const auto room_of = [&](int r) { return std::int64_t{row_room(layout.network, plan, r)} * plan.lanes_per_row; };
  for (int r = 0; r < plan.rows_per_group; ++r) {
    for (int group = 0; group < groups; ++group) {
      const std::int64_t length = lengths[static_cast<std::size_t>(r) * groups + group];
      layout.ends[layout.group_row(sm, r, group)] =
          static_cast<std::int32_t>(has_deltas ? length : std::min(length, room_of(r)));
    }
  }
  std::vector<std::int64_t> stretches;  // of distances, of the row whose pieces these are: non-zeros of each
  std::int32_t begin = 0;
  for (int number = 0; number < std::ssize(pieces); ++number) {
    const Piece& piece = pieces[static_cast<std::size_t>(number)];
    if (piece.r < 0) {
      continue;
    }
    const std::size_t from = layout.group_row(sm, piece.r, piece.group);
    const std::size_t to = layout.group_row(sm, plan.rows_per_group + number / groups, number % groups);
    if (piece.number == 0 && has_deltas) {
      const std::vector<Placed> row = placed(layout, matrix, layout.rows[from]);
      const auto kept = first_of_row(row, static_cast<int>(room_of(piece.r)));
      layout.ends[from] = static_cast<std::int32_t>(kept.size());
      stretches.clear();
      for (const std::span<const Placed> stretch : cut_row(std::span(row).subspan(kept.size()), piece.of)) {
        stretches.push_back(std::ssize(stretch));
      }
    }
    begin = piece.number == 0 ? layout.ends[from] : begin;
    const std::int64_t taken =
        has_deltas ? stretches[static_cast<std::size_t>(piece.number)] : std::int64_t{piece.slots} * plan.lanes_per_row;
    const std::int64_t length = lengths[static_cast<std::size_t>(piece.r) * groups + piece.group];
    layout.rows[to] = layout.rows[from];
    layout.begins[to] = begin;
    layout.ends[to] = begin = static_cast<std::int32_t>(std::min(length, begin + taken));
  }
}

void cut_long_rows(Layout& layout, const SparseMatrix& matrix) {
  const Plan& plan = layout.plan;
  layout.begins.assign(layout.rows.size(), 0);
  layout.ends.assign(layout.rows.size(), 0);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(plan.rows_per_group) * plan.groups());
  for (int sm = 0; sm < plan.sms; ++sm) {
    std::transform(layout.rows.begin() + static_cast<std::ptrdiff_t>(layout.group_row(sm, 0, 0)),
                   layout.rows.begin() + static_cast<std::ptrdiff_t>(layout.group_row(sm, plan.rows_per_group, 0)),
                   lengths.begin(),
                   [&](std::int32_t row) { return row < 0 ? 0 : matrix.row_begin[row + 1] - matrix.row_begin[row]; });
    cut_rows_of_sm(layout, matrix, lengths, sm);
  }
}

}  // namespace

Layout sparse_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix, int threads) {
  const std::int64_t room =
      static_cast<std::int64_t>(plan.sms) * (plan.rows_per_group / info(network.cell).gates) * plan.groups();
  if (room < network.hidden) {
    throw InputError("the plan has room for " + std::to_string(room) + " units, the network has " +
                     std::to_string(network.hidden));
  }
  if (plan.storage == Storage::dense && !plan.has_tail() &&
      plan.slots[0] * plan.lanes_per_row < state_units(network, plan)) {
    throw InputError("the plan's slots reach " + std::to_string(plan.slots[0] * plan.lanes_per_row) +
                     " places, a dense row of it has " + std::to_string(state_units(network, plan)));
  }
  Layout layout;
  layout.network = network;
  layout.plan = plan;
  deal_rows(layout, RowProfile::from_matrix(matrix), matrix);
  if (plan.pieces > 0) {
    cut_long_rows(layout, matrix);
  }
  pack_rows(layout, matrix, threads);
  if (plan.has_tail() && plan.ring_chunks == 0) {
    split_tails(layout);  // throws if there is no room for them
  }
  return layout;
}

}  // namespace onchip
