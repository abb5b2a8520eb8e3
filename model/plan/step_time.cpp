// SPDX-License-Identifier: Apache-2.0
#include "model/plan/step_time.hpp"
#include "model/banks/bank_rule.hpp"

#include "model/dense/time.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/plan/instructions.hpp"
#include "model/library/time.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace onchip {
namespace {

constexpr int kWarp = 32;

// Cycles of a partition's issue port and pipes for `count`: the slowest of them.
double partition_cycles(const Chip& chip, const Instructions& count) {
  return std::max({count.all(), count.integer * chip.integer_issue_cycles,
                   count.half2 * chip.half2_issue_cycles + count.conversion * chip.conversion_issue_cycles,
                   count.fp32 * chip.fp32_issue_cycles});
}

// Expected largest of k standard normal variables, for the bank sets of the three access widths.
double normal_maximum(int k) {
  return k >= 32 ? 2.07 : k >= 16 ? 1.77 : 1.42;
}

// Expected largest bucket when k balls fall on k buckets: conflicts of columns at random.
double random_maximum(int k) {
  return k >= 32 ? 3.54 : k >= 16 ? 3.07 : 2.59;
}

// Wavefronts per phase where a lane chooses among the non-zeros that are near (model/sparse/delta_order.hpp). The sets of so
// few slots are uneven, and so are those of the few within reach; slots to spare make up for it, and so do words that
// several of the rows need. Fitted to layouts of uniform masks, hidden sizes of 2048 to 16384 in 12 to 830 slots at
// densities of 2.5 to 30 %: within 0.03 on average, 0.25 at most.
double delta_conflicts(const BankRule& rule, double density, double slots, double rows, double filled) {
  const double scale = rule.bank_sets >= 32 ? 2.7 : rule.bank_sets >= 16 ? 1.64 : 0.74;
  const double of_reach = 6.9 * std::exp(-kMostDelta * density / 2);
  const double shared = std::exp(-2.5 * (rows - 1) * density);
  return 1 + scale * std::pow(filled, 7.6) * shared * std::hypot(1 / std::sqrt(slots), of_reach);
}

// How much fuller the fullest sets of banks are than the mean one. An SM's units take whole words of the state, and
// what is left of the last is nobody's: always in the same sets where SMs' words lie whole turns of the banks apart.
double uneven_sets(const Network& network, const Plan& plan) {
  constexpr int kTurn = kBanks * kBankBytes;
  const int units = units_per_sm(network, plan), bytes = units * plane_unit_bytes(network, plan);
  const bool meet = kTurn % bytes == 0 || bytes % kTurn == 0;
  return meet ? static_cast<double>(units) * plan.sms / network.hidden : 1;
}

// Wavefronts more, where lanes have hardly a slot to spare and there are fewer sets than lanes of a phase: some lane of
// nearly every slot finds none free. Read off some forty layouts of one sample and 16 lanes a row (distances: of a
// dozen), with 28 to 31 of 32 sets.
double crowded_slots(Storage storage, double filled, double uneven) {
  constexpr double kFirst = 0.915, kSlope = 3.2, kHalf = 1.02, kWidth = 0.012;
  if (uneven <= 1) {
    return 0;
  }
  return storage == Storage::packed_delta ? 1 / (1 + std::exp((kHalf - filled * uneven) / kWidth))
                                          : std::clamp(kSlope * (filled * uneven - kFirst), 0.0, 1.0);
}

// Wavefronts per phase where `load` is how many times more elements than phases the fullest set of banks has, which
// scatters by so much: E[max(1, load + noise)], smooth around load = 1.
double fullest_factor(double load, double noise) {
  return noise > 0 ? 1 + noise * std::log1p(std::exp(std::min(30.0, (load - 1) / noise))) : std::max(1.0, load);
}

}  // namespace

