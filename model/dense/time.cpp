// SPDX-License-Identifier: Apache-2.0
#include "model/dense/time.hpp"

#include "model/plan/instructions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace onchip {
namespace {

constexpr int kWarp = 32;

// Spans that a warp awaits together, and in how many groups that makes.
int group_spans(const Network& network, const Plan& plan) {
  return std::max(1, plan.loads_in_flight / (2 * sample_tiles(network, plan)));
}
int span_groups(const Network& network, const Plan& plan) {
  return (warp_spans(network, plan) + group_spans(network, plan) - 1) / group_spans(network, plan);
}

// Parts in which the SMs of a team have the units of a sample, of `piece` each: more than pieces where SMs share some,
// more than SMs where an SM has several.
int shared_pieces(const Network& network, const Plan& plan, int piece) {
  const int units = state_units(network, plan);
  const auto inside = [units](int distance) { return (units + distance - 1) / distance - 1; };  // bounds of such pieces
  return plan.sms + inside(piece) - inside(std::lcm(piece, units_per_sm(network, plan)));
}

// Warps that have spans; those after them have neither products nor sums.
int busy_warps(const Network& network, const Plan& plan) {
  const int of_warp = warp_spans(network, plan);
  return (spans(network, plan) + of_warp - 1) / of_warp;
}

struct Products {
  double tensor = 0;  // cycles of the busiest partition's tensor core, or of a warp's chain of sums
  double loads = 0;   // of the SM's shared memory
  double words = 0;   // bitmap: of the busiest partition, for the words of tiles in shared memory
};

// Of the busiest partition: what expanding its tiles takes, and no less than its instructions take from beyond the
// instruction cache. A tile of 14 instructions takes 22 cycles, with one, two and four tiles of samples alike and
// however dense it is, beside the loads of all warps: a fit to the 27 bitmaps of bitmap.csv (experiments/data).
double expanding_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  constexpr double kTile = 22;
  const double warps_per_partition = std::ceil(busy_warps(network, plan) / chip.partitions);
  const double all =
      plan.shared_tiles * per_shared_tile(plan).all() + 1.0 * warp_tiles(network, plan) * sample_tiles(network, plan);
  return std::max(warps_per_partition * plan.shared_tiles * kTile,
                  all * instruction_supply_cycles(chip, cached_instructions(network, plan)));
}

// A product of 2:4 weights has twice the units of a dense one. That it takes half as long again is a fit to
// structured.csv (experiments/data/h200); with few samples nothing of it is seen.
constexpr double kStructured = 1.5;

Products product_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  const double warps_per_partition = std::ceil(busy_warps(network, plan) / chip.partitions);
  const double tiles = warp_tiles(network, plan);
  const double product = chip.tensor_issue_cycles * (plan.storage == Storage::structured_2_4 ? kStructured : 1);
  const double issue = warps_per_partition * tiles * sample_tiles(network, plan) * product;
  const double chain = static_cast<double>(span_tiles(plan)) * warp_spans(network, plan) /
                       product_chains(network, plan) * chip.tensor_latency_cycles;
  const double shared_tiles = static_cast<double>(plan.shared_tiles) * busy_warps(network, plan);
  // In a cluster the state comes from shared memory, too, once.
  const bool in_cluster = plan.exchange == ExchangeProtocol::cluster;
  const double state = in_cluster ? static_cast<double>(exchange_bytes(network, plan)) : 0;
  const double row_bytes = chip.smem_banks * chip.smem_bank_bytes;
  if (plan.storage == Storage::bitmap && plan.shared_tiles > 0) {
    const double empty = std::pow(1 - network.density, 2 * kWarp);  // of a warp's load: no lane has the word
    const double wavefronts = kTileBytes / row_bytes * shared_tiles * (1 - empty) + state / row_bytes;
    const double loads = std::max(wavefronts * chip.lds_wavefront_cycles,
                                  per_shared_tile(plan).load * shared_tiles * chip.lds_instruction_cycles);
    return {std::max(issue, chain), loads, expanding_cycles(chip, network, plan)};
  }
  const double wavefronts = (kTileBytes * shared_tiles + state) / row_bytes;
  return {std::max(issue, chain), wavefronts * chip.lds_wavefront_cycles, 0};
}

