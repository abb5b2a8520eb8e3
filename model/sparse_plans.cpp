// SPDX-License-Identifier: Apache-2.0
#include "model/cut.hpp"
#include "model/dealing.hpp"
#include "model/footprint.hpp"
#include "model/plan_choices.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
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
// Products summed in fp16 before they join the fp32 sum: twice as many where rows are longer than the registers hold.
// On an H200 lstm H=5632 B=4 10 % then takes 5.95 instead of 6.02 us, its error is 0.00030 instead of 0.00027.
constexpr int kPromote = 8, kPromoteLongRows = 16;
constexpr double kTailMargin = 1.02;  // a real mask's fullest SM over that of a few
constexpr double kWorthEvening =
    1.1;  // slots of the longest rows over those of the median ones: worth a tail, or pieces

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

using Slots = std::array<int, kMaxRowsPerGroup>;

// Slots for the registers: those that all rows need, or half of them, or few.
using Fills = std::array<Slots, 3>;

Fills filled_slots(const Network& network, const Plan& plan, const RowProfile& rows) {
  constexpr Fills::size_type kFills = 3;
  constexpr std::array<double, kFills> kShareBelow{0.0, 0.5, 0.85};  // of the rows
  constexpr int kSamples = 256;
  Fills fills{plan.slots, plan.slots, plan.slots};
  const int gates = rows.gates();
  const int units_per_rank = plan.groups() * plan.sms;
  std::vector<int> lengths;
  for (int r = 0; r < plan.rows_per_group && plan.storage != Storage::dense; ++r) {
    const int first = std::min(rows.units(), r / gates * units_per_rank);
    const int last = std::min(rows.units(), first + units_per_rank);
    lengths.clear();
    for (int rank = first; rank < last; rank += std::max(1, (last - first) / kSamples)) {
      lengths.push_back(rows.length(rank, r % gates));
    }
    std::ranges::sort(lengths);
    for (std::size_t fill = 0; fill < kFills; ++fill) {
      const auto below = static_cast<std::size_t>(kShareBelow[fill] * static_cast<double>(lengths.size()));
      const int filled = lengths.empty() ? 0 : lengths[below] / plan.lanes_per_row;
      fills[fill][r] = std::min(fills[fill][r], filled);
    }
  }
  const int whole = bundle(network, plan).slots;
  for (Slots& slots : fills) {
    for (int r = 0; r < plan.rows_per_group; ++r) {
      slots[r] = slots[r] / whole * whole;
    }
  }
  return fills;
}

// Whether the longest rows need clearly more slots than the median ones.
bool is_uneven(const Plan& plan, const Fills& fills) {
  const Slots& median = fills[1];
  const int filled = std::accumulate(median.begin(), median.begin() + plan.rows_per_group, 0);
  return plan.slots_total() > kWorthEvening * filled;
}

// Registers of a thread for weight words.
int word_room(const Chip& chip, const Network& network, const PlanWishes& wishes, const Plan& plan) {
  return registers_available(chip, plan) - working_registers(chip, network, plan) - wishes.spare_registers;
}

// Cuts every row's slots by the same share, so that the registers hold them beside those of pairs; whole bundles stay
// whole.
void cut_to_registers(const Chip& chip, const Network& network, const PlanWishes& wishes, Plan& plan) {
  const int of_pairs = plan.common_rows > 0 ? plan.common_rows * words_of(network, plan, plan.first_common()) : 0;
  const int others = plan.rows_per_group * start_words(plan) + of_pairs;
  const int room = std::max(0, word_room(chip, network, wishes, plan) - others);
  const int words = register_words(network, plan) - others;
  const int whole = bundle(network, plan).slots;
  for (int r = 0; words > room && r < plan.rows_per_group; ++r) {
    plan.slots[r] = static_cast<int>(static_cast<std::int64_t>(plan.slots[r]) * room / words) / whole * whole;
  }
}