ExpectedWavefronts expected_wavefronts(const Network& network, const Plan& plan) {
  const int stride = plane_unit_bytes(network, plan);
  const int sets = 128 / std::max(4, stride);  // bank sets, and lanes per phase
  const double phases_per_slot = static_cast<double>(kWarp) / sets;
  const double copies = planes(network, plan);
  const int spread = spread_over_phases(network, plan);
  const double warps = static_cast<double>(plan.groups()) * plan.lanes_per_row / kWarp;
  ExpectedWavefronts result;
  // The rows of a group alike, of their mean number of slots.
  const double slots = mean_slots(network, plan) / plan.all_rows();
  result.ideal = warps * state_loads(network, plan) * phases_per_slot * copies;
  result.expected = result.ideal;
  if (plan.storage == Storage::dense) {
    return result;
  }
  // The rows that share phases, and the phases in which their elements must go.
  const double mean_length = network.density * network.hidden;
  const double rows = static_cast<double>(kWarp) / plan.lanes_per_row / (load_phases(network, plan) / spread);
  const double phases = std::max(1.0, slots * spread);
  constexpr double kFilledOfPieces = 0.9;  // of the slots: rows that are cut fill theirs, and the others nearly do
  const double filled = plan.pieces > 0 ? kFilledOfPieces : std::min(1.0, mean_length * rows / (phases * sets));
  const double uneven = uneven_sets(network, plan);
  double factor = 1;
  if (plan.storage == Storage::packed_delta && plan.order != RowOrder::natural) {
    factor = delta_conflicts(BankRule(network, plan), network.density, std::max(1.0, slots), rows, filled) +
             crowded_slots(plan.storage, filled, uneven);
  } else if (plan.order != RowOrder::natural) {
    // The fullest bank set of these rows needs at least as many wavefronts as it has elements.
    const double mean = uneven * (plan.pieces > 0 ? filled * phases : mean_length * rows / sets);
    const double deviation = std::sqrt(mean * (1 - network.density));
    const double fullest = mean + normal_maximum(sets) * deviation;
    const double noise = 0.5 * deviation / phases;  // of the fullest set, over warps
    factor = fullest_factor(fullest / phases, noise);
    factor += crowded_slots(plan.storage, filled, uneven);
  } else {
    factor = 1 + filled * (random_maximum(sets) - 1);
  }
  result.expected *= factor;
  return result;
}

double conflict_free_reads_us(const Chip& chip, const Network& network, const Plan& plan) {
  if (plan.family == Family::dense_persistent) {
    return 0;  // the state goes from L2 to the registers
  }
  const double state = static_cast<double>(network.hidden) * network.batch * info(network.precision).bytes;
  const double row_bytes =
      plan.storage == Storage::dense ? state / rows_per_load(network, plan) : network.density * state;
  return network.rows() * row_bytes / (plan.sms * chip.smem_banks * chip.smem_bank_bytes) * 1e6 / chip.clock_hz;
}

