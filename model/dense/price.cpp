// SPDX-License-Identifier: Apache-2.0
#include "model/dense/price.hpp"

#include "model/chip/instructions.hpp"
#include "model/dense/fragments.hpp"
#include "model/exchange/exchange_time.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace onchip {
namespace {

// A tile that comes from shared memory, until it can be multiplied.
Instructions per_shared_tile(const DenseGeometry& geometry) {
  if (geometry.storage != Storage::bitmap) {
    return {.load = 1};
  }
  // Of each word a LOP3, which tells whether it is there, a LEA, for the next one's address, and a LDS; and a CS2R,
  // which makes two of them zero.
  constexpr double kWords = 4;
  return {.integer = 2 * kWords, .fp32 = kWords / 2, .load = kWords};
}

// Spans that a warp awaits together, and in how many groups that makes.
int spans_of_group(const DenseGeometry& geometry) {
  return std::max(1, geometry.loads_in_flight / (2 * geometry.sample_tiles));
}
int span_groups(const DenseGeometry& geometry) {
  return (geometry.warp_spans + spans_of_group(geometry) - 1) / spans_of_group(geometry);
}

// Segments of so many units into which the SMs of a batch group cut a sample's: more than there are whole ones where
// SMs share some, more than SMs where an SM has several.
int segments(const DenseGeometry& geometry, int segment_units) {
  const int units = geometry.state_units;
  const auto inside = [units](int distance) {
    return (units + distance - 1) / distance - 1;
  };  // bounds of such segments
  return geometry.sms + inside(segment_units) - inside(std::lcm(segment_units, geometry.units_per_sm));
}

// Warps that have spans; those after them have neither products nor sums.
int busy_warps(const DenseGeometry& geometry) {
  const int of_warp = geometry.warp_spans;
  return (geometry.spans + of_warp - 1) / of_warp;
}

struct Products {
  double tensor = 0;  // cycles of the busiest partition's tensor core, or of a warp's chain of sums
  double loads = 0;   // of the SM's shared memory
  double words = 0;   // bitmap: of the busiest partition, for the words of tiles in shared memory
};

// Of the busiest partition: what expanding its tiles takes, and no less than its instructions take from beyond the
// instruction cache. A tile of 14 instructions takes 22 cycles, with one, two and four tiles of samples alike and
// however dense it is, beside the loads of all warps.
double expanding_cycles(const Chip& chip, const DenseGeometry& geometry) {
  const double warps_per_partition = std::ceil(busy_warps(geometry) / chip.partitions);
  const double all =
      geometry.shared_tiles * per_shared_tile(geometry).all() + 1.0 * geometry.warp_tiles * geometry.sample_tiles;
  return std::max(warps_per_partition * geometry.shared_tiles * chip.cost[Cost::bitmap_tile],
                  all * instruction_supply_cycles(chip, step_instructions(geometry, chip.cost)));
}

// Of a warp's products, those that wait for one another.
double dependent_products(const DenseGeometry& geometry) {
  return static_cast<double>(geometry.span_tiles) * geometry.warp_spans / geometry.product_chains;
}

double issue_of_product(const Chip& chip, const DenseGeometry& geometry) {
  return chip.tensor_issue_cycles *
         (geometry.storage == Storage::structured_2_4 ? chip.cost[Cost::structured_product] : 1);
}

Products product_cycles(const Chip& chip, const DenseGeometry& geometry) {
  const double warps_per_partition = std::ceil(busy_warps(geometry) / chip.partitions);
  const double tiles = geometry.warp_tiles;
  const double issue = warps_per_partition * tiles * geometry.sample_tiles * issue_of_product(chip, geometry);
  const double chain = dependent_products(geometry) * chip.tensor_latency_cycles;
  const double shared_tiles = static_cast<double>(geometry.shared_tiles) * busy_warps(geometry);
  // In a cluster the state comes from shared memory, too, once.
  const bool in_cluster = geometry.exchange == ExchangeProtocol::cluster;
  const double state = in_cluster ? static_cast<double>(geometry.exchange_bytes) : 0;
  const double row_bytes = chip.smem_banks * chip.smem_bank_bytes;
  if (geometry.storage == Storage::bitmap && geometry.shared_tiles > 0) {
    const double empty = std::pow(1 - geometry.network.density, 2 * kWarp);  // of a warp's load: no lane has the word
    const double wavefronts = kTileBytes / row_bytes * shared_tiles * (1 - empty) + state / row_bytes;
    const double loads = std::max(wavefronts * chip.lds_wavefront_cycles,
                                  per_shared_tile(geometry).load * shared_tiles * chip.lds_instruction_cycles);
    return {std::max(issue, chain), loads, expanding_cycles(chip, geometry)};
  }
  const double wavefronts = (kTileBytes * shared_tiles + state) / row_bytes;
  return {std::max(issue, chain), wavefronts * chip.lds_wavefront_cycles, 0};
}

// What a step takes longer, of looks and products of which each waits for the one before, where a partition has one
// warp, which has nobody beside it.
double exposed_cycles(const Chip& chip, const DenseGeometry& geometry) {
  return busy_warps(geometry) <= chip.partitions ? chip.cost[Cost::single_warp_exposed] : 0;
}

// The products of all groups of a warp's spans, with what a warp does between the groups.
struct Pipeline {
  double whole = 0;    // from when the words of the first two groups are there to the end of the last products
  double waiting = 0;  // of it, for nothing but words
};

// Of all words of the state, at the rate at which SMs get them. Steps of inference, whose states are small, would be no
// better predicted with it.
double arriving_cycles(const Chip& chip, const DenseGeometry& geometry) {
  constexpr int kLateBytes = 2;  // of exchange_terms()
  const Exchange exchange{static_cast<double>(geometry.exchange_bytes), geometry.sms, geometry.threads};
  return exchange_terms(chip.cost, exchange)[kLateBytes] / chip.exchange_bytes_per_cycle_per_sm;
}

Pipeline pipeline_cycles(const Chip& chip, const DenseGeometry& geometry, double products) {
  const double groups = span_groups(geometry);
  const double words = static_cast<double>(geometry.warp_spans) * geometry.sample_tiles / groups;
  const double busy = products / groups;
  // The first two groups are asked for at once, every other when the one before it has been looked at; the round trip
  // has most of the looks.
  const double asked_late =
      chip.exchange_round_trip_cycles + chip.cost[Cost::dense_look] + chip.exchange_per_word_cycles * words;
  const double at_once = std::min(groups, 2.0);
  const double whole = std::max(at_once * busy + (groups - at_once) * std::max(asked_late, busy),
                                geometry.network.pass == Pass::inference ? 0 : arriving_cycles(chip, geometry));
  return {whole + exposed_cycles(chip, geometry), whole - products};
}

// Of a warp of items, beside the two special instructions of each.
double function_cycles(const Chip& chip, Cell cell) {
  return info(cell).squashes * (chip.cost[Cost::squash] + 2 * chip.special_issue_cycles);
}

// What a partition takes to finish its items, beside the latency of the cell: all warps that have some, the same
// however few lanes have one, and the functions of as many as there are.
double finishing_cycles(const Chip& chip, Cell cell, double items) {
  const double warps = items / (kWarp * chip.partitions);
  return std::ceil(warps) * chip.cost[Cost::item_warp] + warps * function_cycles(chip, cell);
}

// Wavefronts in which a warp reads the sums of its items where one would do. Its samples' rows are 4 or 20 banks apart,
// and so those of two meet, but for the four rows of an LSTM's item, which a quarter of a warp reads at once.
double wavefronts_of_sums(const DenseGeometry& geometry) {
  const int units = geometry.units_per_sm;
  const bool of_several = units < kWarp && units * geometry.group_batch >= kWarp;
  return of_several && geometry.gates < 4 ? 2 : 1;
}

struct StepCycles {
  double waiting = 0;     // for spans that are asked for late
  double gather = 0;      // of the products: for weights in shared memory
  double arithmetic = 0;  // likewise: for the tensor cores, and for what is issued
  double reduction = 0, activation = 0;
};

StepCycles step_cycles(const Chip& chip, const DenseGeometry& geometry) {
  StepCycles result;
  const Products products = product_cycles(chip, geometry);
  const auto cube = [](double x) { return x * x * x; };
  // Tiles are expanded beside the loads, not beside the products.
  const double both = products.words > 0 ? products.tensor + std::max(products.loads, products.words)
                                         : std::cbrt(cube(products.tensor) + cube(products.loads));
  // In a cluster they come one after the other, after a first load.
  const bool in_cluster = geometry.exchange == ExchangeProtocol::cluster;
  const double first = chip.lds_latency_cycles;
  const Pipeline pipeline = in_cluster ? Pipeline{first + both, first} : pipeline_cycles(chip, geometry, both);
  result.waiting = pipeline.waiting;
  const double beyond = pipeline.whole - pipeline.waiting;
  result.gather = beyond * products.loads / (products.tensor + products.loads + products.words);
  result.arithmetic = beyond - result.gather;

  const int gates = geometry.gates;
  const int busy = busy_warps(geometry);
  // All warps' sums go through the same shared memory: written whole tile by whole tile, read where there are a row and
  // a sample, and added in a tree. What else a round needs, and the first round's before the barrier, is loaded before
  // its sums are. Three rows are loaded one by one, two or four at once. Half of the transfers are beside what other
  // warps do, which have their spans at other times; in a cluster all warps have them at once.
  const double written = 4.0 * geometry.warps() * 16 * geometry.row_tiles * 8 * geometry.sample_tiles;
  const double read = 4.0 * busy * geometry.units_per_sm * gates * geometry.group_batch * wavefronts_of_sums(geometry);
  const double transfers = (written + read) / (chip.smem_banks * chip.smem_bank_bytes) * chip.lds_wavefront_cycles;
  const double additions = std::ceil(std::log2(busy)) * chip.arithmetic_latency_cycles;
  const double row_loads = gates == 3 ? (gates - 1) * busy * chip.cost[Cost::row_load] : 0;
  result.reduction = (in_cluster ? 1 : chip.cost[Cost::transfers_exposed]) * transfers + 2 * chip.lds_latency_cycles +
                     additions + row_loads;

  const double joining = gates > 1 ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  const double cell = info(geometry.network.cell).transcendentals * chip.tanh_latency_cycles + joining;
  const double items = geometry.finished_items;
  if (in_cluster) {
    // Words are on their way meanwhile, and the exchange has the time of that. Other warps of the partition finish
    // items beside it, and the items that are left when all threads have had one are read, finished and sent after it.
    const double of_item = cell + chip.cost[Cost::cluster_finishing] * chip.arithmetic_latency_cycles;
    const double functions = function_cycles(chip, geometry.network.cell);
    const double beside = std::ceil(std::min<double>(items, geometry.threads) / (kWarp * chip.partitions)) - 1;
    const double rounds = std::ceil(items / geometry.threads);
    result.activation =
        of_item + beside * functions + (rounds - 1) * (of_item + 2 * chip.lds_latency_cycles + row_loads + functions);
  } else {
    result.activation = cell + finishing_cycles(chip, geometry.network.cell, items);
  }
  return result;
}

ExchangeCycles exchange_of(const Chip& chip, const DenseGeometry& geometry) {
  if (geometry.exchange == ExchangeProtocol::cluster) {
    // SMs send what they have finished while they finish the rest, which hides the way of the bytes. Where the SMs'
    // units are no whole sectors of 32 bytes, each sample's words go in more and smaller segments.
    const auto bytes = static_cast<double>(geometry.exchange_bytes);
    ExchangeCycles cycles = cluster_exchange_cycles(chip, bytes, geometry.sms, geometry.threads);
    const double sectors = std::ceil(1.0 * geometry.state_units / kSectorUnits);
    const double cut = std::max(0.0, segments(geometry, kSectorUnits) - sectors);
    const double received = bytes * geometry.sms, beyond = received - chip.cost[Cost::cluster_bytes_unwaited];
    cycles.copying = chip.cost[Cost::cluster_per_segment] * geometry.sms * cut * (geometry.group_batch - 1) +
                     chip.cost[Cost::cluster_byte_beyond] * std::max(0.0, beyond);
    return cycles;
  }
  constexpr int kWordUnits = 8;  // in 16 bytes
  const int spans_at_once = std::min(geometry.warp_spans, 2 * spans_of_group(geometry));
  const double words = 1.0 * geometry.state_units / kWordUnits;
  return direct_exchange_cycles(
      chip, {.threads = geometry.threads,
             .warps_per_partition = std::ceil(busy_warps(geometry) / chip.partitions),
             .stores = 1.0 * segments(geometry, kSpanUnits) * geometry.group_batch * geometry.batch_groups,
             .words = 1.0 * spans_at_once * geometry.sample_tiles,
             .lanes = geometry.group_batch / (8.0 * geometry.sample_tiles),
             .shared_words = segments(geometry, kWordUnits) / words - 1});
}

}  // namespace

