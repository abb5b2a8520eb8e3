// SPDX-License-Identifier: Apache-2.0
#include "model/planner.hpp"

#include "model/cut.hpp"
#include "model/dealing.hpp"
#include "model/error.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace onchip {
namespace {

// How far a plan is from fitting: its largest share of a resource; 1 and below fits.
double overload(const Footprint& footprint) {
  double worst = 0;
  for (const ResourceUse& resource : footprint.resources) {
    worst = std::max(worst, resource.share());
  }
  return worst;
}

bool better(const Prediction& a, const Prediction& b) {
  if (a.footprint.fits != b.footprint.fits) {
    return a.footprint.fits;
  }
  return a.footprint.fits ? a.step_us < b.step_us : overload(a.footprint) < overload(b.footprint);
}

constexpr std::array kLanes{32, 16, 8, 4, 2};
constexpr std::array kExchangeWarps{3, 4, 5};
// Bytes of a load where passes take turns: of 4, as batches of 4 leave in 16 bits, steps of validation.csv took as long
// as without exchange warps in fp16 and up to half as long again in bf16; of 8 and more, 6 to 16 % less.
constexpr int kLeastOfTurns = 8;
constexpr int kMostLoadsInFlight = 8;
constexpr int kMostLoadsOfSplit = 4;  // what the registers of a fetching thread hold (register_split)
// Products summed in fp16 before they join the fp32 sum: twice as many where rows are longer than the registers hold.
// On an H200 lstm H=5632 B=4 10 % then takes 5.95 instead of 6.02 us, its error is 0.00030 instead of 0.00027.
constexpr int kPromote = 8, kPromoteLongRows = 16;
constexpr double kTailMargin = 1.02;  // a real mask's fullest SM over that of a few
constexpr double kWorthEvening =
    1.1;  // slots of the longest rows over those of the median ones: worth a tail, or pieces

// The numbers of SMs worth trying: as few as give each the same number of units as all would; all, which leaves room to
// give an SM with long rows fewer of them; and half of the first.
std::array<int, 3> sm_choices(const Chip& chip, int units) {
  const int all = static_cast<int>(chip.sm_count);
  const int units_per_sm = (units + all - 1) / all;
  const int fewest = (units + units_per_sm - 1) / units_per_sm;
  return {fewest, all, std::max(1, fewest / 2)};
}

// Slots for the registers: those that all rows need, or half of them, or few.
enum class Fill { shortest, median, long_ones };

using Slots = std::array<int, kMaxRowsPerGroup>;

Slots filled_slots(const Network& network, const Plan& plan, const RowProfile& rows, Fill fill) {
  constexpr std::array kShareBelow{0.0, 0.5, 0.85};  // of the rows, by Fill
  constexpr int kSamples = 256;
  Slots slots = plan.slots;
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
    if (lengths.empty()) {
      slots[r] = 0;
      continue;
    }
    const double below = kShareBelow[static_cast<std::size_t>(fill)] * static_cast<double>(lengths.size());
    const auto wanted = lengths.begin() + static_cast<std::ptrdiff_t>(below);
    std::nth_element(lengths.begin(), wanted, lengths.end());
    slots[r] = std::min(slots[r], *wanted / plan.lanes_per_row);
  }
  const int whole = bundle(network, plan).slots;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    slots[r] = slots[r] / whole * whole;
  }
  return slots;
}

// Whether the longest rows need clearly more slots than the median ones.
bool is_uneven(const Plan& plan, const Slots& median) {
  const int filled = std::accumulate(median.begin(), median.begin() + plan.rows_per_group, 0);
  return plan.slots_total() > kWorthEvening * filled;
}

// Cuts every row's slots by the same share, so that the registers hold them; whole bundles stay whole.
void cut_to_registers(const Chip& chip, const Network& network, Plan& plan) {
  const int starts = plan.rows_per_group * start_words(plan);
  const int room = std::max(0, registers_available(chip, plan) - working_registers(chip, network, plan) - starts);
  const int words = register_words(network, plan) - starts;
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

// The tails of one shape's rows, by how many slots are in registers: the same for many variants of a plan.
class Tails {
 public:
  Tails(const RowProfile& rows, bool exact) : rows_(rows), exact_(exact), of_long_rows_(has_long_rows(rows)) {}

  Tail of(const Network& network, const Plan& plan) {
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == plan.slots; });
    return known != known_.end() ? known->second
                                 : known_.emplace_back(plan.slots, tail_of(network, plan, rows_, exact_)).second;
  }
  bool exact() const { return exact_; }
  bool of_long_rows() const { return of_long_rows_; }

 private:
  const RowProfile& rows_;
  bool exact_, of_long_rows_;
  std::vector<std::pair<Slots, Tail>> known_;
};