namespace {

// Cycles of a partition, in which every warp issues `count`: of the port and the pipes, which warps share, or of the
// instructions' way from beyond the instruction cache, which they go together.
double issue_cycles(const Chip& chip, const Network& network, const Plan& plan, const Instructions& count) {
  const double warps = std::ceil(plan.warps() / chip.partitions);
  const double in_code = cached_instructions(network, plan);
  // Those of a loop over chunks come once, if they stay. Kernels of tails beside pieces have three times the
  // instructions that are counted.
  const bool stay = plan.pieces == 0 && instruction_supply_cycles(chip, tail_loop_instructions(network, plan)) == 0;
  return std::max(warps * partition_cycles(chip, count),
                  (stay ? std::min(count.all(), in_code) : count.all()) * instruction_supply_cycles(chip, in_code));
}

// How often a row waits for a chunk in shared memory, of so many, per chunk: as many as are taken at once, while it has
// them, then half as many, ..., one.
double chunk_waits(const Plan& plan, double chunks_of_row) {
  const auto chunks = static_cast<unsigned>(std::lround(chunks_of_row));
  const auto at_once = static_cast<unsigned>(plan.chunks_in_flight);
  return chunks == 0 ? 1.0 / plan.chunks_in_flight
                     : static_cast<double>(chunks / at_once + std::popcount(chunks % at_once)) / chunks;
}

// Where only some warps have a tail of a row, they part there, and what the partition's instruction cache does not hold
// is fetched for some of them again: of the cache that the SMs of a GPC share, which in one run, of which no file is
// kept, was busy in five of six cycles by its counter (gcc__cache_requests). How long is fitted to 128 measured steps
// of such loops with tails, most of them of experiments/data/h200, whose mean error it takes from 6.2 to 5.3 %; the
// share of warps without a tail is that of a Poisson distribution.
double parting_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  constexpr double kParting = 300;  // a row and pass
  if (!plan.has_tail() || plan.storage == Storage::dense ||
      instruction_supply_cycles(chip, cached_instructions(network, plan)) == 0) {
    return 0;
  }
  return kParting * std::exp(-static_cast<double>(plan.tail_chunks) / (plan.warps() * plan.rows_with_tail()));
}

// Tile after tile, all warps alike: gather, reduce, finish. While the gathers of a tile last, the SM's load unit serves
// wavefronts, the schedulers issue, and each warp's chain of dependent multiply-adds runs: the slowest counts, and what
// takes nearly as long holds it up. The sum of cubes, not of another power, is a choice of form that was made with
// measured steps in view; the instruction cache, the outputs of a lane and the waits for streamed chunks were found by
// what those of families.csv took longer than was predicted.
struct GatherCycles {
  double loads = 0;   // of the load unit
  double beyond = 0;  // that the step waits longer, for arithmetic, for first loads, for the longest warp
};
GatherCycles gather_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  const double copies = planes(network, plan);
  const double passes_over_tail = copies / plan.pass_planes;
  const double chunk_wavefronts =
      static_cast<double>(chunk_bytes(network, plan)) / (chip.smem_banks * chip.smem_bank_bytes);
  const double chunks = passes_over_tail * plan.tail_chunks;  // that an SM reads; what is streamed is also written
  const double tail_wavefronts = chunk_wavefronts * (chunks + passes_over_tail * plan.streamed_chunks());
  const double wavefronts = (expected_wavefronts(network, plan).expected + tail_wavefronts) * chip.lds_wavefront_cycles;
  const double slots = mean_slots(network, plan) * copies;
  const double state = state_loads(network, plan) * copies;
  const double loads = (plan.warps() * state + chunks) * chip.lds_instruction_cycles;
  const double promotions = mean_slots(network, plan) / plan.promote_every - plan.all_rows();
  const Instructions count = slots * per_slot(network, plan) + state * per_load(network, plan) +
                             copies * std::max(0.0, promotions) * promotion(network, plan);
  const double issue = issue_cycles(chip, network, plan, count);
  // A warp's products wait for one another, sum by sum; the compiler keeps their order. Of a tail, the chunks that are
  // taken at once wait for their words and then for the state; a streamed one is taken alone, and has been asked for as
  // many chunks before as the ring holds beside it.
  const double product = sums_in_half(network, plan) ? chip.half2_latency_cycles : chip.arithmetic_latency_cycles;
  const double loads_of_chunk = 2 * passes_over_tail * chip.lds_latency_cycles;
  const double mean_tail = static_cast<double>(plan.tail_chunks) / plan.warps();
  const double mean_streamed = static_cast<double>(plan.streamed_chunks()) / plan.warps();
  const double wait =
      loads_of_chunk * chunk_waits(plan, (mean_tail - mean_streamed) / std::max(1, plan.rows_with_tail()));
  const double streamed_wait =
      loads_of_chunk + passes_over_tail * chip.exchange_round_trip_cycles / std::max(1, plan.ring_chunks - 1);
  const double chain = slots * product + (mean_tail - mean_streamed) * wait + mean_streamed * streamed_wait;
  // The warps share the SM evenly, so when the others have done theirs, the one with the longest tail has what it has
  // more than they still before it, alone.
  const double alone = (plan.longest_tail - mean_tail) * (copies * chunk_slots(network, plan) * product + wait) *
                       (plan.has_tail() ? 1 : 0);
  // Exchange warps move the state through the same pipe meanwhile: out of L2, and into shared memory; the copy engine,
  // only into shared memory.
  const double times_moved = plan.exchange_warps == 0 ? 0 : plan.exchange == ExchangeProtocol::bulk_copy ? 1 : 2;
  const double moved = times_moved * static_cast<double>(exchange_bytes(network, plan));
  const double gather = std::max(wavefronts, loads) + moved / (chip.smem_banks * chip.smem_bank_bytes);
  // Every tile but one waits once more for its first load; the exchange has the other.
  const double passes = passes_over_tiles(network, plan);
  // So does every row with a tail, for the number of its chunks and for what follows them.
  const double tails = passes_over_tail * plan.rows_with_tail();
  const double parting = parting_cycles(chip, network, plan);
  const double turnaround = (passes - 1 + tails) * chip.lds_latency_cycles + tails * parting;
  const double together = std::cbrt(gather * gather * gather + issue * issue * issue + chain * chain * chain);
  return {gather, together - gather + alone + turnaround};
}

