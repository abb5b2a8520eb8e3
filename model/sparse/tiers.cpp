// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/tiers.hpp"

#include "model/plan/footprint.hpp"
#include "model/plan/registers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace onchip {
namespace {

// Products summed in fp16 before they join the fp32 sum, where rows are longer than the registers hold: twice as many
// as elsewhere. On an H200 lstm H=5632 B=4 10 % then takes 5.95 instead of 6.02 us, its error is 0.00030 instead of
// 0.00027.
constexpr int kPromoteLongRows = 16;
constexpr double kTailMargin = 1.02;  // a real mask's fullest SM over that of a few
constexpr double kWorthEvening =
    1.1;  // slots of the longest rows over those of the median ones: worth a tail, or pieces

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

// Cuts every row's slots by the same share, so that the registers hold them; whole bundles stay whole.
void cut_to_registers(const Chip& chip, const Network& network, const PlanWishes& wishes, Plan& plan) {
  const int others = plan.rows_per_group * start_words(plan);
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
    int of_rows = std::numeric_limits<int>::max();
    for (int r = 0; r < filled.rows_per_group; ++r) {
      of_rows = std::min(of_rows, cut.slots[r] / per_chunk);
    }
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

}  // namespace

Tail Tails::of(const Network& network, const Plan& plan) {
  const Key key{plan.slots, {plan.pieces, plan.piece_slots, plan.row_chunks, plan.piece_chunks}};
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == key; });
  return known != known_.end() ? known->second : known_.emplace_back(key, tail_of(network, plan, rows_, exact_)).second;
}

SparseShape::SparseShape(const Network& network, const Plan& plan, const RowProfile& profile)
    : rows(profile),
      fills(filled_slots(network, plan, profile)),
      tails(profile, /*exact=*/false),
      long_rows(has_long_rows(profile)) {}

const std::vector<Cut>& SparseShape::cuts(const Network& network, const Plan& plan) {
  if (const int units = units_per_sm(network, plan); units != units_of_cuts_) {  // as loads are wide
    units_of_cuts_ = units;
    cuts_ = cut_rows(network, plan, rows);
  }
  return cuts_;
}

void consider_tiers(const Chip& chip, const Network& network, const PlanWishes& wishes, SparseShape& shape, Plan plan,
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
      for (int chunks = 1; chunks <= kMostChunksInFlight; chunks *= 2) {
        plan.chunks_in_flight = chunks;
        consider(plan);
      }
    }
    if (plan.slots != fill || plan.storage == Storage::dense) {
      break;  // more would be cut to the same, or all rows are alike
    }
  }
}

std::vector<Cut> wished_cuts(const Network& network, const PlanWishes& wishes, const Plan& plan, SparseShape& shape) {
  if (plan.storage == Storage::dense ||
      !(wishes.pieces ? *wishes.pieces > 0 : shape.long_rows && is_uneven(plan, shape.fills))) {
    return {};
  }
  std::vector<Cut> cuts = shape.cuts(network, plan);
  std::erase_if(cuts, [&](const Cut& cut) { return wishes.pieces && cut.pieces != *wishes.pieces; });
  return cuts;
}

void consider_cuts(const Chip& chip, const Network& network, const PlanWishes& wishes, const std::vector<Cut>& cuts,
                   SparseShape& shape, const Plan& uncut, const Consider& consider) {
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
        const int most = std::min(kMostChunksInFlight, std::max(plan.row_chunks, plan.piece_chunks));
        for (int chunks = 1; chunks <= most; chunks *= 2) {
          plan.chunks_in_flight = chunks;
          consider(plan);
        }
      }
    }
  }
}

void settle_tails(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                  Plan& plan) {
  Tails tails(rows, /*exact=*/true);
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
