// SPDX-License-Identifier: Apache-2.0
#include "model/dense_time.hpp"

#include "model/instructions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

constexpr int kWarp = 32;

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
  const double warps_per_partition = std::ceil(plan.warps() / chip.partitions);
  const double all =
      plan.shared_tiles * per_shared_tile(plan).all() + 1.0 * warp_tiles(network, plan) * sample_tiles(network, plan);
  return std::max(warps_per_partition * plan.shared_tiles * kTile,
                  all * instruction_supply_cycles(chip, cached_instructions(network, plan)));
}

Products product_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  const double warps_per_partition = std::ceil(plan.warps() / chip.partitions);
  const double tiles = warp_tiles(network, plan);
  const double issue = warps_per_partition * tiles * sample_tiles(network, plan) * chip.tensor_issue_cycles;
  const double chain = static_cast<double>(span_tiles(plan)) * warp_spans(network, plan) /
                       product_chains(network, plan) * chip.tensor_latency_cycles;
  const double shared_tiles = static_cast<double>(plan.shared_tiles) * plan.warps();
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
// warp, which has nobody beside it: the mean of such steps of dense_shapes.csv (experiments/data).
double exposed_cycles(const Chip& chip, const Plan& plan) {
  constexpr double kAlone = 200;
  return plan.warps() <= chip.partitions ? kAlone : 0;
}

// The products of all groups of a warp's spans, with what a warp does between the groups.
struct Pipeline {
  double whole = 0;    // from when the first words are there to the end of the last products
  double waiting = 0;  // of it, for nothing but words
};

Pipeline pipeline_cycles(const Chip& chip, const Network& network, const Plan& plan, double copying, double products) {
  const int group_spans = std::max(1, plan.loads_in_flight / (2 * sample_tiles(network, plan)));
  const double groups = std::ceil(static_cast<double>(warp_spans(network, plan)) / group_spans);
  const double words = static_cast<double>(warp_spans(network, plan)) * sample_tiles(network, plan) / groups;
  const bool polls = plan.exchange == ExchangeProtocol::lamport;
  const double look = polls ? chip.look_cycles + chip.look_per_word_cycles * words : 0;
  const double copy = copying / groups, busy = products / groups + look;
  // The first two groups are asked for at once, every other when the one before it has come.
  const double asked_late = chip.exchange_round_trip_cycles + copy + chip.exchange_per_word_cycles * words;
  const double second = std::max(2 * copy, copy + busy);
  const double last = groups == 1 ? copy : second + (groups - 2) * std::max(asked_late, busy);
  // One look is in the exchange.
  const double whole = last + busy - look + exposed_cycles(chip, plan);
  return {whole, std::max(0.0, whole - copying - groups * busy)};
}

// What a warp of items issues while it finishes them, an instruction in one or two cycles: a fit to the steps of
// families.csv and dense_shapes.csv (experiments/data). In a cluster words are on their way meanwhile, and its exchange
// has the time of that.
constexpr double kFinishingIssue = 160;

// From the last sum of an item to its store, beside the cell's functions: instructions of which each waits for the one
// before, a conversion as long as six of them and a branch as three; read off the machine code of a vanilla RNN.
constexpr double kFinishing = 20;

}  // namespace

DenseCycles dense_cycles(const Chip& chip, const Network& network, const Plan& plan, double copying) {
  DenseCycles result;
  const Products products = product_cycles(chip, network, plan);
  const auto cube = [](double x) { return x * x * x; };
  // Tiles are expanded beside the loads, not beside the products.
  const double both = products.words > 0 ? products.tensor + std::max(products.loads, products.words)
                                         : std::cbrt(cube(products.tensor) + cube(products.loads));
  // In a cluster, one after the other; to the first product a warp takes longer than its first load, by the clocks of
  // relu networks of 256 and 512 units (measure --clocks).
  constexpr double kToFirstProduct = 50;
  const bool in_cluster = plan.exchange == ExchangeProtocol::cluster;
  const double first = chip.lds_latency_cycles + kToFirstProduct;
  const Pipeline pipeline =
      in_cluster ? Pipeline{copying + first + both, first} : pipeline_cycles(chip, network, plan, copying, both);
  result.waiting = pipeline.waiting;
  const double beyond = pipeline.whole - copying - pipeline.waiting;
  result.gather = beyond * products.loads / (products.tensor + products.loads + products.words);
  result.arithmetic = beyond - result.gather;

  const bool is_gated = info(network.cell).gates > 1;
  // All warps' sums go through the same shared memory: written whole tile by whole tile, read where there are a row and
  // a sample, and added in a tree. What else a round needs, and the first round's before the barrier, is loaded before
  // its sums are.
  const double written = 4.0 * plan.warps() * 16 * row_tiles(network, plan) * 8 * sample_tiles(network, plan);
  const double read =
      4.0 * plan.warps() * units_per_sm(network, plan) * info(network.cell).gates * team_batch(network, plan);
  const double transfers = (written + read) / (chip.smem_banks * chip.smem_bank_bytes) * chip.lds_wavefront_cycles;
  const double additions = std::ceil(std::log2(plan.warps())) * chip.arithmetic_latency_cycles;
  result.reduction = transfers + 2 * chip.lds_latency_cycles + additions;

  const double joining = is_gated ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  const double cell = info(network.cell).transcendentals * chip.tanh_latency_cycles + joining;
  const double items = finished_items(network, plan);
  const double issue = in_cluster ? 0.0 : items / (kWarp * chip.partitions) * kFinishingIssue;
  const double wide_load = chip.lds_latency_cycles + 3 * chip.lds_latency_per_word_cycles;
  const double finishing = cell + kFinishing * chip.arithmetic_latency_cycles;
  const double more_rounds = std::ceil(items / plan.threads) - 1;
  result.activation = finishing + issue + more_rounds * (2 * wide_load + additions + finishing);
  return result;
}

}  // namespace onchip