// What a step takes longer, of looks and products of which each waits for the one before, where a partition has one
// warp, which has nobody beside it: a fit to steps of dense_shapes.csv (experiments/data), as are the others below.
double exposed_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  constexpr double kAlone = 200;
  return busy_warps(network, plan) <= chip.partitions ? kAlone : 0;
}

// The products of all groups of a warp's spans, with what a warp does between the groups.
struct Pipeline {
  double whole = 0;    // from when the words of the first two groups are there to the end of the last products
  double waiting = 0;  // of it, for nothing but words
};

Pipeline pipeline_cycles(const Chip& chip, const Network& network, const Plan& plan, double products) {
  const double groups = span_groups(network, plan);
  const double words = static_cast<double>(warp_spans(network, plan)) * sample_tiles(network, plan) / groups;
  const double busy = products / groups;
  // The first two groups are asked for at once, every other when the one before it has been looked at; the round trip
  // has most of the looks.
  constexpr double kLooking = 40;
  const double asked_late = chip.exchange_round_trip_cycles + kLooking + chip.exchange_per_word_cycles * words;
  const double at_once = std::min(groups, 2.0);
  const double whole = at_once * busy + (groups - at_once) * std::max(asked_late, busy);
  return {whole + exposed_cycles(chip, network, plan), whole - products};
}

// Functions that an item evaluates: tanh or sigmoid, an exponential and a reciprocal.
int squashes_of_item(Cell cell) {
  switch (cell) {
    case Cell::relu:
      return 0;
    case Cell::tanh:
      return 2;  // of two units
    case Cell::lstm:
      return 5;
    case Cell::gru:
      return 3;
  }
  return 0;
}

// Of a warp of items, beside the two special instructions of each.
double function_cycles(const Chip& chip, Cell cell) {
  constexpr double kSquash = 18;
  return squashes_of_item(cell) * (kSquash + 2 * chip.special_issue_cycles);
}

// What a partition takes to finish its items, beside the latency of the cell: all warps that have some, the same
// however few lanes have one, and the functions of as many as there are.
double finishing_cycles(const Chip& chip, Cell cell, double items) {
  constexpr double kWarpOfItems = 239;
  const double warps = items / (kWarp * chip.partitions);
  return std::ceil(warps) * kWarpOfItems + warps * function_cycles(chip, cell);
}

// Wavefronts in which a warp reads the sums of its items where one would do. Its samples' rows are 4 or 20 banks apart,
// and so those of two meet, but for the four rows of an LSTM's item, which a quarter of a warp reads at once.
double wavefronts_of_sums(const Network& network, const Plan& plan) {
  const int units = units_per_sm(network, plan);
  const bool of_several = units < kWarp && units * team_batch(network, plan) >= kWarp;
  return of_several && info(network.cell).gates < 4 ? 2 : 1;
}

}  // namespace

