// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/search/overflow.hpp"

#include "model/sparse/family.hpp"
#include "model/sparse/registers.hpp"

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
constexpr double kOverflowMargin = 1.02;  // a real mask's fullest SM over that of a few
// Slots of the longest rows over those of the median ones: worth overflow, or splits.
constexpr double kWorthEvening = 1.1;

Fills filled_slots(const SparseGeometry& geometry, GroupLengths& lengths) {
  Fills fills{geometry.slots, geometry.slots, geometry.slots};
  if (geometry.storage != Storage::dense) {
    const auto of_rows = lengths.of(geometry.groups() * geometry.sms, geometry.rows_per_group);
    for (int r = 0; r < geometry.rows_per_group; ++r) {
      for (std::size_t fill = 0; fill < fills.size(); ++fill) {
        fills[fill][r] = std::min(fills[fill][r], of_rows[r][fill] / geometry.lanes_per_row);
      }
    }
  }
  const int whole = geometry.bundle.slots;
  for (Slots& slots : fills) {
    for (int r = 0; r < geometry.rows_per_group; ++r) {
      slots[r] = slots[r] / whole * whole;
    }
  }
  return fills;
}

// Whether the longest rows need clearly more slots than the median ones.
bool is_uneven(const SparsePlan& plan, const Fills& fills) {
  const Slots& median = fills[1];
  const int filled = std::accumulate(median.begin(), median.begin() + plan.rows_per_group, 0);
  return plan.slots_total() > kWorthEvening * filled;
}

// Whether the longest rows are longer than by chance, of places that are drawn one by one.
bool has_long_rows(const RowProfile& rows) {
  constexpr double kDeviations = 6;
  const double mean = static_cast<double>(rows.nnz()) / rows.units() / rows.gates();
  return rows.length(0, 0) > mean + kDeviations * std::sqrt(mean);
}

// Gives plans the registers that a chip has for them, and the overflow of what those cannot hold.
class Filler {
 public:
  Filler(const Chip& chip, const Recurrent& network, const Constraints& constraints)
      : chip_(chip), network_(network), constraints_(constraints) {}

  // Registers of a thread for weight words.
  int word_room(const SparseGeometry& geometry) const {
    return registers_available(chip_, geometry) - working_registers(chip_, geometry) - constraints_.spare_registers;
  }
  bool fits(const SparsePlan& plan) const {
    const SparseGeometry geometry(network_, plan);
    return geometry.register_words <= word_room(geometry);
  }

  // A plan whose rows are not split: `slots`, or what the registers can hold of them. False if no row overflows.
  bool give_overflow(const Slots& slots, Overflows& overflows, SparsePlan& plan) const {
    return give_rest(
        [&](SparsePlan& filled) {
          filled.slots = slots;
          cut_to_registers(filled);
        },
        overflows, plan);
  }

  // One whose rows are split: what the registers cannot hold of the splits has chunks, and then as many of every row;
  // or the other way round.
  bool give_overflow(const SplitChoice& split, bool rows_first, Overflows& overflows, SparsePlan& plan) const {
    const auto fill = [&](SparsePlan& filled) {
      const int per_chunk = SparseGeometry(network_, filled).chunk_slots;
      int& first = rows_first ? filled.split_chunks : filled.row_chunks;
      int& then = rows_first ? filled.row_chunks : filled.split_chunks;
      first = then = 0;
      // No row gets more room than the choice gives it: units are assigned by what is beyond.
      int of_rows = std::numeric_limits<int>::max();
      for (int r = 0; r < filled.rows_per_group; ++r) {
        of_rows = std::min(of_rows, split.slots[r] / per_chunk);
      }
      const int of_splits = (split.split_slots + per_chunk - 1) / per_chunk;
      for (;;) {
        for (int r = 0; r < filled.rows_per_group; ++r) {
          filled.slots[r] = split.slots[r] - filled.row_chunks * per_chunk;
        }
        filled.split_slots = std::max(0, split.split_slots - filled.split_chunks * per_chunk);
        if (fits(filled)) {
          return;
        }
        if (first < (rows_first ? of_splits : of_rows)) {
          ++first;
        } else if (then < (rows_first ? of_rows : of_splits)) {
          ++then;
        } else {
          return;  // nothing is left in registers
        }
      }
    };
    return give_rest(fill, overflows, plan);
  }

