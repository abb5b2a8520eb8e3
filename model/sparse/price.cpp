// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/price.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/sparse/instructions.hpp"
#include "model/sparse/wavefronts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace onchip {
namespace {

// Of a warp's product that waits for the one before.
double product_latency(const Chip& chip, const SparseGeometry& geometry) {
  return sums_in_half(geometry) ? chip.half2_latency_cycles : chip.arithmetic_latency_cycles;
}

// Cycles of a partition's issue port and pipes for `count`: the slowest of them. The register file has two banks, of
// even and of odd numbers, and each gives one operand in a cycle, or none where it is in the reuse cache
// (register_banks.csv). What products of a kernel take by that, on average, was counted in the machine code of 40 plans
// (register_banks.py --count).
double partition_cycles(const Chip& chip, const Instructions& count) {
  return std::max({count.all(), count.integer * chip.integer_issue_cycles,
                   count.half2 * std::max<double>(chip.half2_issue_cycles, 2 * chip.cost[Cost::product_operands]) +
                       count.conversion * chip.conversion_issue_cycles,
                   count.fp32 * std::max<double>(chip.fp32_issue_cycles, chip.cost[Cost::product_operands])});
}

// Cycles of a partition, in which every warp issues `count`: of the port and the pipes, which warps share, or of the
// instructions' way from beyond the instruction cache, which they go together.
double issue_cycles(const Chip& chip, const SparseGeometry& geometry, const Instructions& count) {
  const double warps = std::ceil(geometry.warps() / chip.partitions);
  const double in_code = step_instructions(geometry, chip.cost);
  // Those of a loop over chunks come once, if they stay. Kernels of overflow beside splits have three times the
  // instructions that are counted.
  const bool stay =
      geometry.row_splits == 0 && instruction_supply_cycles(chip, overflow_loop_instructions(geometry)) == 0;
  return std::max(warps * partition_cycles(chip, count),
                  (stay ? std::min(count.all(), in_code) : count.all()) * instruction_supply_cycles(chip, in_code));
}

// How often a row waits for a chunk in shared memory, of so many, per chunk: as many as are taken at once, while it has
// them, then half as many, ..., one.
double chunk_waits(const SparseGeometry& geometry, double chunks_of_row) {
  const auto chunks = static_cast<unsigned>(std::lround(chunks_of_row));
  const auto at_once = static_cast<unsigned>(geometry.chunks_in_flight);
  return chunks == 0 ? 1.0 / geometry.chunks_in_flight
                     : static_cast<double>(chunks / at_once + std::popcount(chunks % at_once)) / chunks;
}

// Producer warps move the state through the pipe of shared memory, too: out of L2, and into shared memory; the copy
// engine, only into shared memory.
double bytes_moved(const SparseGeometry& geometry) {
  const double times = geometry.producer_warps == 0 ? 0 : geometry.exchange == ExchangeProtocol::bulk_copy ? 1 : 2;
  return times * static_cast<double>(geometry.exchange_bytes);
}

// What a partition issues for a warp's worth of outputs beside the cell's functions.
double finishing_issue(const Chip& chip, const SparseGeometry& geometry) {
  return 1.0 * geometry.units_per_sm * geometry.network.batch / (kWarpLanes * chip.partitions) *
         chip.cost[Cost::finishing_issue];
}

// Tile after tile, all warps alike: gather, reduce, finish. While the gathers of a tile last, the SM's load unit serves
// wavefronts, the schedulers issue, and each warp's chain of dependent multiply-adds runs: the slowest counts, and what
// takes nearly as long holds it up (a sum of cubes).
struct GatherCycles {
  double loads = 0;   // of the load unit
  double beyond = 0;  // that the step waits longer, for arithmetic, for first loads, for the longest warp
};
GatherCycles gather_cycles(const Chip& chip, const SparseGeometry& geometry) {
  const double copies = geometry.planes;
  const double passes_over_overflow = copies / geometry.pass_planes;
  const double row_bytes = chip.smem_banks * chip.smem_bank_bytes;
  const double chunk_wavefronts = static_cast<double>(geometry.chunk_bytes) / row_bytes;
  const double chunks = passes_over_overflow * geometry.overflow_chunks;  // that an SM reads; streamed: also written
  const double overflow_wavefronts = chunk_wavefronts * (chunks + passes_over_overflow * geometry.streamed_chunks());
  const double wavefronts =
      (expected_wavefronts(chip, geometry).expected + overflow_wavefronts) * chip.lds_wavefront_cycles;
  const double slots = geometry.mean_slots() * copies;
  const double state = state_loads(geometry) * copies;
  const double loads = (geometry.warps() * state + chunks) * chip.lds_instruction_cycles;
  const double promotions = geometry.mean_slots() / geometry.promote_every - geometry.all_rows();
  Instructions count = slots * per_slot(geometry) + state * per_load(geometry);
  count = count + copies * std::max(0.0, promotions) * promotion(geometry);
  const double issue = issue_cycles(chip, geometry, count);
  // A warp's products wait for one another, sum by sum; the compiler keeps their order. Of an overflow, the chunks that
  // are taken at once wait for their words and then for the state; a streamed one is taken alone, and has been asked
  // for as many chunks before as the ring holds beside it.
  const double product = product_latency(chip, geometry);
  const double loads_of_chunk = 2 * passes_over_overflow * chip.lds_latency_cycles;
  const double mean_overflow = static_cast<double>(geometry.overflow_chunks) / geometry.warps();
  const double mean_streamed = static_cast<double>(geometry.streamed_chunks()) / geometry.warps();
  const double wait = loads_of_chunk * chunk_waits(geometry, (mean_overflow - mean_streamed) /
                                                                 std::max(1, geometry.rows_with_overflow()));
  const double streamed_wait =
      loads_of_chunk + passes_over_overflow * chip.exchange_round_trip_cycles / std::max(1, geometry.ring_chunks - 1);
  const double chain = slots * product + (mean_overflow - mean_streamed) * wait + mean_streamed * streamed_wait;
  // The warps share the SM evenly, so when the others have done theirs, the one with the longest overflow has what it
  // has more than they still before it, alone.
  const double alone = (geometry.longest_overflow - mean_overflow) * (copies * geometry.chunk_slots * product + wait) *
                       (geometry.has_overflow() ? 1 : 0);
  const double gather = std::max(wavefronts, loads) + bytes_moved(geometry) / row_bytes;
  // Every tile but one waits once more for its first load; the exchange has the other. So does every row with overflow,
  // for the number of its chunks and for what follows them.
  const double passes = passes_over_tiles(geometry);
  const double overflows = passes_over_overflow * geometry.rows_with_overflow();
  const double turnaround = (passes - 1 + overflows) * chip.lds_latency_cycles;
  const double together = std::cbrt(gather * gather * gather + issue * issue * issue + chain * chain * chain);
  return {gather, together - gather + alone + turnaround};
}

// `rows` of a tile of `height` in one pass, with the last promotion of each. A warp's stages wait for one another, each
// for a shuffle and an addition; what else the warp issues for them, to choose what it keeps, comes on top.
double reduction_cycles(const Chip& chip, const SparseGeometry& geometry, int rows, int height) {
  const Reduction reduce = reduction(geometry, rows);
  const Instructions promotions = static_cast<double>(height * geometry.pass_planes) * promotion(geometry);
  const double chain = reduce.stages * chip.shuffle_latency_cycles + (reduce.count.all() - 2 * reduce.stages);
  return std::max({chain, issue_cycles(chip, geometry, reduce.count + promotions),
                   geometry.warps() * reduce.count.load * chip.lds_instruction_cycles});
}

// What splits of rows take in a step beside their gathers: each begins anew, they are reduced, stored, awaited by all
// warps, and loaded, one by a lane at a time.
double split_cycles(const Chip& chip, const SparseGeometry& geometry) {
  if (geometry.row_splits == 0) {
    return 0;
  }
  const double further_rounds = std::ceil(1.0 * geometry.most_splits / geometry.lanes_per_row) - 1;
  const double samples = 1.0 * geometry.pass_planes * geometry.plane_samples;  // whose sums a lane adds in a round
  const double of_rounds = chip.cost[Cost::split_round] * samples * std::max(0.0, further_rounds);
  const double additions = geometry.passes * (chip.lds_latency_cycles + of_rounds);
  const double barriers = geometry.producer_warps > 0 ? geometry.passes : 1;
  return geometry.passes * reduction_cycles(chip, geometry, geometry.row_splits, geometry.row_splits) +
         barriers *
             (block_barrier_cycles(chip, geometry.threads) + (2 * geometry.row_splits - 1) * chip.lds_latency_cycles) +
         additions;
}

// What a step waits for the exchange where passes are pipelined, beyond `computing` cycles; and a barrier for each
// pass. Three things overlap, and the longest counts: the passes that are computed, one after another; one pass,
// which is computed, published and fetched before it can be computed again; the passes that are fetched, one after
// another by the same warps, each from when it can be seen. What takes nearly as long holds it up (a sum of eighth
// powers).
ExchangeCycles pipelined_cycles(const Chip& chip, const SparseGeometry& geometry, double computing) {
  const int passes = geometry.passes;
  const double barriers = passes * block_barrier_cycles(chip, geometry.threads);
  const double bytes = static_cast<double>(geometry.exchange_bytes) / passes;
  const bool in_bulk = geometry.exchange == ExchangeProtocol::bulk_copy;
  const int words = geometry.fetched_words;
  const double rounds = std::ceil(static_cast<double>(words) / geometry.loads_in_flight);
  const Exchange of_pass{bytes, geometry.blocks, geometry.fetching_threads(), words, geometry.line_words};
  const ExchangeCycles first =
      in_bulk ? bulk_exchange_cycles(chip, bytes, geometry.threads) : exchange_cycles(chip, of_pass);
  const double rounds_on = chip.exchange_round_trip_cycles * (rounds - 1);
  const double copying = first.copying + (in_bulk ? 0 : rounds_on);
  const double all = computing + barriers;
  const auto eighth = [](double x) { return x * x * x * x * x * x * x * x; };
  const double one_pass = (all / passes + first.latency + copying) / all;
  // Copies of several passes may be under way, but the warp that publishes waits for a fence before each flag.
  // Words are asked for when the pass's last state has been read and the poll delay is over, and come a signal later.
  const double asking =
      in_bulk ? chip.cost[Cost::bulk_fence_signals] * chip.signal_cycles : geometry.poll_delay + chip.signal_cycles;
  const double fetching = passes * (asking + copying) / all;
  const double waiting = all * (std::sqrt(std::sqrt(std::sqrt(1 + eighth(one_pass) + eighth(fetching)))) - 1);
  const double share = waiting / (first.latency + copying);
  return {share * first.latency + barriers + chip.cost[Cost::producer_hand_over], share * copying};
}

}  // namespace