// Gives a plan the tails of its rows: beyond `slots`, or what the registers can hold of them, to shared memory, and
// what that cannot hold to L2; as much as there is, and no further than `most`. False if no row has one.
bool give_tail(const Chip& chip, const Network& network, Tier most, const Slots& slots, Tails& tails, Plan& plan) {
  for (const bool streams : {false, true}) {
    plan.slots = slots;
    plan.tail_chunks = 1;  // for the working registers and the tables
    plan.ring_chunks = streams ? 2 : 0;
    plan.shared_chunks = 0;
    cut_to_registers(chip, network, plan);
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

// Calls `consider` with the plan that has all weights in registers, if they fit or nothing else is wished, and with
// those that have a tail where rows are uneven or do not fit.
template <typename Consider>
void consider_tiers(const Chip& chip, const Network& network, const PlanWishes& wishes,
                    const std::array<Slots, 3>& fills, Tails& tails, Plan plan, Consider&& consider) {
  const Tier most = wishes.tier.value_or(Tier::streamed);
  const int room = registers_available(chip, plan) - working_registers(chip, network, plan);
  const bool fits = register_words(network, plan) <= room;
  if (fits || most == Tier::registers) {
    consider(plan);
  }
  // With exchange warps the warp with the longest tail would hold up every pass: steps of power-law rows took up to a
  // third longer than without.
  const bool holds_up = plan.exchange_warps > 0 && tails.of_long_rows();
  if (most == Tier::registers || holds_up || (fits && !is_uneven(plan, fills[1]))) {
    return;
  }
  if (plan.promote_every > 1) {
    plan.promote_every = wishes.promote_every.value_or(kPromoteLongRows);
  }
  for (const Slots& fill : fills) {
    if (give_tail(chip, network, most, fill, tails, plan)) {
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

// The ways to cut the long rows of a shape into pieces: where there are any, or it is wished.
std::vector<Cut> wished_cuts(const Network& network, const RowProfile& rows, const PlanWishes& wishes, const Plan& plan,
                             const Slots& median) {
  if (plan.storage != Storage::packed_pair || plan.exchange_warps > 0 ||
      !(wishes.pieces ? *wishes.pieces > 0 : is_uneven(plan, median) && has_long_rows(rows))) {
    return {};
  }
  std::vector<Cut> cuts = cut_rows(network, plan, rows);
  std::erase_if(cuts, [&](const Cut& cut) { return wishes.pieces && cut.pieces != *wishes.pieces; });
  return cuts;
}

// Calls `consider` with the plan as those ways have it, where the registers hold it.
template <typename Consider>
void consider_cuts(const Chip& chip, const Network& network, const std::vector<Cut>& cuts, Plan plan,
                   Consider&& consider) {
  for (const Cut& cut : cuts) {
    plan.slots = cut.slots;
    plan.pieces = cut.pieces;
    plan.piece_slots = cut.piece_slots;
    plan.most_pieces = cut.most_pieces;
    const int room = registers_available(chip, plan) - working_registers(chip, network, plan);
    if (register_words(network, plan) <= room) {
      consider(plan);
    }
  }
}

// Calls `consider` with every way to run a shape that the wishes allow, for one width of loads and number of exchange
// warps.
template <typename Consider>
void for_each_variant(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                      Plan plan, Consider&& consider) {
  const int gates = info(network.cell).gates;
  plan.order = wishes.order.value_or(RowOrder::bank_aware);
  plan.exchange = wishes.exchange.value_or(ExchangeProtocol::lamport);
  plan.line_words = best_line_words(network, plan);
  if (plan.storage == Storage::dense) {  // narrower loads may need more places than the shape was made for
    const int before = plan.slots[0];
    const int slots = row_slots(network, plan, state_units(network, plan));
    std::replace(plan.slots.begin(), plan.slots.begin() + plan.rows_per_group, before, slots);
  }
  const bool half_sums = state_type(network.precision) == Precision::fp16;
  plan.promote_every = wishes.promote_every.value_or(half_sums ? kPromote : 1);
  const int all_planes = planes(network, plan);
  const std::array fills{filled_slots(network, plan, rows, Fill::shortest),
                         filled_slots(network, plan, rows, Fill::median),
                         filled_slots(network, plan, rows, Fill::long_ones)};
  Tails tails(rows, /*exact=*/false);
  const std::vector<Cut> cuts = wished_cuts(network, rows, wishes, plan, fills[1]);
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
      const int most_loads = register_split(plan) ? kMostLoadsOfSplit : kMostLoadsInFlight;
      for (int loads = 1; loads <= most_loads; ++loads) {
        plan.loads_in_flight = wishes.loads_in_flight.value_or(loads);
        if (wishes.pieces.value_or(0) == 0) {
          consider_tiers(chip, network, wishes, fills, tails, plan, consider);
        }
        consider_cuts(chip, network, cuts, plan, consider);
        if (wishes.loads_in_flight || loads >= needed) {
          break;  // more than there are words
        }
      }
    }
  }
}

// The same for every width of loads and number of exchange warps that the wishes allow.
template <typename Consider>
void for_each_exchange(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                       Plan plan, Consider&& consider) {
  const int element = info(network.precision).bytes;
  plan.load_bytes = std::max(element, wishes.load_bytes.value_or(kWidestLoad));
  if (wishes.exchange_warps.value_or(0) == 0) {
    for_each_variant(chip, network, rows, wishes, plan, consider);
  }
  // The loads that rows stored dense share take more registers than is known where passes take turns.
  if (plan.storage == Storage::dense || wishes.exchange_warps == 0 || wishes.pieces.value_or(0) > 0 ||
      wishes.exchange.value_or(ExchangeProtocol::lamport) != ExchangeProtocol::lamport) {
    return;
  }
  // Two passes at least: loads of half of the samples where one load could take all.
  plan.load_bytes = std::max(element, wishes.load_bytes.value_or(std::min(kWidestLoad, unit_bytes(network, plan) / 2)));
  if (planes(network, plan) == 1 || (plan.load_bytes < kLeastOfTurns && !wishes.exchange_warps)) {
    return;
  }
  for (const int warps : kExchangeWarps) {
    plan.exchange_warps = wishes.exchange_warps.value_or(warps);
    if (plan.block_threads() <= chip.max_threads_per_block) {
      for_each_variant(chip, network, rows, wishes, plan, consider);
    }
    if (wishes.exchange_warps) {
      break;
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

// Calls `consider` with every plan of the sparse family that the wishes allow.
template <typename Consider>
void for_each_sparse_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                          Consider&& consider) {
  const int gates = info(network.cell).gates;
  int last_threads = 0;
  for (const Storage storage : {Storage::packed_pair, Storage::dense, Storage::packed_delta}) {
    if (wishes.storage ? *wishes.storage != storage : !is_worth_trying(chip, network, rows, storage)) {
      continue;
    }
    if (storage == Storage::packed_delta && network.precision == Precision::fp32) {
      continue;  // no smaller than pairs
    }
    for (const int choice : sm_choices(chip, rows.units())) {
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

// ---- dense persistent ----------------------------------------------------------------------------------------------

constexpr std::array kDenseThreads{128, 256, 384, 512, 768, 1024};

// Tiles beyond what the registers hold go to shared memory, unless it is wished that nothing does.
void keep_tiles(const Chip& chip, const Network& network, Tier most, Plan& plan) {
  constexpr int kTileRegisters = 4;
  const int tiles = warp_tiles(network, plan), metadata = metadata_words(network, plan);
  plan.shared_tiles = 0;
  for (int more = tiles; most != Tier::registers && more > 0;) {  // tiles on their way from there take registers too
    const int room = registers_available(chip, plan) - working_registers(chip, network, plan) - metadata;
    more = tiles - std::clamp(room / kTileRegisters, 0, tiles) - plan.shared_tiles;
    plan.shared_tiles += std::max(0, more);
  }
}

// Calls `consider` with the plan for every useful number of loads in flight.
template <typename Consider>
void for_each_load(const Chip& chip, const Network& network, const PlanWishes& wishes, Plan plan, Consider&& consider) {
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
      keep_tiles(chip, network, wishes.tier.value_or(Tier::streamed), plan);
      consider(plan);
    }
    if (wishes.loads_in_flight) {
      break;
    }
  }
}

// Calls `consider` with every plan of the dense family of this storage that the wishes allow.
template <typename Consider>
void for_each_dense_plan(const Chip& chip, const Network& network, const PlanWishes& wishes, Storage storage,
                         Consider&& consider) {
  const auto even = [](int units) { return (units + 1) / 2 * 2; };
  const auto with_teams = [&](ExchangeProtocol exchange, int sms, int teams) {
    for (const int threads : kDenseThreads) {
      Plan plan = shape_dense_plan(network, sms, threads, teams, storage);
      plan.exchange = exchange;
      plan.line_words = best_line_words(network, plan);
      for_each_load(chip, network, wishes, plan, consider);
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

// Whether the dense family can run what is asked: its tensor cores multiply 16-bit types, and what is wished of how
// sparse rows are stored, ordered and gathered means nothing to it.
bool dense_is_possible(const Chip& chip, const Network& network, const PlanWishes& wishes) {
  constexpr int kFirstWithTheProduct = 8;  // compute capability of mma.m16n8k16
  const Storage storage = wishes.storage.value_or(Storage::dense);
  const bool wishes_sparse = (storage != Storage::dense && storage != Storage::structured_2_4) || wishes.order ||
                             wishes.lanes_per_row || wishes.rows_per_group || wishes.tile_rows || wishes.load_bytes ||
                             wishes.promote_every || wishes.exchange_warps.value_or(0) > 0 ||
                             wishes.pieces.value_or(0) > 0;
  const bool multiplies = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  return chip.compute_capability_major >= kFirstWithTheProduct && multiplies && !wishes_sparse;
}

// The sparse family exchanges the state through L2, among all its SMs.
bool sparse_is_possible(const PlanWishes& wishes) {
  return wishes.storage != Storage::structured_2_4 &&
         wishes.exchange.value_or(ExchangeProtocol::lamport) != ExchangeProtocol::cluster &&
         wishes.teams.value_or(1) == 1;
}

// Calls `consider` with every plan that the wishes allow.
template <typename Consider>
void for_each_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                   Consider&& consider) {
  if (wishes.family.value_or(Family::sparse_persistent) == Family::sparse_persistent && sparse_is_possible(wishes)) {
    for_each_sparse_plan(chip, network, rows, wishes, consider);
  }
  if (wishes.family.value_or(Family::dense_persistent) == Family::dense_persistent &&
      dense_is_possible(chip, network, wishes)) {
    for (const Storage storage : {Storage::dense, Storage::structured_2_4}) {
      const bool is_possible = storage == Storage::dense || rows.is_two_four();
      if (is_possible && wishes.storage.value_or(storage) == storage) {
        for_each_dense_plan(chip, network, wishes, storage, consider);
      }
    }
  }
}

PlannedNetwork with_library(const Chip& chip, const Network& network, Family family) {
  const Plan plan = library_plan(family);
  return {network, plan, predict(chip, network, plan)};
}

// Of a step, what is not its exchange.
double body_cycles(const Chip& chip, const Prediction& prediction) {
  const double exchange_us =
      prediction.parts_us[static_cast<int>(Part::exchange)] + prediction.parts_us[static_cast<int>(Part::staging)];
  return (prediction.step_us - exchange_us) * 1e-6 * chip.clock_hz;
}

constexpr std::array kLibraries{Family::cublas_graph, Family::cudnn, Family::cusparse_graph};

}  // namespace

PlannedNetwork quickest_library(const Chip& chip, const Network& network) {
  PlannedNetwork best = with_library(chip, network, kLibraries[0]);
  for (const Family family : kLibraries) {
    PlannedNetwork other = with_library(chip, network, family);
    if (better(other.prediction, best.prediction)) {
      best = std::move(other);
    }
  }
  return best;
}

PlannedNetwork choose_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes) {
  if (wishes.family && is_library(*wishes.family)) {
    return with_library(chip, network, *wishes.family);
  }
  if (wishes.storage == Storage::structured_2_4) {
    check_two_four(rows);
  }
  PlannedNetwork best{network, {}, {}};
  bool found = false;
  for_each_plan(chip, network, rows, wishes, [&](const Plan& plan) {
    const Prediction prediction = predict(chip, network, plan);
    if (!found || better(prediction, best.prediction)) {
      best.plan = plan;
      best.prediction = prediction;
      found = true;
    }
  });
  if (!found && wishes.storage == Storage::packed_delta && network.precision == Precision::fp32) {
    throw InputError("packed_delta stores values of 8 or 16 bits, found fp32: packed_pair takes no more room for them");
  }
  if (!found && wishes.exchange_warps.value_or(0) > 0) {
    throw InputError(
        "no plan with exchange warps computes " + describe(network) +
        " as wished: they need the lamport exchange and at least two loads' worth of samples, of which each "
        "is exchanged in turn");
  }
  if (!found && wishes.pieces.value_or(0) > 0) {
    throw InputError("no plan with " + std::to_string(*wishes.pieces) + " pieces of rows per group computes " +
                     describe(network) +
                     " as wished: they are of packed_pair, in registers, 1, 2 or 4, and no exchange warps beside them");
  }
  if (!found && wishes.family == Family::sparse_persistent && !sparse_is_possible(wishes)) {
    throw InputError("sparse_persistent plans know neither structured_2_4 nor the cluster exchange nor teams");
  }
  if (!found && (wishes.family == Family::dense_persistent || !sparse_is_possible(wishes))) {
    throw InputError(
        "no dense_persistent plan computes " + describe(network) +
        " as wished: it needs compute capability 8.0, fp16 or bf16, loads_in_flight in multiples of two for "
        "every 8 samples of a team, teams that divide the batch, and for the cluster exchange clusters");
  }
  if (!found && !wishes.rows_per_group) {  // no shape has few enough threads: say so with the least that is asked for
    PlanWishes most_rows = wishes;
    most_rows.rows_per_group = kMaxRowsPerGroup / info(network.cell).gates * info(network.cell).gates;
    return choose_plan(chip, network, rows, most_rows);
  }
  if (best.plan.has_tail()) {  // of which so far an estimate was enough
    const Slots slots = best.plan.slots;
    Tails tails(rows, /*exact=*/true);
    give_tail(chip, network, wishes.tier.value_or(Tier::streamed), slots, tails, best.plan);
    best.prediction = predict(chip, network, best.plan);
  }
  best.plan.first_look =
      wishes.first_look.value_or(best_first_look(network, best.plan, body_cycles(chip, best.prediction)));
  return best;
}

namespace {

std::string microseconds(double us) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3f", us);
  return text.data();
}

// Why `other` is not taken: it does not fit, or the part by which it falls behind most.
std::string why_not(const Prediction& best, const Prediction& other) {
  if (!other.footprint.fits) {
    return explain(other.footprint);
  }
  std::size_t most = 0;
  const auto more = [&](std::size_t part) { return other.parts_us[part] - best.parts_us[part]; };
  for (std::size_t part = 1; part < kPartNames.size(); ++part) {
    most = more(part) > more(most) ? part : most;
  }
  return microseconds(other.step_us - best.step_us) + " us slower, most of it " + std::string(kPartNames[most]) + ": " +
         microseconds(other.parts_us[most]) + " instead of " + microseconds(best.parts_us[most]) + " us";
}

}  // namespace

std::vector<RankedPlan> rank_families(const Chip& chip, const Network& network, const RowProfile& rows,
                                      const PlanWishes& wishes) {
  std::vector<RankedPlan> ranking;
  std::optional<PlannedNetwork> other_storage;  // of a dense plan, where there is a choice
  for (const Family family : {Family::sparse_persistent, Family::dense_persistent}) {
    RankedPlan& ranked = ranking.emplace_back();
    ranked.family = family;
    if (family == Family::dense_persistent && !dense_is_possible(chip, network, wishes)) {
      ranked.why = "needs compute capability 8.0, fp16 or bf16, and no wish about sparse rows";
    } else if (family == Family::sparse_persistent && !sparse_is_possible(wishes)) {
      ranked.why = "knows neither structured_2_4 nor the cluster exchange nor teams";
    } else {
      PlanWishes one = wishes;
      one.family = family;
      ranked.planned = choose_plan(chip, network, rows, one);
      if (family == Family::dense_persistent && rows.is_two_four() && !wishes.storage) {
        one.storage = ranked.planned->plan.storage == Storage::dense ? Storage::structured_2_4 : Storage::dense;
        other_storage = choose_plan(chip, network, rows, one);
      }
    }
  }
  for (const Family family : kLibraries) {
    ranking.push_back({family, with_library(chip, network, family), ""});
  }
  std::stable_sort(ranking.begin(), ranking.end(), [](const RankedPlan& a, const RankedPlan& b) {
    return a.planned && (!b.planned || better(a.planned->prediction, b.planned->prediction));
  });
  const Prediction& best = ranking.front().planned->prediction;
  ranking.front().why = is_library(ranking.front().family) ? "the fastest, reading all weights anew in every step"
                                                           : "the fastest that fits";
  for (auto other = ranking.begin() + 1; other != ranking.end(); ++other) {
    other->why = other->planned ? why_not(best, other->planned->prediction) : other->why;
  }
  for (RankedPlan& ranked : ranking) {
    if (ranked.family == Family::dense_persistent && other_storage) {
      ranked.why += "; stored as " + std::string(name(other_storage->plan.storage)) + ", " +
                    why_not(ranked.planned->prediction, other_storage->prediction);
    }
  }
  return ranking;
}

}  // namespace onchip
