// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/family.hpp"

#include "model/plan/require.hpp"
#include "model/sparse/registers.hpp"
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

Footprint footprint(const Chip& chip, const SparseGeometry& geometry) {
  Footprint result;
  result[Resource::registers] = {static_cast<double>(geometry.register_words + working_registers(chip, geometry)),
                                 static_cast<double>(registers_available(chip, geometry)),
                                 static_cast<double>(geometry.register_words)};
  const auto& memory = geometry.memory;
  result[Resource::shared_memory] = {
      static_cast<double>(geometry.shared_bytes()), chip.smem_bytes_per_block,
      static_cast<double>(memory.bytes(SparseRegion::chunks)),
      static_cast<double>(memory.bytes(SparseRegion::state) + memory.bytes(SparseRegion::carry))};
  const double streamed = static_cast<double>(geometry.sms) * geometry.streamed_chunks() * geometry.chunk_bytes;
  result[Resource::l2] = {streamed, chip.l2_bytes, streamed};
  result[Resource::threads] = {static_cast<double>(geometry.block_threads()), chip.max_threads_per_block};
  result[Resource::sms] = {static_cast<double>(geometry.blocks), chip.sm_count};
  if (geometry.storage == Storage::packed_pair) {
    result.indexed_units = geometry.state_units + geometry.zero_units;
  }
  conclude(result);
  return result;
}

namespace {

// Registers at most, of a warp that computes beside warps that fetch with one load in flight; the least shared memory.
SparsePlan with_most_room(const SparseGeometry& geometry) {
  SparsePlan plan = geometry;
  plan.loads_in_flight = 1;
  plan.pass_planes = geometry.planes;
  return plan;
}

// What a thread needs beside its weights.
double least_working(const Chip& chip) {
  constexpr int kLeastStaging = 4;
  return register_costs(static_cast<int>(chip.compute_capability_major))[RegisterCost::base] + kLeastStaging;
}

double words_of(const SparseGeometry& geometry, double slots) {
  return slots * geometry.bundle.words / geometry.bundle.slots;
}

}  // namespace

double least_bytes_beyond(const Chip& chip, const SparseGeometry& geometry, double least_slots) {
  const double room = std::max(0.0, registers_available(chip, with_most_room(geometry)) - least_working(chip));
  return 4 * std::max(0.0, words_of(geometry, least_slots) - room) * geometry.threads;
}

double least_bytes_beyond_of_sms(const Chip& chip, const SparseGeometry& geometry, double nonzeros, int threads) {
  // With any number of threads those are best that have as many registers as a thread can have.
  const double of_sm = chip.registers_per_sm, of_thread = chip.registers_per_thread;
  const double count = threads == 0 ? of_sm / of_thread : threads;
  const double room = count * std::max(0.0, std::min(of_thread, of_sm / count) - least_working(chip));
  return 4 * std::max(0.0, words_of(geometry, nonzeros / geometry.sms) - room);
}

double least_overload(const Chip& chip, const SparseGeometry& geometry, double state_bytes, double bytes_beyond,
                      Tier most) {
  if (most == Tier::registers) {  // of all threads together there are no more than an SM's
    return bytes_beyond > 0 ? 1 + bytes_beyond / (4 * chip.registers_per_sm) : 0;
  }
  const auto share_of_shared = [&](double bytes) { return ResourceUse{bytes, chip.smem_bytes_per_block}.share(); };
  if (most != Tier::streamed) {
    return share_of_shared(state_bytes + bytes_beyond);
  }
  const double streamed = geometry.sms * std::max(0.0, bytes_beyond - chip.smem_bytes_per_block);
  return std::max(share_of_shared(state_bytes), ResourceUse{streamed, chip.l2_bytes}.share());
}

double least_state_bytes(const SparseGeometry& geometry) {
  return static_cast<double>(SparseGeometry(geometry.network, with_most_room(geometry)).bytes_without_weights());
}

}  // namespace onchip