// Whether the longest rows are longer than by chance, of places that are drawn one by one.
bool has_long_rows(const RowProfile& rows) {
  constexpr double kDeviations = 6;
  const double mean = static_cast<double>(rows.nnz()) / rows.units() / rows.gates();
  return rows.length(0, 0) > mean + kDeviations * std::sqrt(mean);
}

// The tails of one shape's rows, by how many slots are in registers and how rows are cut: the same for many variants of
// a plan.
class Tails {
 public:
  Tails(const RowProfile& rows, bool exact) : rows_(rows), exact_(exact) {}

  Tail of(const Network& network, const Plan& plan) {
    const Key key{plan.slots, {plan.pieces, plan.piece_slots, plan.row_chunks, plan.piece_chunks}};
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == key; });
    return known != known_.end() ? known->second
                                 : known_.emplace_back(key, tail_of(network, plan, rows_, exact_)).second;
  }
  bool exact() const { return exact_; }

 private:
  using Key = std::pair<Slots, std::array<int, 4>>;

  const RowProfile& rows_;
  bool exact_;
  std::vector<std::pair<Key, Tail>> known_;
};

// What the variants of a shape have in common.
struct Shape {
  Shape(const Network& network, const Plan& plan, const RowProfile& profile)
      : rows(profile), fills(filled_slots(network, plan, profile)), tails(profile, /*exact=*/false) {}

  // The ways to cut its long rows.
  const std::vector<Cut>& cuts(const Network& network, const Plan& plan) {
    if (const int units = units_per_sm(network, plan); units != units_of_cuts_) {  // as loads are wide
      units_of_cuts_ = units;
      cuts_ = cut_rows(network, plan, rows);
    }
    return cuts_;
  }

  const RowProfile& rows;
  Fills fills;
  Tails tails;
  bool long_rows = has_long_rows(rows);

 private:
  int units_of_cuts_ = 0;
  std::vector<Cut> cuts_;
};

// Gives a plan the tails of its rows: beyond the slots that `fill_registers` gives it to shared memory, and what that
// cannot hold to L2; as much as there is, and no further than is wished. False if no row has one.
template <typename FillRegisters>
bool give_rest(const Chip& chip, const Network& network, const PlanWishes& wishes, FillRegisters&& fill_registers,
               Tails& tails, Plan& plan) {
  const Tier most = wishes.tier.value_or(Tier::streamed);
  for (const bool streams : {false, true}) {
    plan.tail_chunks = 1;  // for the working registers and the tables
    plan.ring_chunks = streams ? 2 : 0;
    plan.shared_chunks = 0;
    fill_registers(plan);
    const Tail tail = tails.of(network, plan);
    if (tail.fullest == 0) {
      return false;
    }
    plan.tail_chunks = std::max(1, static_cast<int>(std::ceil(tail.mean)));  // the mean may be of SMs that have none
    plan.longest_tail = tail.longest;
    plan.shared_chunks = tails.exact() ? tail.fullest : static_cast<int>(std::ceil(kTailMargin * tail.fullest));
    const double free_bytes = chip.smem_bytes_per_block - static_cast<double>(state_bytes(network, plan));
    const int room = std::max(0, static_cast<int>(free_bytes / chunk_bytes(network, plan)));
    if (streams) {
      plan.ring_chunks = std::clamp(room / plan.warps() / 2, 2, kMostRingChunks);
      plan.shared_chunks = std::max(0, room - plan.ring_chunks * plan.warps());
    } else if (plan.shared_chunks <= room || most != Tier::streamed || plan.exchange_warps > 0) {
      break;
    }
  }
  return true;
}

// A plan whose rows are not cut: `slots`, or what the registers can hold of them.
bool give_tail(const Chip& chip, const Network& network, const PlanWishes& wishes, const Slots& slots, Tails& tails,
               Plan& plan) {
  const auto fill = [&](Plan& filled) {
    filled.slots = slots;
    cut_to_registers(chip, network, wishes, filled);
  };
  return give_rest(chip, network, wishes, fill, tails, plan);
}