DenseCycles dense_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  DenseCycles result;
  const Products products = product_cycles(chip, network, plan);
  const auto cube = [](double x) { return x * x * x; };
  // Tiles are expanded beside the loads, not beside the products.
  const double both = products.words > 0 ? products.tensor + std::max(products.loads, products.words)
                                         : std::cbrt(cube(products.tensor) + cube(products.loads));
  // In a cluster, one after the other; to the first product a warp takes longer than its first load, of which the
  // clocks of relu networks of 256 and 512 units see some 50 cycles (measure --clocks). This, and what of the exchange
  // is hidden, was fitted to such steps of families.csv (experiments/data).
  constexpr double kToFirstProduct = 125;
  const bool in_cluster = plan.exchange == ExchangeProtocol::cluster;
  const double first = chip.lds_latency_cycles + kToFirstProduct;
  const Pipeline pipeline = in_cluster ? Pipeline{first + both, first} : pipeline_cycles(chip, network, plan, both);
  result.waiting = pipeline.waiting;
  const double beyond = pipeline.whole - pipeline.waiting;
  result.gather = beyond * products.loads / (products.tensor + products.loads + products.words);
  result.arithmetic = beyond - result.gather;

  const int gates = info(network.cell).gates;
  const int busy = busy_warps(network, plan);
  // All warps' sums go through the same shared memory: written whole tile by whole tile, read where there are a row and
  // a sample, and added in a tree. What else a round needs, and the first round's before the barrier, is loaded before
  // its sums are. Three rows are loaded one by one, two or four at once. Half of the transfers are beside what other
  // warps do.
  constexpr double kRowLoad = 4, kExposed = 0.5;
  const double written = 4.0 * plan.warps() * 16 * row_tiles(network, plan) * 8 * sample_tiles(network, plan);
  const double read =
      4.0 * busy * units_per_sm(network, plan) * gates * team_batch(network, plan) * wavefronts_of_sums(network, plan);
  const double transfers = (written + read) / (chip.smem_banks * chip.smem_bank_bytes) * chip.lds_wavefront_cycles;
  const double additions = std::ceil(std::log2(busy)) * chip.arithmetic_latency_cycles;
  const double row_loads = gates == 3 ? (gates - 1) * busy * kRowLoad : 0;
  result.reduction = kExposed * transfers + 2 * chip.lds_latency_cycles + additions + row_loads;

  const double joining = gates > 1 ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  const double cell = info(network.cell).transcendentals * chip.tanh_latency_cycles + joining;
  const double items = finished_items(network, plan);
  if (in_cluster) {
    // Words are on their way meanwhile, and the exchange has the time of that. From the last sum of an item to its
    // store beside the cell's functions: instructions of which each waits for the one before, a conversion as long as
    // six of them and a branch as three; read off the machine code of a vanilla RNN.
    constexpr double kFinishing = 20;
    // Other warps of the partition finish items beside it, and the items that are left when all threads have had one
    // are read, finished and sent after it. What a warp takes beside another was read off steps of clusters.csv and
    // drawn.csv.
    constexpr double kBeside = 80;
    const double of_item = cell + kFinishing * chip.arithmetic_latency_cycles;
    const double functions = function_cycles(chip, network.cell);
    const double beside = std::ceil(std::min<double>(items, plan.threads) / (kWarp * chip.partitions)) - 1;
    const double rounds = std::ceil(items / plan.threads);
    result.activation = of_item + beside * (kBeside + functions) +
                        (rounds - 1) * (of_item + 2 * chip.lds_latency_cycles + row_loads + functions);
  } else {
    result.activation = cell + finishing_cycles(chip, network.cell, items);
  }
  return result;
}

ExchangeCycles dense_exchange_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  if (plan.exchange == ExchangeProtocol::cluster) {
    // SMs send what they have finished while they finish the rest, and so most of the way is hidden. But where all SMs
    // together receive more than so much, they wait for it. A fit to such steps of families.csv (experiments/data), as
    // the calibration's exchanges have one cluster alone.
    constexpr double kExposed = 1.0 / 3, kHiddenBytes = 64 << 10, kPerByte = 0.0055;
    const auto bytes = static_cast<double>(exchange_bytes(network, plan));
    ExchangeCycles cycles = cluster_exchange_cycles(chip, bytes, plan.sms, plan.threads);
    cycles.copying = kExposed * cycles.copying + kPerByte * std::max(0.0, bytes * plan.sms - kHiddenBytes);
    // Where the SMs' units are no whole sectors of 32 bytes, each sample's words go in more and smaller pieces: relu
    // H=256 B=16 on 16 SMs takes 930 cycles, H=288 1760, H=352 2130, and H=512 1250 (two teams, H100).
    constexpr int kSectorUnits = 16;
    constexpr double kPerPiece = 0.4;  // fitted to such steps of clusters.csv (experiments/data)
    const double sectors = std::ceil(1.0 * state_units(network, plan) / kSectorUnits);
    const double cut = std::max(0.0, shared_pieces(network, plan, kSectorUnits) - sectors);
    cycles.copying += kPerPiece * plan.sms * cut * (team_batch(network, plan) - 1);
    return cycles;
  }
  constexpr int kWordUnits = 8;  // in 16 bytes
  const int spans_at_once = std::min(warp_spans(network, plan), 2 * group_spans(network, plan));
  const double words = 1.0 * state_units(network, plan) / kWordUnits;
  return direct_exchange_cycles(
      chip, {.threads = plan.threads,
             .warps_per_partition = std::ceil(busy_warps(network, plan) / chip.partitions),
             .stores = 1.0 * shared_pieces(network, plan, kSpanUnits) * team_batch(network, plan) * plan.teams,
             .words = 1.0 * spans_at_once * sample_tiles(network, plan),
             .lanes = team_batch(network, plan) / (8.0 * sample_tiles(network, plan)),
             .shared_words = shared_pieces(network, plan, kWordUnits) / words - 1});
}

}  // namespace onchip