// `rows` of a tile of `height` in one pass, with the last promotion of each. A warp's stages wait for one another, each
// for a shuffle and an addition; what else the warp issues for them, to choose what it keeps, comes on top.
double reduction_cycles(const Chip& chip, const Network& network, const Plan& plan, int rows, int height) {
  const Reduction reduce = reduction(network, plan, rows);
  const Instructions promotions = static_cast<double>(height * plan.pass_planes) * promotion(network, plan);
  const double chain = reduce.stages * chip.shuffle_latency_cycles + (reduce.count.all() - 2 * reduce.stages);
  return std::max({chain, issue_cycles(chip, network, plan, reduce.count + promotions),
                   plan.warps() * reduce.count.load * chip.lds_instruction_cycles});
}

// What pieces of rows take in a step beside their gathers: each begins anew, they are reduced, stored, awaited by all
// warps, and loaded, one by a lane at a time. Where samples take turns, half of it lasts while other warps compute:
// that share is of turns.csv (experiments/data).
double piece_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  if (plan.pieces == 0) {
    return 0;
  }
  constexpr double kAdding = 15;        // beside the latency of the loads
  constexpr double kFurtherRound = 18;  // fitted to 18 plans of one network (pieces.csv of experiments/data)
  const double further_rounds = std::ceil(1.0 * plan.most_pieces / plan.lanes_per_row) - 1;
  const double additions =
      passes(network, plan) * (chip.lds_latency_cycles + kAdding + kFurtherRound * std::max(0.0, further_rounds));
  const bool takes_turns = plan.exchange_warps > 0;
  const double barriers = takes_turns ? passes(network, plan) : 1;
  const double all =
      passes(network, plan) * reduction_cycles(chip, network, plan, plan.pieces, plan.pieces) +
      barriers * (block_barrier_cycles(chip, plan.threads) + (2 * plan.pieces - 1) * chip.lds_latency_cycles) +
      additions;
  return takes_turns ? 0.5 * all : all;
}

