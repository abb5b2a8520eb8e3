// SPDX-License-Identifier: Apache-2.0
// A family of plans as small as one can be, for the test of what docs/add-a-family.md says: `one_block` keeps all
// weights in the shared memory of one SM, as pairs of value and index. The warps of its block take the rows of W in
// turn, 32 lanes a row; the state never leaves the SM.
#pragma once

#include "model/chip/occupancy.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/plan/family.hpp"
#include "model/plan/require.hpp"
#include "model/plan/shared_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace onchip {

// ---- the plan and its fields ----------------------------------------------------------------------------------------

struct ToyPlan {
  using Workload = Recurrent;
  static constexpr std::string_view kName = "one_block";
  static constexpr bool kIsOnChip = true;

  int threads = 32;   // of the block, a multiple of 32
  int row_slots = 1;  // of a lane for each row, 32 times as many of the row
  int tile_rows = 1;  // rows that a warp reduces together, a power of two

  int warps() const { return threads / 32; }
  friend bool operator==(const ToyPlan&, const ToyPlan&) = default;
};

inline std::span<const Field<ToyPlan>> fields(const ToyPlan&) {
  static constexpr std::array kFields{
      number<&ToyPlan::threads>("threads", 32, 1024).define().option("N", "Use a block of this many threads."),
      number<&ToyPlan::row_slots>("row_slots", 1, 2048).define(),
      number<&ToyPlan::tile_rows>("tile_rows", 1, 8)
          .power_of_two()
          .usually(1)
          .define()
          .option("N", "Reduce this many rows of a warp together: 1, 2, 4 or 8."),
  };
  return kFields;
}

// ---- what follows from it -------------------------------------------------------------------------------------------

enum class ToyRegion : std::uint8_t {
  state,    // [2][hidden][batch], this step's and the next's
  weights,  // [rows][row_slots][32 lanes] pairs
  end
};

struct ToyGeometry : ToyPlan {
  ToyGeometry(const Recurrent& of_network, const ToyPlan& plan) : ToyPlan(plan), network(of_network) {
    const PrecisionInfo& precision = info(network.precision);
    state_bytes = network.batch * precision.bytes;
    pair_bytes = 2 + (precision.weight_bits + 7) / 8;
    slots = std::int64_t{network.rows()} * row_slots;
    memory.add(ToyRegion::state, 2 * std::int64_t{network.hidden} * state_bytes);
    memory.add(ToyRegion::weights, 32 * slots * pair_bytes);
  }

  Recurrent network;
  int state_bytes = 0;     // of a unit
  int pair_bytes = 0;      // of a weight
  std::int64_t slots = 0;  // of a lane, over all rows
  SharedMemory<ToyRegion> memory;
};

inline ToyGeometry geometry(const Recurrent& network, const ToyPlan& plan) {
  return {network, plan};
}

// ---- what can be built, and what can hold the rows ------------------------------------------------------------------

inline std::string beyond_limits(const Recurrent&, const ToyPlan&) {
  return "";
}

inline void check(const Recurrent&, const ToyPlan& plan) {
  require(plan.threads % 32 == 0, "threads in whole warps of 32, found " + std::to_string(plan.threads));
}

inline int longest_row(const RowProfile& rows) {
  int longest = 0;
  for (int place = 0; place < rows.gates(); ++place) {
    longest = std::max(longest, rows.longest_from(0, place));
  }
  return longest;
}

inline void check_rows(const Recurrent&, const ToyPlan& plan, const RowProfile& rows) {
  require(32 * plan.row_slots >= longest_row(rows), "room for a row of " + std::to_string(longest_row(rows)) +
                                                        ", found " + std::to_string(32 * plan.row_slots) + " slots");
}

// ---- resources and time ---------------------------------------------------------------------------------------------

inline Footprint footprint(const Chip& chip, const ToyGeometry& geometry) {
  constexpr double kRegisters = 40;  // of a thread, which keeps no weight
  Footprint result;
  const auto use = [&](Resource resource) -> ResourceUse& { return result.resources[static_cast<int>(resource)]; };
  use(Resource::registers) = {kRegisters, static_cast<double>(max_registers_per_thread(chip, geometry.threads))};
  use(Resource::shared_memory) = {static_cast<double>(geometry.memory.bytes()), chip.smem_bytes_per_block};
  use(Resource::l2) = {0, chip.l2_bytes};
  use(Resource::threads) = {static_cast<double>(geometry.threads), chip.max_threads_per_block};
  use(Resource::sms) = {1, chip.sm_count};
  result.indexed_units = geometry.network.hidden;
  conclude(result);
  return result;
}

// Every pair, and the state that it multiplies, comes through the shared-memory pipe once.
inline Price price(const Chip& chip, const ToyGeometry& geometry) {
  const double us_per_cycle = 1e6 / chip.clock_hz;
  const auto slots = static_cast<double>(geometry.slots);
  const auto wavefronts = [](int bytes) { return std::max(1.0, bytes / 4.0); };
  const double gather =
      slots * (wavefronts(geometry.pair_bytes) + wavefronts(geometry.state_bytes)) * chip.lds_wavefront_cycles;
  const double busy_partitions = std::min<double>(chip.partitions, geometry.warps());
  const double arithmetic = slots * geometry.network.batch * chip.fp32_issue_cycles / busy_partitions;
  const double rows_of_warp = static_cast<double>(geometry.network.rows()) / geometry.warps();
  constexpr int kStages = 5;  // from 32 lanes to one
  const double reduction = rows_of_warp / geometry.tile_rows * kStages * chip.shuffle_latency_cycles;
  const double barriers = 2 * block_barrier_cycles(chip, geometry.threads);
  Price result;
  result.terms.add("exchange", barriers * us_per_cycle);
  result.terms.add("gather", gather * us_per_cycle);
  result.terms.add("arithmetic", arithmetic * us_per_cycle);
  result.terms.add("reduction", reduction * us_per_cycle);
  result.floor_us = barriers * us_per_cycle;
  result.below_us = result.above_us = 0.5 * result.terms.total();  // nobody has measured it
  return result;
}

// ---- the plans worth pricing ----------------------------------------------------------------------------------------

inline void for_each_candidate(const Chip&, const Recurrent&, const RowProfile& rows, const Constraints& constraints,
                               const Consider<ToyPlan>& consider) {
  if (constraints.tier == Tier::registers) {
    return;
  }
  ToyPlan plan;
  plan.row_slots = fixed_value<&ToyPlan::row_slots>(constraints).value_or(std::max(1, (longest_row(rows) + 31) / 32));
  for (plan.threads = 32; plan.threads <= 1024; plan.threads *= 2) {
    for (plan.tile_rows = 1; plan.tile_rows <= 8; plan.tile_rows *= 2) {
      if (fixed_value<&ToyPlan::threads>(constraints).value_or(plan.threads) == plan.threads &&
          fixed_value<&ToyPlan::tile_rows>(constraints).value_or(plan.tile_rows) == plan.tile_rows) {
        consider(plan);
      }
    }
  }
}

inline ToyPlan settled(const Chip&, const Recurrent&, const RowProfile&, const Constraints&, const ToyPlan& plan) {
  return plan;  // nothing was estimated
}

inline std::string why_none(const Chip&, const Recurrent&, const Constraints& constraints, const ToyPlan&) {
  return constraints.tier == Tier::registers ? "one_block keeps its weights in shared memory"
                                             : "one_block has 32, 64, 128, ... 1024 threads";
}

static_assert(Family<ToyPlan>);

}  // namespace onchip
