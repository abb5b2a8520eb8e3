// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan_choices.hpp"
#include "model/plan/registers.hpp"
#include "model/sparse/tiers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace onchip {
namespace {

constexpr std::array kLanes{32, 16, 8, 4, 2};
struct Fetching {
  ExchangeProtocol exchange;
  int warps;
};
// Two warps are enough for bulk copies; warpgroups of four hand registers over.
constexpr std::array kFetchings{Fetching{ExchangeProtocol::lamport, 4}, Fetching{ExchangeProtocol::lamport, 5},
                                Fetching{ExchangeProtocol::lamport, 8}, Fetching{ExchangeProtocol::bulk_copy, 2},
                                Fetching{ExchangeProtocol::bulk_copy, 4}};
constexpr int kLeastOfBulk = 32000;  // bytes of a plane of the state, below which its flags take longer than its words
// Bytes of a load where passes take turns: at least one bank's. With seven warps that fetch, at least two: with 4 bytes
// their steps took up to a third longer than with four (turns.csv of experiments/data), with 8 and more up to a
// quarter less.
constexpr int kLeastOfTurns = 4, kLeastOfManyWarps = 8, kManyWarps = 8;
constexpr int kMostLoadsInFlight = 8;
constexpr int kMostLoadsOfPlanes = 6;  // of several planes at once, what the registers of a fetching thread hold
constexpr int kPromote = 8;            // products summed in fp16 before they join the fp32 sum

// The numbers of SMs worth trying: as few as give each the same number of units as all would; all, which leaves room to
// give an SM with long rows fewer of them; half of the first; and as many as have whole words of the state, so that it
// lies in all banks alike.
std::vector<int> sm_choices(const Chip& chip, const Network& network) {
  const int units = network.hidden, all = static_cast<int>(chip.sm_count);
  const auto with = [&](int units_per_sm) { return (units + units_per_sm - 1) / units_per_sm; };
  const int fewest_units = with(all);
  const int unit_bytes =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch))) * info(network.precision).bytes;
  const int of_word = std::max(1, kWidestLoad / unit_bytes);
  std::vector<int> choices;
  for (const int sms : {with(fewest_units), all, std::max(1, with(fewest_units) / 2),
                        with((fewest_units + of_word - 1) / of_word * of_word)}) {
    if (std::ranges::find(choices, sms) == choices.end()) {
      choices.push_back(sms);
    }
  }
  return choices;
}

// Calls `consider` with every way to run a shape that the wishes allow, for one width of loads and number of exchange
// warps.
void for_each_variant(const Chip& chip, const Network& network, const PlanWishes& wishes, SparseShape& shape, Plan plan,
                      const Consider& consider) {
  const int gates = info(network.cell).gates;
  const bool half_sums = state_type(network.precision) == Precision::fp16;
  plan.promote_every = wishes.promote_every.value_or(half_sums ? kPromote : 1);
  const int all_planes = planes(network, plan);
  const RowOrder order_of_cut = wishes.order.value_or(RowOrder::bank_merged);
  plan.order = order_of_cut;
  const std::vector<Cut> cuts = wished_cuts(network, wishes, plan, shape);
  const int most_tile_rows =
      gates > 1 ? 4 : std::min<int>(kMaxTileRows, std::bit_ceil(static_cast<unsigned>(plan.rows_per_group)));
  for (int tile_rows = gates > 1 ? 4 : 1; tile_rows <= most_tile_rows; tile_rows *= 2) {
    if (gates == 1 && wishes.tile_rows && *wishes.tile_rows != tile_rows) {
      continue;
    }
    plan.tile_rows = tile_rows;
    for (int pass_planes = 1; pass_planes <= all_planes; pass_planes *= 2) {
      plan.pass_planes = pass_planes;
      plan.ring_chunks = 0;
      if (plan.exchange_warps > 0 && !takes_turns(network, plan)) {
        continue;
      }
      const int needed = fetched_words(network, plan);
      const int most_loads = plan.pass_planes > 1 && register_split(plan) ? kMostLoadsOfPlanes : kMostLoadsInFlight;
      for (int loads = 1; loads <= most_loads; ++loads) {
        plan.loads_in_flight = wishes.loads_in_flight.value_or(loads);
        if (wishes.pieces.value_or(0) == 0) {
          plan.order = wishes.order.value_or(RowOrder::bank_aware);
          consider_tiers(chip, network, wishes, shape, plan, consider);
        }
        plan.order = order_of_cut;
        consider_cuts(chip, network, wishes, cuts, shape, plan, consider);
        if (wishes.loads_in_flight || loads >= needed || plan.exchange == ExchangeProtocol::bulk_copy) {
          break;  // more than there are words
        }
      }
    }
  }
}