// The parts inside an SM.
void add_sparse_parts(const Chip& chip, const Network& network, const Plan& plan, Prediction& result) {
  const double us_per_cycle = 1e6 / chip.clock_hz;
  const auto part = [&](Part p) -> double& { return result.parts_us[static_cast<int>(p)]; };
  const GatherCycles gathering = gather_cycles(chip, network, plan);
  part(Part::gather) = gathering.loads * us_per_cycle;
  part(Part::arithmetic) = gathering.beyond * us_per_cycle;

  const double passes = passes_over_tiles(network, plan);
  const double reducing = passes * reduction_cycles(chip, network, plan, plan.tile_rows, tile_height(network, plan));
  part(Part::reduction) = (reducing + piece_cycles(chip, network, plan)) * us_per_cycle;
  // The gates of a unit meet by a shuffle.
  const double meeting = info(network.cell).gates > 1 ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  const double cell = info(network.cell).transcendentals * chip.tanh_latency_cycles + meeting;
  // What a partition issues for a warp's worth of outputs beside the cell's functions: a fit to steps of validation.csv
  // and turns.csv (experiments/data).
  constexpr double kFinishingIssue = 140;
  const double outputs = 1.0 * units_per_sm(network, plan) * network.batch;
  const double issue = plan.exchange_warps > 0 ? 0 : outputs / (kWarp * chip.partitions) * kFinishingIssue;
  part(Part::activation) = (passes * lane_outputs(network, plan) * cell + issue) * us_per_cycle;

  // What is streamed from L2 is asked for long before, but nothing of its way is hidden: without that, steps of 37
  // networks of families.csv and validation.csv (experiments/data) came out 8 % too short on average.
  const double streamed_bytes = passes / tiles(network, plan) * plan.streamed_chunks() * chunk_bytes(network, plan);
  part(Part::streaming) = streamed_bytes / chip.exchange_bytes_per_cycle_per_sm * us_per_cycle;
}

void add_dense_parts(const Chip& chip, const Network& network, const Plan& plan, Prediction& result) {
  const double us_per_cycle = 1e6 / (chip.clock_hz * chip.tensor_clock_share);
  const auto part = [&](Part p) -> double& { return result.parts_us[static_cast<int>(p)]; };
  const DenseCycles cycles = dense_cycles(chip, network, plan);
  part(Part::staging) += cycles.waiting * us_per_cycle;
  part(Part::gather) = cycles.gather * us_per_cycle;
  part(Part::arithmetic) = cycles.arithmetic * us_per_cycle;
  part(Part::reduction) = cycles.reduction * us_per_cycle;
  part(Part::activation) = cycles.activation * us_per_cycle;
}

// What a step waits for the exchange where passes take turns, beyond `computing` cycles; and a barrier for each pass.
// Three things take turns, too, and the longest counts: the passes that are computed, one after another; one pass,
// which is computed, handed out and fetched before it can be computed again; the passes that are fetched, one after
// another by the same warps, each from when it can be seen. What takes nearly as long holds it up. Exchange warps issue
// when the others leave room: what a thread fetches takes a seventh longer. That, and the eighth powers, were chosen by
// steps of turns.csv (experiments/data).
ExchangeCycles turns_cycles(const Chip& chip, const Network& network, const Plan& plan, double computing) {
  constexpr double kBesideComputing = 1.15;
  constexpr double kUntilSeen = 0.5;  // of the latency of an exchange; the rest is the reader's
  constexpr double kFence = 1.5;      // signals: of bulk_copy.csv and families.csv (experiments/data)
  const int turns = passes(network, plan);
  const double barriers = turns * block_barrier_cycles(chip, plan.threads);
  const double bytes = static_cast<double>(exchange_bytes(network, plan)) / turns;
  const bool in_bulk = plan.exchange == ExchangeProtocol::bulk_copy;
  const int words = fetched_words(network, plan);
  const double rounds = std::ceil(static_cast<double>(words) / plan.loads_in_flight);
  const Exchange of_pass{bytes, plan.blocks(), plan.fetching_threads(), words, plan.line_words};
  const ExchangeCycles first =
      in_bulk ? bulk_exchange_cycles(chip, bytes, plan.threads) : exchange_cycles(chip, of_pass);
  const double rounds_on = chip.exchange_round_trip_cycles * (rounds - 1);
  const double looks = chip.exchange_per_word_cycles * exchange_terms(of_pass)[4];  // which first.copying has
  const double copying = first.copying + (in_bulk ? 0 : kBesideComputing * rounds_on + (kBesideComputing - 1) * looks);
  const double all = computing + barriers;
  const auto eighth = [](double x) { return x * x * x * x * x * x * x * x; };
  const double one_pass = (all / turns + first.latency + copying) / all;
  // Copies of several passes may be under way, but the warp that hands out waits for a fence before each flag.
  const double asking = in_bulk ? kFence * chip.signal_cycles : (1 - kUntilSeen) * first.latency;
  const double fetching = turns * (asking + copying) / all;
  const double waiting = all * (std::sqrt(std::sqrt(std::sqrt(1 + eighth(one_pass) + eighth(fetching)))) - 1);
  const double share = waiting / (first.latency + copying);
  constexpr double kHandOver = 230;
  return {share * first.latency + barriers + kHandOver, share * copying};
}

}  // namespace