 private:
  // Cuts every row's slots by the same share, so that the registers hold them; whole bundles stay whole.
  void cut_to_registers(SparsePlan& plan) const {
    const SparseGeometry geometry(network_, plan);
    const int others = plan.rows_per_group * geometry.start_words;
    const int room = std::max(0, word_room(geometry) - others);
    const int words = geometry.register_words - others;
    const int whole = geometry.bundle.slots;
    for (int r = 0; words > room && r < plan.rows_per_group; ++r) {
      plan.slots[r] = static_cast<int>(static_cast<std::int64_t>(plan.slots[r]) * room / words) / whole * whole;
    }
  }

  // Gives a plan the overflow of its rows: beyond the slots that `fill_registers` gives it to shared memory, and what
  // that cannot hold to L2; as much as there is, and no further than is asked for. False if no row overflows.
  template <typename FillRegisters>
  bool give_rest(FillRegisters&& fill_registers, Overflows& overflows, SparsePlan& plan) const {
    const Tier most = constraints_.tier.value_or(Tier::streamed);
    for (const bool streams : {false, true}) {
      plan.overflow_chunks = 1;  // for the working registers and the tables
      plan.ring_chunks = streams ? 2 : 0;
      plan.shared_chunks = 0;
      fill_registers(plan);
      const Overflow overflow = overflows.of(SparseGeometry(network_, plan));
      if (overflow.fullest == 0) {
        return false;
      }
      // The mean may be of SMs that have none.
      plan.overflow_chunks = std::max(1, static_cast<int>(std::ceil(overflow.mean)));
      plan.longest_overflow = overflow.longest;
      plan.shared_chunks =
          overflows.exact() ? overflow.fullest : static_cast<int>(std::ceil(kOverflowMargin * overflow.fullest));
      const SparseGeometry geometry(network_, plan);
      const double free_bytes = chip_.smem_bytes_per_block - static_cast<double>(geometry.bytes_without_weights());
      const int room = std::max(0, static_cast<int>(free_bytes / geometry.chunk_bytes));
      if (streams) {
        plan.ring_chunks = std::clamp(room / plan.warps() / 2, 2, kMostRingChunks);
        plan.shared_chunks = std::max(0, room - plan.ring_chunks * plan.warps());
      } else if (plan.shared_chunks <= room || most != Tier::streamed || plan.producer_warps > 0) {
        break;
      }
    }
    return true;
  }

  const Chip& chip_;
  const Recurrent& network_;
  const Constraints& constraints_;
};

void promote_long_rows(const Constraints& constraints, SparsePlan& plan) {
  if (plan.promote_every > 1) {
    plan.promote_every = fixed_value<&SparsePlan::promote_every>(constraints).value_or(kPromoteLongRows);
  }
}

}  // namespace

Overflow Overflows::of(const SparseGeometry& geometry) {
  const Key key{geometry.slots,
                {geometry.row_splits, geometry.split_slots, geometry.row_chunks, geometry.split_chunks}};
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == key; });
  return known != known_.end() ? known->second : known_.emplace_back(key, overflow_of(geometry, rows_, exact_)).second;
}