// One whose rows are cut: what the registers cannot hold of the pieces has chunks, and then as many of every row; or
// the other way round.
bool give_tail(const Chip& chip, const Network& network, const PlanWishes& wishes, const Cut& cut, bool rows_first,
               Tails& tails, Plan& plan) {
  const auto fill = [&](Plan& filled) {
    const int per_chunk = chunk_slots(network, filled);
    int& first = rows_first ? filled.piece_chunks : filled.row_chunks;
    int& then = rows_first ? filled.row_chunks : filled.piece_chunks;
    first = then = 0;
    const auto chunks_of = [&](int slots) { return (slots + per_chunk - 1) / per_chunk; };
    // No row gets more room than the cut gives it: units are dealt by what is beyond.
    const int of_rows = *std::min_element(cut.slots.begin(), cut.slots.begin() + filled.rows_per_group) / per_chunk;
    const int of_pieces = chunks_of(cut.piece_slots);
    for (;;) {
      for (int r = 0; r < filled.rows_per_group; ++r) {
        filled.slots[r] = cut.slots[r] - filled.row_chunks * per_chunk;
      }
      filled.piece_slots = std::max(0, cut.piece_slots - filled.piece_chunks * per_chunk);
      if (register_words(network, filled) <= word_room(chip, network, wishes, filled)) {
        return;
      }
      if (first < (rows_first ? of_pieces : of_rows)) {
        ++first;
      } else if (then < (rows_first ? of_rows : of_pieces)) {
        ++then;
      } else {
        return;  // nothing is left in registers
      }
    }
  };
  return give_rest(chip, network, wishes, fill, tails, plan);
}

// Calls `consider` with the plan that has all weights in registers, if they fit or nothing else is wished, and with
// those that have a tail where rows are uneven or do not fit.
void consider_tiers(const Chip& chip, const Network& network, const PlanWishes& wishes, Shape& shape, Plan plan,
                    const Consider& consider) {
  const Tier most = wishes.tier.value_or(Tier::streamed);
  const bool fits = register_words(network, plan) <= word_room(chip, network, wishes, plan);
  if (fits || most == Tier::registers) {
    consider(plan);
  }
  // With exchange warps the warp with the longest tail would hold up every pass: steps of power-law rows took up to a
  // third longer than without.
  const bool holds_up = plan.exchange_warps > 0 && shape.long_rows;
  if (most == Tier::registers || holds_up || (fits && !is_uneven(plan, shape.fills))) {
    return;
  }
  if (plan.promote_every > 1) {
    plan.promote_every = wishes.promote_every.value_or(kPromoteLongRows);
  }
  for (const Slots& fill : shape.fills) {
    if (give_tail(chip, network, wishes, fill, shape.tails, plan)) {
      for (int chunks = 1; chunks <= most_chunks_in_flight(plan); chunks *= 2) {
        plan.chunks_in_flight = chunks;
        consider(plan);
      }
    }
    if (plan.slots != fill || plan.storage == Storage::dense) {
      break;  // more would be cut to the same, or all rows are alike
    }
  }
}

// The ways to cut the long rows of a shape into pieces: where there are any, or it is wished.
std::vector<Cut> wished_cuts(const Network& network, const PlanWishes& wishes, const Plan& plan, Shape& shape) {
  if (plan.storage == Storage::dense ||
      !(wishes.pieces ? *wishes.pieces > 0 : shape.long_rows && is_uneven(plan, shape.fills))) {
    return {};
  }
  std::vector<Cut> cuts = shape.cuts(network, plan);
  std::erase_if(cuts, [&](const Cut& cut) { return wishes.pieces && cut.pieces != *wishes.pieces; });
  return cuts;
}

