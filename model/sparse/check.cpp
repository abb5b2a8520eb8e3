// SPDX-License-Identifier: Apache-2.0
#include "model/plan/require.hpp"
#include "model/sparse/family.hpp"
#include "model/sparse/row_assignment.hpp"

#include <algorithm>

namespace onchip {

void check(const Recurrent& network, const SparsePlan& plan) {
  const int gates = info(network.cell).gates;
  require(plan.threads % 32 == 0, "threads in whole warps of 32, found " + std::to_string(plan.threads));
  require(plan.rows_per_group % gates == 0, "slots for the " + std::to_string(gates) + " gates of each unit, found " +
                                                std::to_string(plan.rows_per_group) + " rows");
  require(gates == 1 || (plan.tile_rows == 4 && plan.lanes_per_row >= 4),
          "tile_rows=4 and at least 4 lanes_per_row, where the gates of a unit meet");
  require(plan.load_bytes >= info(network.precision).bytes,
          "load_bytes from the size of an element to 16, found " + std::to_string(plan.load_bytes));
  require(state_type(network.precision) == Precision::fp16 || plan.promote_every == 1,
          "promote_every=1: only fp16 products are summed below fp32");
  require(plan.exchange != ExchangeProtocol::bulk_copy || plan.producer_warps > 0,
          "producer_warps, or another exchange than bulk_copy");
  require(plan.line_words == kLineWords || plan.exchange != ExchangeProtocol::bulk_copy,
          "line_words=8 for bulk copies, found " + std::to_string(plan.line_words));
  for (int r = 0; r < plan.rows_per_group; ++r) {
    require_range("slots", plan.slots[r], plan.has_overflow() ? 0 : 1, kMostSlots);
  }
  const int most = plan.has_overflow() ? kMostChunks : 0;  // of what only overflow has
  require_range("longest_overflow", plan.longest_overflow, std::min(most, 1), most);
  require_range("shared_chunks", plan.shared_chunks, 0, most);
  require_range("ring_chunks", plan.ring_chunks, 0, std::min(most, kMostRingChunks));
  require(plan.ring_chunks != 1, "ring_chunks=0, or 2 and more: what is used and what is under way");
  require(plan.row_splits == 0 || plan.storage != Storage::dense, "row_splits=0, or packed_pair or packed_delta");
  const bool splits = plan.row_splits > 0;
  require_range("row_chunks", plan.row_chunks, 0, splits ? most : 0);
  require_range("split_chunks", plan.split_chunks, 0, splits ? most : 0);
  require_range("split_slots", plan.split_slots, splits && plan.split_chunks == 0 ? 1 : 0, splits ? kMostSlots : 0);
  require_range("most_splits", plan.most_splits, splits ? 1 : 0, splits ? kMostSlots : 0);
  require(plan.producer_warps != 1, "producer_warps=0, or 2 and more: one publishes, the others fetch");
  const SparseGeometry geometry(network, plan);
  require(plan.pass_planes <= geometry.planes,
          "pass_planes of at most all planes, found " + std::to_string(plan.pass_planes));
  require(plan.producer_warps == 0 || geometry.can_pipeline(),
          "producer_warps=0, or 2 to " + std::to_string(kMostPipelined) +
              " passes over the planes, the lamport or the bulk_copy exchange and no streamed chunks");
}

void check_rows(const Recurrent& network, const SparsePlan& plan, const RowProfile& rows) {
  const SparseGeometry geometry(network, plan);
  const int gates = rows.gates();
  const std::int64_t units_per_rank = std::int64_t{plan.sms} * plan.groups();
  require(units_per_rank * (plan.rows_per_group / gates) >= rows.units(),
          "room for " + std::to_string(rows.units()) + " units, found room for " +
              std::to_string(units_per_rank * (plan.rows_per_group / gates)));
  if (plan.row_splits > 0) {
    const int room = plan.row_splits * plan.groups(), most = most_splits(geometry, rows, assign_units(geometry, rows));
    require(most <= room, "room for the " + std::to_string(most) + " splits of rows of one SM, found room for " +
                              std::to_string(room));
  }
  const bool holds_all = !plan.has_overflow() && plan.row_splits == 0;
  for (int r = 0; holds_all && r < plan.rows_per_group && r / gates * units_per_rank < rows.units(); ++r) {
    const int first = static_cast<int>(r / gates * units_per_rank);
    const int longest = plan.storage == Storage::dense ? geometry.state_units : rows.longest_from(first, r % gates);
    require(plan.slots[r] >= geometry.row_slots(longest), "room for a row of " + std::to_string(longest) + ", found " +
                                                              std::to_string(plan.slots[r]) + " slots in each of " +
                                                              std::to_string(plan.lanes_per_row) + " lanes");
  }
  if (plan.has_overflow()) {
    const Overflow overflow = overflow_of(geometry, rows, /*exact=*/true);
    require(plan.ring_chunks > 0 || plan.shared_chunks >= overflow.fullest,
            "shared_chunks for the fullest SM's " + std::to_string(overflow.fullest) + ", or a ring, found " +
                std::to_string(plan.shared_chunks));
  }
}

}  // namespace onchip