double conflict_free_reads_us(const Chip& chip, const SparseGeometry& geometry) {
  const Recurrent& network = geometry.network;
  const double state = static_cast<double>(network.hidden) * network.batch * info(network.precision).bytes;
  const double row_bytes =
      geometry.storage == Storage::dense ? state / rows_per_load(geometry) : network.density * state;
  return network.rows() * row_bytes / (geometry.sms * chip.smem_banks * chip.smem_bank_bytes) *
         chip.lds_wavefront_cycles * 1e6 / chip.clock_hz;
}

BlockCycles block_cycles(const Chip& chip, const SparseGeometry& geometry) {
  const GatherCycles gathering = gather_cycles(chip, geometry);
  const double reducing =
      passes_over_tiles(geometry) * reduction_cycles(chip, geometry, geometry.tile_rows, geometry.tile_height);
  return {gathering.loads, gathering.beyond, reducing + split_cycles(chip, geometry)};
}

Price price(const Chip& chip, const SparseGeometry& geometry) {
  const Recurrent& network = geometry.network;
  const double us_per_cycle = 1e6 / chip.clock_hz;
  const BlockCycles block = block_cycles(chip, geometry);
  const double gather = block.gather * us_per_cycle, arithmetic = block.arithmetic * us_per_cycle;
  const double reduction = block.reduction * us_per_cycle, passes = passes_over_tiles(geometry);
  // The gates of a unit meet by a shuffle.
  const double meeting = geometry.gates > 1 ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  const double cell = info(network.cell).transcendentals * chip.tanh_latency_cycles + meeting;
  const double issue = geometry.producer_warps > 0 ? 0 : finishing_issue(chip, geometry);
  const double activation = (passes * lane_outputs(geometry) * cell + issue) * us_per_cycle;

  // What is streamed from L2 is asked for long before, but nothing of its way is hidden.
  const double streamed_bytes = passes / geometry.tiles * geometry.streamed_chunks() * geometry.chunk_bytes;
  const double streaming = streamed_bytes / chip.exchange_bytes_per_cycle_per_sm * us_per_cycle;

  const Exchange all_at_once{static_cast<double>(geometry.exchange_bytes), geometry.blocks, geometry.threads,
                             geometry.loads_in_flight, geometry.line_words};
  const double computing = (gather + arithmetic + reduction + activation + streaming) / us_per_cycle;
  const ExchangeCycles exchanging =
      geometry.producer_warps > 0 ? pipelined_cycles(chip, geometry, computing) : exchange_cycles(chip, all_at_once);
  const double exchange = exchanging.latency * us_per_cycle, staging = exchanging.copying * us_per_cycle;
  Price result;
  result.terms.add("exchange", exchange);
  result.terms.add("staging", staging);
  result.terms.add("gather", gather);
  result.terms.add("arithmetic", arithmetic);
  result.terms.add("reduction", reduction);
  result.terms.add("activation", activation);
  result.terms.add("streaming", streaming);

  // The floor: an SM has loaded what its non-zeros need, without a conflict or a padded slot; and a word of another SM
  // has come, went through shared memory, was multiplied, reduced and finished, and went through the outbox, before
  // what depends on it can go out. All of it is in the terms, too, in cycles of the same clock.
  const double finished = through_shared_cycles(chip) + product_latency(chip, geometry) +
                          std::log2(geometry.lanes_per_row) * chip.shuffle_latency_cycles + cell;
  result.floor_us = std::max(conflict_free_reads_us(chip, geometry),
                             (least_signal_cycles(chip, geometry.blocks) + finished) * us_per_cycle);
  // Other banks than a layout is made for: nobody has measured them, and the simulator is as far off as the term says.
  const bool measured_banks = chip.smem_banks == kBanks && chip.smem_bank_bytes == kBankBytes;
  result.below_us = result.above_us =
      half_interval_us(chip, exchange + staging, result.terms.total()) +
      (measured_banks ? 0 : chip.cost[Cost::other_banks_scatter] * (gather + arithmetic));
  return result;
}