// Calls `consider` with the plan as those ways have it: in registers, or with tails where they do not hold it.
void consider_cuts(const Chip& chip, const Network& network, const PlanWishes& wishes, const std::vector<Cut>& cuts,
                   Shape& shape, const Plan& uncut, const Consider& consider) {
  for (const Cut& cut : cuts) {
    Plan plan = uncut;
    plan.slots = cut.slots;
    plan.pieces = cut.pieces;
    plan.piece_slots = cut.piece_slots;
    plan.most_pieces = cut.most_pieces;
    if (register_words(network, plan) <= word_room(chip, network, wishes, plan)) {
      consider(plan);
      continue;
    }
    if (wishes.tier == Tier::registers) {
      continue;
    }
    if (plan.promote_every > 1) {
      plan.promote_every = wishes.promote_every.value_or(kPromoteLongRows);
    }
    for (const bool rows_first : {true, false}) {
      if (give_tail(chip, network, wishes, cut, rows_first, shape.tails, plan)) {
        const int most = std::min(most_chunks_in_flight(plan), std::max(plan.row_chunks, plan.piece_chunks));
        for (int chunks = 1; chunks <= most; chunks *= 2) {
          plan.chunks_in_flight = chunks;
          consider(plan);
        }
      }
    }
  }
}

// Calls `consider` with every way to run a shape that the wishes allow, for one width of loads and number of exchange
// warps.
void for_each_variant(const Chip& chip, const Network& network, const PlanWishes& wishes, Shape& shape, Plan plan,
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

// Slots per lane of a pair of rows that are worth trying, beside none: about as many as are needed for what two random
// rows have in common, and more, whose columns can be chosen so that loads reach all banks.
std::vector<int> common_choices(const Chip& chip, const Network& network, const RowProfile& rows,
                                const PlanWishes& wishes, const Plan& plan) {
  if (rows.gates() == 1 || plan.storage != Storage::packed_pair || info(network.precision).weight_bits != 16) {
    return {};
  }
  const double room = plan.sms * (4 * chip.registers_per_sm + chip.smem_bytes_per_sm);  // bytes
  if (4.0 * static_cast<double>(rows.nnz()) > room && !wishes.common_slots) {
    return {};  // what is streamed would take longer than what is saved
  }
  std::vector<int> choices;
  const auto add = [&](int slots) {
    if (slots > 0 && slots <= kMostCommonSlots) {
      choices.push_back(slots);
    }
  };
  if (wishes.common_slots) {
    add(*wishes.common_slots);
    return choices;
  }
  const double density = static_cast<double>(rows.nnz()) / rows.gates() / rows.units() / rows.units();
  const double common = density * density * rows.units() / plan.lanes_per_row;
  int last = 0;
  for (const double share : {1.2, 1.6, 2.0}) {
    if (const int slots = static_cast<int>(std::lround(share * common)); slots > last) {
      add(slots);
      last = slots;
    }
  }
  return choices;
}

// The same for every width of loads and number of exchange warps that the wishes allow.
void for_each_exchange(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                       Plan plan, const Consider& consider) {
  const int element = info(network.precision).bytes;
  plan.exchange = wishes.exchange.value_or(ExchangeProtocol::lamport);
  std::optional<Shape> shape;
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
    if (wishes.common_slots.value_or(0) == 0) {
      for_each_variant(chip, network, wishes, *shape, variant, consider);
    }
    for (const int slots : common_choices(chip, network, rows, wishes, variant)) {
      variant.common_slots = slots;
      variant.common_rows = variant.rows_per_group / rows.gates() * number_of_pairs(rows.gates());
      const RowProfile& own = rows.without_common(pair_room(network, variant));
      give_slots(network, own, variant);
      Shape of_own(network, variant, own);
      for_each_variant(chip, network, wishes, of_own, variant, consider);
    }
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

void settle_tails(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                  Plan& plan) {
  const RowProfile& own = own_rows(network, plan, rows);
  Tails tails(own, /*exact=*/true);
  if (plan.pieces == 0) {
    give_tail(chip, network, wishes, Slots(plan.slots), tails, plan);
    return;
  }
  Cut cut{{}, plan.pieces, piece_room(network, plan), plan.most_pieces};
  for (int r = 0; r < plan.rows_per_group; ++r) {
    cut.slots[r] = row_room(network, plan, r);
  }
  const bool rows_first = plan.row_chunks == 0 || plan.piece_slots == 0;
  give_tail(chip, network, wishes, cut, rows_first, tails, plan);
}

}  // namespace onchip