double half_interval_us(const Chip& chip, double exchange_us, double step_us) {
  constexpr double kInStep = 2;
  return std::hypot(kInStep * exchange_us * chip.exchange_scatter, (step_us - exchange_us) * chip.gather_scatter);
}

Prediction predict(const Chip& chip, const Network& network, const Plan& plan) {
  if (is_library(plan.family)) {
    return predict_library(chip, network, plan);
  }
  Prediction result;
  result.footprint = footprint(chip, network, plan);
  const double us_per_cycle = 1e6 / chip.clock_hz;
  const auto part = [&](Part p) -> double& { return result.parts_us[static_cast<int>(p)]; };

  constexpr int kAtOnce = 1 << 20;
  // All SMs write and poll at the same time, those of other teams, too.
  const Exchange exchange{static_cast<double>(exchange_bytes(network, plan)), plan.blocks(), plan.threads,
                          plan.loads_in_flight, plan.line_words};
  if (plan.family == Family::sparse_persistent) {
    add_sparse_parts(chip, network, plan, result);
  }
  const double computing = std::accumulate(result.parts_us.begin(), result.parts_us.end(), 0.0) / us_per_cycle;
  const auto all_at_once = [&](const Exchange& of) {
    return plan.family == Family::dense_persistent ? dense_exchange_cycles(chip, network, plan)
                                                   : exchange_cycles(chip, of);
  };
  const ExchangeCycles exchanging =
      plan.exchange_warps > 0 ? turns_cycles(chip, network, plan, computing) : all_at_once(exchange);
  part(Part::exchange) = exchanging.latency * us_per_cycle;
  part(Part::staging) = exchanging.copying * us_per_cycle;
  if (plan.family == Family::dense_persistent) {
    add_dense_parts(chip, network, plan, result);
  }

  for (std::size_t i = 0; i < result.parts_us.size(); ++i) {
    result.step_us += result.parts_us[i];
    if (result.parts_us[i] > result.parts_us[static_cast<int>(result.binding)]) {
      result.binding = static_cast<Part>(i);
    }
  }
  // The floor: the state over as many SMs, in one round, and its gathers without a conflict or a padded slot; of
  // samples that take turns, one pass has its gathers and its exchange for itself, and all passes have their gathers.
  const int turns = plan.exchange_warps > 0 ? passes(network, plan) : 1;
  const double state =
      static_cast<double>(network.hidden) * network.batch / plan.teams / turns * info(network.precision).bytes;
  const ExchangeCycles least = all_at_once({state, plan.blocks(), plan.threads, kAtOnce, plan.line_words});
  const double reads = conflict_free_reads_us(chip, network, plan);
  result.floor_us = std::max(reads, (least.latency + least.copying) * us_per_cycle + reads / turns);

  const double half_width = half_interval_us(chip, part(Part::exchange) + part(Part::staging), result.step_us);
  result.low_us = result.step_us - half_width;
  result.high_us = result.step_us + half_width;
  return result;
}

}  // namespace onchip