namespace {

// Cycles at least, for weights that the registers have no room for: of the pipe of shared memory, and of L2.
struct BeyondRegisters {
  double loads = 0, streaming = 0;
};
BeyondRegisters beyond_registers(const Chip& chip, double bytes) {
  return {bytes / (chip.smem_banks * chip.smem_bank_bytes) * chip.lds_wavefront_cycles,
          std::max(0.0, bytes - chip.smem_bytes_per_block) / chip.exchange_bytes_per_cycle_per_sm};
}

}  // namespace

double least_step_us(const Chip& chip, const SparseGeometry& geometry, const LeastWork& least) {
  const BeyondRegisters beyond = beyond_registers(chip, least.bytes_beyond);
  const bool is_pipelined = geometry.producer_warps > 0, is_dense = geometry.storage == Storage::dense;
  const double copies = geometry.planes, warps = geometry.warps(), lanes = geometry.lanes_per_row;
  const double warps_of_partition = std::ceil(warps / chip.partitions);
  // With any tiles: as high as may be, over all planes together; pipelined, in two passes.
  const int rows = geometry.rows_per_group;
  const int height = !least.any_tiles     ? geometry.tile_height
                     : geometry.gates > 1 ? geometry.gates
                                          : std::min<int>(kMaxTileRows, std::bit_ceil(static_cast<unsigned>(rows)));
  const double tiles = std::ceil(static_cast<double>(rows) / height);
  const double turns = least.any_tiles ? tiles * (is_pipelined ? 2 : 1) : passes_over_tiles(geometry);

  const double slots = copies * least.slots;
  const double state = slots / (is_dense ? std::min(height, rows) : 1);
  const double row_bytes = chip.smem_banks * chip.smem_bank_bytes;
  double wavefronts = warps * state * kWarpLanes * std::max(4, geometry.plane_unit_bytes) / std::max(128.0, row_bytes);
  if (geometry.storage == Storage::packed_pair && geometry.order != RowOrder::natural && !least.splits) {
    wavefronts = std::max(wavefronts, least_wavefronts(geometry, least.slots));
  }
  const double loads = std::max(wavefronts * chip.lds_wavefront_cycles, warps * state * chip.lds_instruction_cycles) +
                       bytes_moved(geometry) / row_bytes + beyond.loads;
  const double issue =
      warps_of_partition * partition_cycles(chip, slots * per_slot(geometry) + state * per_load(geometry));
  const double chain = slots * product_latency(chip, geometry);
  const double gathering = std::cbrt(loads * loads * loads + issue * issue * issue + chain * chain * chain) +
                           (turns - 1) * chip.lds_latency_cycles;

  const double sums = (geometry.gates > 1 ? 4 * tiles : rows) * geometry.batch_padded;  // of a group
  const double exchanged = sums * (1 - 1 / lanes);                                      // by a lane, as it reduces them
  double reducing = std::max({turns * std::log2(lanes) * chip.shuffle_latency_cycles,
                              warps_of_partition * 2 * exchanged, warps * exchanged * chip.lds_instruction_cycles});
  if (!least.any_tiles) {
    const Reduction reduce = reduction(geometry, geometry.tile_rows);
    reducing = turns * std::max({reduce.stages * chip.shuffle_latency_cycles + reduce.count.all() - 2 * reduce.stages,
                                 warps_of_partition * partition_cycles(chip, reduce.count),
                                 warps * reduce.count.load * chip.lds_instruction_cycles});
  }
  const double meeting = geometry.gates > 1 ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  const double cell = info(geometry.network.cell).transcendentals * chip.tanh_latency_cycles + meeting;
  const double outputs = least.any_tiles ? std::max(turns, sums / lanes) : turns * lane_outputs(geometry);
  const double computing =
      gathering + reducing + outputs * cell + beyond.streaming + (is_pipelined ? 0 : finishing_issue(chip, geometry));

  double least_cycles = std::numeric_limits<double>::infinity();
  const auto offer = [&](const ExchangeCycles& cycles) {
    least_cycles = std::min(least_cycles, computing + cycles.latency + cycles.copying);
  };
  if (is_pipelined) {
    SparsePlan plan = geometry;
    plan.loads_in_flight = kMostLoadsInFlight;
    const int last = least.any_tiles ? 1 : geometry.pass_planes;
    for (plan.pass_planes = least.any_tiles ? geometry.planes / 2 : last; plan.pass_planes >= last;
         plan.pass_planes /= 2) {
      const SparseGeometry of_passes(geometry.network, plan);
      if (of_passes.can_pipeline()) {
        offer(pipelined_cycles(chip, of_passes, computing));
      }
    }
  } else {
    for (int loads_in_flight = 1; loads_in_flight <= kMostLoadsInFlight; ++loads_in_flight) {
      offer(exchange_cycles(chip, {static_cast<double>(geometry.exchange_bytes), geometry.blocks, geometry.threads,
                                   loads_in_flight, geometry.line_words}));
    }
  }
  return least_cycles * 1e6 / chip.clock_hz;
}