// The same for every width of loads and number of exchange warps that the wishes allow.
void for_each_exchange(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                       Plan plan, const Consider& consider) {
  const int element = info(network.precision).bytes;
  plan.exchange = wishes.exchange.value_or(ExchangeProtocol::lamport);
  std::optional<SparseShape> shape;
  int units_of_shape = 0;
  const auto for_each = [&](Plan variant) {
    variant.line_words = best_line_words(network, variant);
    if (variant.storage == Storage::dense) {  // narrower loads may need more places than the shape was made for
      const int before = variant.slots[0];
      const int slots = row_slots(network, variant, state_units(network, variant));
      std::replace(variant.slots.begin(), variant.slots.begin() + variant.rows_per_group, before, slots);
    }
    const int units = units_per_sm(network, variant);
    if (!shape || (variant.storage != Storage::packed_pair && units != units_of_shape)) {  // places of the others
      shape.emplace(network, variant, rows);
      units_of_shape = units;
    }
    for_each_variant(chip, network, wishes, *shape, variant, consider);
  };
  plan.load_bytes = std::max(element, wishes.load_bytes.value_or(kWidestLoad));
  if (wishes.exchange_warps.value_or(0) == 0 && plan.exchange != ExchangeProtocol::bulk_copy) {
    for_each(plan);
  }
  // The loads that rows stored dense share take more registers than is known where passes take turns; mbarriers came
  // with compute capability 8.
  constexpr int kFirstWithMbarriers = 8;
  if (chip.compute_capability_major < kFirstWithMbarriers || plan.storage == Storage::dense ||
      wishes.exchange_warps == 0) {
    return;
  }
  // Two passes at least: loads of half of the samples where one load could take all.
  plan.load_bytes = std::max(element, wishes.load_bytes.value_or(std::min(kWidestLoad, unit_bytes(network, plan) / 2)));
  if (planes(network, plan) == 1 || (plan.load_bytes < kLeastOfTurns && !wishes.exchange_warps)) {
    return;
  }
  const bool is_large = exchange_bytes(network, plan) / planes(network, plan) >= kLeastOfBulk;
  const auto wished = [&](ExchangeProtocol exchange) {
    const bool is_possible =
        exchange == ExchangeProtocol::lamport || chip.compute_capability_major >= kFirstThatCopiesInBulk;
    const bool is_usual = exchange == ExchangeProtocol::lamport || is_large;
    return is_possible && (wishes.exchange ? *wishes.exchange == exchange : is_usual);
  };
  std::optional<ExchangeProtocol> last;
  for (const Fetching& fetching : kFetchings) {
    const bool crowds = fetching.warps >= kManyWarps && plan.load_bytes < kLeastOfManyWarps && !wishes.exchange_warps;
    const bool is_again = wishes.exchange_warps && last == fetching.exchange;
    if (!wished(fetching.exchange) || crowds || is_again) {
      continue;
    }
    plan.exchange = fetching.exchange;
    plan.exchange_warps = wishes.exchange_warps.value_or(fetching.warps);
    last = plan.exchange;
    if (plan.block_threads() <= chip.max_threads_per_block) {
      for_each(plan);
    }
  }
}

// Zeros cost dense storage more than indices cost the others; distances are slower to read than indices, and worth it
// where indices leave no room in the registers.
bool is_worth_trying(const Chip& chip, const Network& network, const RowProfile& rows, Storage storage) {
  if (storage == Storage::dense) {
    return network.density >= 0.4;
  }
  constexpr double kFilled = 0.7;  // of the registers
  const double pairs = static_cast<double>(rows.nnz()) * (info(network.precision).weight_bits + 16) / 32;
  return storage == Storage::packed_pair || pairs > kFilled * chip.registers_per_sm * chip.sm_count;
}

}  // namespace

bool sparse_is_possible(const PlanWishes& wishes) {
  return wishes.storage != Storage::structured_2_4 && wishes.storage != Storage::bitmap &&
         wishes.exchange.value_or(ExchangeProtocol::lamport) != ExchangeProtocol::cluster &&
         wishes.teams.value_or(1) == 1;
}

void for_each_sparse_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                          const Consider& consider) {
  const int gates = info(network.cell).gates;
  int last_threads = 0;
  for (const Storage storage : {Storage::packed_pair, Storage::dense, Storage::packed_delta}) {
    if (wishes.storage ? *wishes.storage != storage : !is_worth_trying(chip, network, rows, storage)) {
      continue;
    }
    if (storage == Storage::packed_delta && network.precision == Precision::fp32) {
      continue;  // no smaller than pairs
    }
    for (const int choice : sm_choices(chip, network)) {
      const int sms = wishes.sms.value_or(choice);
      for (const int lanes : kLanes) {
        if ((wishes.lanes_per_row && *wishes.lanes_per_row != lanes) || (gates > 1 && lanes < 4)) {
          continue;
        }
        for (int rows_per_group = gates; rows_per_group <= kMaxRowsPerGroup; rows_per_group += gates) {
          if (wishes.rows_per_group && *wishes.rows_per_group != rows_per_group) {
            continue;
          }
          const int units = (rows.units() + sms - 1) / sms;
          const int units_per_group = rows_per_group / gates;
          const int groups = (units + units_per_group - 1) / units_per_group;
          const int threads = (groups * lanes + 31) / 32 * 32;
          if (!wishes.rows_per_group) {
            if (threads > chip.max_threads_per_block) {
              continue;
            }
            if (rows_per_group > gates && threads == last_threads) {
              continue;  // as many threads as with fewer units each
            }
          }
          last_threads = threads;
          for_each_exchange(chip, network, rows, wishes, shape_plan(network, rows, storage, sms, lanes, rows_per_group),
                            consider);
        }
      }
      if (wishes.sms) {
        break;
      }
    }
  }
}

}  // namespace onchip