std::span<const GroupLengths::Lengths> GroupLengths::of(int groups, int rows_per_group) {
  constexpr std::array<double, std::tuple_size_v<Lengths>> kShareBelow{0.0, 0.5, 0.85};  // of the rows
  constexpr int kSamples = 256;
  const int gates = rows_.gates();
  std::vector<Lengths>& known = known_[groups];
  for (int r = static_cast<int>(known.size()); r < rows_per_group; ++r) {
    const int first = std::min(rows_.units(), r / gates * groups), last = std::min(rows_.units(), first + groups);
    lengths_.clear();
    for (int rank = first; rank < last; rank += std::max(1, (last - first) / kSamples)) {
      lengths_.push_back(rows_.length(rank, r % gates));
    }
    Lengths& lengths = known.emplace_back();
    auto end = lengths_.end();  // behind what may be less than the last length that was found
    for (std::size_t share = kShareBelow.size(); share-- > 0 && !lengths_.empty();) {
      const auto at =
          lengths_.begin() + static_cast<std::ptrdiff_t>(kShareBelow[share] * static_cast<double>(lengths_.size()));
      if (at < end) {
        std::nth_element(lengths_.begin(), at, end);
        end = at;
      }
      lengths[share] = *at;
    }
  }
  return known;
}

SparseShape::SparseShape(const Recurrent& network, const SparsePlan& plan, const RowProfile& profile,
                         GroupLengths& lengths)
    : rows(profile),
      fills(filled_slots(SparseGeometry(network, plan), lengths)),
      overflows(profile, /*exact=*/false),
      long_rows(has_long_rows(profile)) {}

const std::vector<SplitChoice>& SparseShape::splits(const SparseGeometry& geometry) {
  if (const int units = geometry.units_per_sm; units != units_of_splits_) {  // as loads are wide
    units_of_splits_ = units;
    splits_ = split_choices(geometry.network, geometry, rows);
  }
  return splits_;
}