double least_us_of_sms(const Chip& chip, const SparseGeometry& geometry, const LeastWorkOfSms& least) {
  const BeyondRegisters beyond = beyond_registers(chip, least.bytes_beyond);
  const bool is_dense = geometry.storage == Storage::dense;
  const int most_rows_of_load = geometry.gates > 1 ? geometry.gates : kMaxTileRows;
  const double slots = geometry.planes * least.nonzeros / geometry.sms;
  const double state = slots / (is_dense ? most_rows_of_load : 1);
  const double row_bytes = std::max(128.0, chip.smem_banks * chip.smem_bank_bytes);
  const double loads = std::max(state * std::max(4, geometry.plane_unit_bytes) / row_bytes * chip.lds_wavefront_cycles,
                                state / kWarpLanes * chip.lds_instruction_cycles) +
                       beyond.loads;
  const double issue =
      partition_cycles(chip, slots * per_slot(geometry) + state * per_load(geometry)) / (kWarpLanes * chip.partitions);
  const double chain = slots / least.most_threads *
                       (sums_in_half(geometry) ? chip.half2_latency_cycles : chip.arithmetic_latency_cycles);
  const double cell = info(geometry.network.cell).transcendentals * chip.tanh_latency_cycles;
  const double computing =
      std::cbrt(loads * loads * loads + issue * issue * issue + chain * chain * chain) + cell + beyond.streaming;
  // Each thread fetches one word; where passes are pipelined other threads do, one warp at least.
  const auto bytes = static_cast<double>(geometry.exchange_bytes);
  const auto latency = [&](int polling) {
    return exchange_cycles(chip, {0, geometry.sms, polling, 1, kLineWords}).latency;
  };
  const double copying =
      exchange_cycles(chip, {bytes, geometry.sms, static_cast<int>(bytes / 16), 1, kLineWords}).copying;
  const double at_once = computing + finishing_issue(chip, geometry) + latency(least.fewest_threads) + copying;
  // Passes overlap (pipelined_cycles), as many as loads of at least a bank's bytes: a pass, or all that is fetched.
  const int passes = is_dense ? 1 : geometry.unit_bytes / kBankBytes;
  const bool may_pipeline = passes > 1;
  const double of_line = (1 - chip.cost[Cost::exchange_hidden_share]) / chip.exchange_bytes_per_cycle_per_sm;
  const ExchangeCycles in_bulk = bulk_exchange_cycles(chip, bytes, kWarpLanes);
  const double one_pass = std::min(latency(kWarpLanes) + bytes * of_line / passes, in_bulk.latency);
  const double fetching = std::min(2 * chip.signal_cycles + bytes * of_line,
                                   2 * chip.cost[Cost::bulk_fence_signals] * chip.signal_cycles + in_bulk.copying);
  const double pipelined = std::max({computing, computing / passes + one_pass, fetching}) +
                           2 * block_barrier_cycles(chip, least.fewest_threads) + chip.cost[Cost::producer_hand_over];
  return (may_pipeline ? std::min(at_once, pipelined) : at_once) * 1e6 / chip.clock_hz;
}

