// SPDX-License-Identifier: Apache-2.0
#include "model/dense/bitmap.hpp"
#include "model/plan/footprint.hpp"
#include "model/plan/plan_choices.hpp"
#include "model/plan/registers.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

constexpr std::array kDenseThreads{128, 256, 384, 512, 768, 1024};

// Tiles beyond what the registers hold go to shared memory, unless it is wished that nothing does.
void keep_tiles(const Chip& chip, const Network& network, const PlanWishes& wishes, Plan& plan) {
  constexpr int kTileRegisters = 4;
  const int tiles = warp_tiles(network, plan);
  const Tier most = wishes.tier.value_or(Tier::streamed);
  plan.shared_tiles = 0;
  for (int more = tiles; most != Tier::registers && more > 0;) {  // tiles on their way from there take registers too
    const int room = registers_available(chip, plan) - working_registers(chip, network, plan) -
                     metadata_words(network, plan) - wishes.spare_registers;
    more = tiles - std::clamp(room / kTileRegisters, 0, tiles) - plan.shared_tiles;
    plan.shared_tiles += std::max(0, more);
  }
}

bool has_room(const Chip& chip, const Network& network, const Plan& plan) {
  return static_cast<double>(shared_bytes(network, plan)) <= chip.smem_bytes_per_block;
}

// A dense plan stored without the empty words of its tiles in shared memory, of which a share is not empty. Unless it
// is wished, one that has no room for far fewer words is not looked at closely.
Plan compact_plan(const Chip& chip, const Network& network, const PlanWishes& wishes, double share, double crowding,
                  Plan plan) {
  plan.storage = Storage::bitmap;
  plan.bank_words = 0;
  keep_tiles(chip, network, wishes, plan);
  const int all_words = kLaneWords * plan.shared_tiles * plan.warps();
  constexpr double kFewest = 0.4;  // of what is expected of them: there may be fewer spans and rows than tiles have
  plan.bank_words = static_cast<int>(kFewest * share * all_words);
  if (wishes.storage || has_room(chip, network, plan)) {
    const double expected = std::ceil(crowding * expected_bank_words(network, plan, share));
    plan.bank_words = static_cast<int>(std::min<double>(all_words, expected));
  }
  return plan;
}

// Calls `consider` with the plan for every useful number of loads in flight.
void for_each_load(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                   double crowding, Plan plan, const Consider& consider) {
  const int one = 2 * sample_tiles(network, plan);  // loads of a span
  const int spans_of_warp = warp_spans(network, plan);
  int last_groups = 0;
  for (int group_spans = 1; group_spans <= std::max(1, (spans_of_warp + 1) / 2); ++group_spans) {
    const int groups = (spans_of_warp + group_spans - 1) / group_spans;
    if (groups == last_groups) {
      continue;  // registers for nothing
    }
    last_groups = groups;
    plan.loads_in_flight = wishes.loads_in_flight.value_or(one * group_spans);
    if (plan.loads_in_flight % one == 0) {
      keep_tiles(chip, network, wishes, plan);
      const bool wishes_bitmap = wishes.storage == Storage::bitmap;
      if (!wishes_bitmap) {
        consider(plan);
      }
      const bool is_of_use = plan.storage == Storage::dense && rows.word_share() < 1 && !wishes.storage;
      if (wishes_bitmap || (is_of_use && !has_room(chip, network, plan))) {
        const Plan compact = compact_plan(chip, network, wishes, rows.word_share(), crowding, plan);
        if (wishes_bitmap || has_room(chip, network, compact)) {
          consider(compact);
        }
      }
    }
    if (wishes.loads_in_flight) {
      break;
    }
  }
}

}  // namespace

bool dense_is_possible(const Chip& chip, const Network& network, const PlanWishes& wishes) {
  constexpr int kFirstWithTheProduct = 8;  // compute capability of mma.m16n8k16
  const Storage storage = wishes.storage.value_or(Storage::dense);
  const bool wishes_sparse = storage == Storage::packed_pair || storage == Storage::packed_delta || wishes.order ||
                             wishes.lanes_per_row || wishes.rows_per_group || wishes.tile_rows || wishes.load_bytes ||
                             wishes.promote_every || wishes.exchange_warps.value_or(0) > 0 ||
                             wishes.pieces.value_or(0) > 0 || wishes.exchange == ExchangeProtocol::bulk_copy;
  const bool multiplies = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  return chip.compute_capability_major >= kFirstWithTheProduct && multiplies && !wishes_sparse;
}

void for_each_dense_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                         Storage storage, double crowding, const Consider& consider) {
  const auto even = [](int units) { return (units + 1) / 2 * 2; };
  const auto with_teams = [&](ExchangeProtocol exchange, int sms, int teams) {
    for (const int threads : kDenseThreads) {
      Plan plan = shape_dense_plan(network, sms, threads, teams, storage);
      plan.exchange = exchange;
      plan.line_words = best_line_words(network, plan);
      for_each_load(chip, network, rows, wishes, crowding, plan, consider);
    }
  };
  const ExchangeProtocol over_l2 = wishes.exchange.value_or(ExchangeProtocol::lamport);
  for (int teams = wishes.teams.value_or(1); teams <= network.batch; teams *= 2) {
    const bool alone = teams > 1 && over_l2 != ExchangeProtocol::lamport && over_l2 != ExchangeProtocol::cluster;
    if (network.batch % teams != 0 || alone) {
      break;
    }
    if (over_l2 != ExchangeProtocol::cluster) {
      const int all = std::max(1, static_cast<int>(chip.sm_count) / teams);
      const int fewest = even((network.hidden + all - 1) / all);
      int last_sms = 0;
      // As many SMs as there are, or fewer that have more to do: up to four times as much.
      for (int units = fewest; units <= 4 * fewest; units += 2) {
        const int sms = wishes.sms.value_or((network.hidden + units - 1) / units);
        if (sms != last_sms) {
          with_teams(over_l2, sms, teams);
        }
        last_sms = sms;
      }
    }
    if (wishes.exchange.value_or(ExchangeProtocol::cluster) == ExchangeProtocol::cluster) {
      constexpr int kFewest = 2;
      const double usable = std::min<double>(chip.cluster_usable_sms, chip.sm_count);
      for (auto sms = static_cast<int>(chip.cluster_sms); sms >= kFewest; sms /= 2) {
        if (sms * teams > usable) {
          continue;
        }
        if (wishes.sms.value_or(sms) == sms) {
          with_teams(ExchangeProtocol::cluster, sms, teams);
        }
      }
    }
    if (wishes.teams) {
      break;
    }
  }
}

}  // namespace onchip