void consider_overflow(const Chip& chip, const Recurrent& network, const Constraints& constraints, SparseShape& shape,
                       SparsePlan plan, const Consider<SparsePlan>& consider) {
  const Filler filler(chip, network, constraints);
  const Tier most = constraints.tier.value_or(Tier::streamed);
  const bool fits = filler.fits(plan);
  if (fits || most == Tier::registers) {
    consider(plan);
  }
  // With producer warps the warp with the longest overflow would hold up every pass: steps of power-law rows took up to
  // a third longer than without.
  const bool holds_up = plan.producer_warps > 0 && shape.long_rows;
  if (most == Tier::registers || holds_up || (fits && !is_uneven(plan, shape.fills))) {
    return;
  }
  promote_long_rows(constraints, plan);
  for (const Slots& fill : shape.fills) {
    if (filler.give_overflow(fill, shape.overflows, plan)) {
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

bool may_split(std::optional<int> row_splits, const SparseGeometry& geometry, const RowProfile& rows) {
  return geometry.storage != Storage::dense && (row_splits ? *row_splits > 0 : has_long_rows(rows));
}

double least_slots(const SparseGeometry& geometry, const RowProfile& rows, bool splits) {
  if (geometry.storage == Storage::dense) {
    return geometry.slots_total();
  }
  const int gates = rows.gates(), groups = geometry.groups(), of_warp = groups / geometry.warps();
  double least = geometry.slots_total();  // in registers
  // Of the SMs whose overflow stands for the mean (overflow_of): all that is beyond the registers is counted there.
  double sum = 0;
  for (const int sm : sampled_sms(geometry)) {
    std::int64_t nnz = 0, slots = 0;
    for (int row = 0; row * groups < geometry.units_per_sm; ++row) {
      for (int at = 0; at < gates; ++at) {
        int longest = 0;
        for (int group = 0; group < groups; ++group) {
          const int rank = sampled_rank(geometry, sm, row * groups + group);
          const int length =
              rank < rows.units() && row * groups + group < geometry.units_per_sm ? rows.length(rank, at) : 0;
          nnz += length;
          longest = std::max(longest, length);
          if (group % of_warp == of_warp - 1) {
            slots += (longest + geometry.lanes_per_row - 1) / geometry.lanes_per_row;
            longest = 0;
          }
        }
      }
    }
    sum += splits ? static_cast<double>(nnz) / geometry.threads : static_cast<double>(slots) / geometry.warps();
  }
  least = std::min(least, sum / 2);
  return splits ? std::min(least, static_cast<double>(rows.nnz()) / (1.0 * geometry.sms * geometry.threads)) : least;
}

std::vector<SplitChoice> worthwhile_splits(const Recurrent& network, std::optional<int> row_splits,
                                           const SparsePlan& plan, SparseShape& shape) {
  if (plan.storage == Storage::dense ||
      !(row_splits ? *row_splits > 0 : shape.long_rows && is_uneven(plan, shape.fills))) {
    return {};
  }
  std::vector<SplitChoice> choices = shape.splits(SparseGeometry(network, plan));
  std::erase_if(choices, [&](const SplitChoice& choice) { return row_splits && choice.row_splits != *row_splits; });
  return choices;
}

void consider_splits(const Chip& chip, const Recurrent& network, const Constraints& constraints,
                     const std::vector<SplitChoice>& splits, SparseShape& shape, const SparsePlan& whole,
                     const Consider<SparsePlan>& consider) {
  const Filler filler(chip, network, constraints);
  for (const SplitChoice& split : splits) {
    SparsePlan plan = whole;
    plan.slots = split.slots;
    plan.row_splits = split.row_splits;
    plan.split_slots = split.split_slots;
    plan.most_splits = split.most_splits;
    if (filler.fits(plan)) {
      consider(plan);
      continue;
    }
    if (constraints.tier == Tier::registers) {
      continue;
    }
    promote_long_rows(constraints, plan);
    for (const bool rows_first : {true, false}) {
      if (filler.give_overflow(split, rows_first, shape.overflows, plan)) {
        const int most = std::min(kMostChunksInFlight, std::max(plan.row_chunks, plan.split_chunks));
        for (int chunks = 1; chunks <= most; chunks *= 2) {
          plan.chunks_in_flight = chunks;
          consider(plan);
        }
      }
    }
  }
}

SparsePlan with_exact_overflow(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                               const Constraints& constraints, SparsePlan plan) {
  const Filler filler(chip, network, constraints);
  Overflows overflows(rows, /*exact=*/true);
  if (plan.row_splits == 0) {
    filler.give_overflow(Slots(plan.slots), overflows, plan);
    return plan;
  }
  const SparseGeometry geometry(network, plan);
  SplitChoice split{{}, plan.row_splits, geometry.split_room(), plan.most_splits};
  for (int r = 0; r < plan.rows_per_group; ++r) {
    split.slots[r] = geometry.row_room(r);
  }
  const bool rows_first = plan.row_chunks == 0 || plan.split_slots == 0;
  filler.give_overflow(split, rows_first, overflows, plan);
  return plan;
}

SparsePlan with_poll_delay(const Chip& chip, const Recurrent& network, const Constraints& constraints,
                           SparsePlan plan) {
  plan.poll_delay = 0;
  const SparseGeometry geometry(network, plan);
  plan.poll_delay = fixed_value<&SparsePlan::poll_delay>(constraints)
                        .value_or(best_poll_delay(chip, geometry, price(chip, geometry).terms));
  return plan;
}

Consider<SparsePlan> with_poll_delays(const Chip& chip, const Recurrent& network, const Constraints& constraints,
                                      const Consider<SparsePlan>& consider) {
  const auto delayed = [&](const SparsePlan& plan) {
    if (plan.producer_warps == 0 || plan.exchange != ExchangeProtocol::lamport) {
      consider(plan);
    } else if (consider.is_worth({price(chip, SparseGeometry(network, plan)).terms.total(), 0})) {
      consider(with_poll_delay(chip, network, constraints, plan));
    }
  };
  return Consider<SparsePlan>(delayed, [&](const Bound& bound) { return consider.is_worth(bound); });
}

SparsePlan settled(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints,
                   const SparsePlan& chosen) {
  SparsePlan plan = chosen;
  if (plan.has_overflow()) {  // of which so far an estimate was enough
    plan = with_exact_overflow(chip, network, rows, constraints, plan);
  }
  return with_poll_delay(chip, network, constraints, plan);
}

}  // namespace onchip