// Where passes are pipelined, warps that poll anew get in the way of those that compute, so the delay grows with what a
// pass computes; but where passes are fetched more slowly than they are computed, waiting only holds the next pass up.
// Of 34 networks on an H200 (poll_delay.csv), steps with this delay take at most 3 % longer than with the best, 5 %
// where passes are pipelined.
int best_poll_delay(const Chip& chip, const SparseGeometry& geometry, const Terms& terms) {
  if (geometry.exchange != ExchangeProtocol::lamport) {
    return 0;
  }
  constexpr int kStep = 20;  // fewer different kernels
  const auto cycles = [&](double us) { return us * 1e-6 * chip.clock_hz; };
  const double staging = cycles(terms["staging"]);
  const double body = cycles(terms.total()) - cycles(terms["exchange"]) - staging;
  if (geometry.producer_warps > 0) {
    constexpr double kLeast = 40;  // to look at the clock takes nearly as long
    constexpr double kMost = 640, kOfPass = 0.25, kSooner = 40, kHidden = 70, kOfStaging = 0.75;
    const double of_pass = kOfPass * body / geometry.passes - kSooner;
    const double late = kOfStaging * std::max(0.0, staging - kHidden);
    const double wait = std::min(of_pass - late, kMost);
    return wait < kLeast ? 0 : static_cast<int>(wait) / kStep * kStep;
  }
  constexpr double kLeast = 100, kMost = 480, kOfBody = 0.06;
  return static_cast<int>(std::clamp(kLeast + kOfBody * body, kLeast, kMost)) / kStep * kStep;
}

}  // namespace onchip