double step_instructions(const DenseGeometry& geometry, const CostValues& cost) {
  const double samples = geometry.sample_tiles;
  const double products = geometry.warp_tiles * samples;
  const double words = geometry.warp_spans * samples;
  const double sums = geometry.row_tiles * samples;
  return products + geometry.shared_tiles * per_shared_tile(geometry).all() + cost[Cost::word_instructions] * words +
         cost[Cost::tile_sum_instructions] * sums + cost[Cost::rest_instructions];
}

Price price(const Chip& chip, const DenseGeometry& geometry) {
  const double us_per_cycle = 1e6 / chip.clock_hz,
               us_per_tensor_cycle = 1e6 / (chip.clock_hz * chip.tensor_clock_share);
  const ExchangeCycles exchanging = exchange_of(chip, geometry);
  const StepCycles cycles = step_cycles(chip, geometry);
  const double exchange = exchanging.latency * us_per_cycle;
  const double staging = exchanging.copying * us_per_cycle + cycles.waiting * us_per_tensor_cycle;
  Price result;
  result.terms.add("exchange", exchange);
  result.terms.add("staging", staging);
  result.terms.add("gather", cycles.gather * us_per_tensor_cycle);
  result.terms.add("arithmetic", cycles.arithmetic * us_per_tensor_cycle);
  result.terms.add("reduction", cycles.reduction * us_per_tensor_cycle);
  result.terms.add("activation", cycles.activation * us_per_tensor_cycle);
  // The floor: the tensor cores' products, spread evenly; and a word of another SM, multiplied, added to the
  // other warps' sums through shared memory, and finished. All of it is in the terms, too. In a cluster words come
  // faster than through L2, by how much is not known.
  const double tiles = 1.0 * geometry.spans * geometry.span_tiles * geometry.row_tiles;
  const double signal = geometry.exchange == ExchangeProtocol::cluster ? 0 : least_signal_cycles(chip, geometry.sms);
  const double meeting = geometry.gates > 1 ? chip.shuffle_latency_cycles.value : 0;
  const double product = std::min(1.0, dependent_products(geometry)) * chip.tensor_latency_cycles;
  const double finished = product + chip.lds_latency_cycles + meeting +
                          info(geometry.network.cell).transcendentals * chip.tanh_latency_cycles;
  result.floor_us = std::max(least_products_us(chip, geometry, tiles), (signal + finished) * us_per_cycle);
  result.below_us = result.above_us = half_interval_us(chip, exchange + staging, result.terms.total());
  return result;
}

double least_step_us(const Chip& chip, const DenseGeometry& geometry) {
  const Terms terms = price(chip, geometry).terms;
  return terms.total() - terms["staging"];  // which loads in flight may lengthen or hide
}

double least_products_us(const Chip& chip, const DenseGeometry& geometry, double tiles) {
  return tiles * geometry.sample_tiles * issue_of_product(chip, geometry) / chip.partitions * 1e6 /
         (chip.clock_hz * chip.tensor_clock_share);
}

int best_poll_delay(const DenseGeometry& geometry) {
  if (geometry.exchange != ExchangeProtocol::lamport) {
    return 0;
  }
  constexpr int kStep = 20;  // fewer different kernels
  constexpr double kLeast = 30, kPerMiB = 40, kMost = 200;
  const double polled = 1.0 * geometry.blocks * static_cast<double>(geometry.exchange_bytes) / (1 << 20);
  return static_cast<int>(std::lround(std::min(kLeast + kPerMiB * polled, kMost) / kStep)) * kStep;
}

}  // namespace onchip
