// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_price.hpp"

#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace onchip {
using namespace price_parts;
namespace {

// Of one access to 8 places: the most different ones of the same banks.
int wavefronts_of(std::span<const std::uint32_t> places) {
  unsigned banks = 0;
  for (const std::uint32_t place : places) {
    banks |= 1U << place % kFreePlaces;
  }
  if (banks == (1U << kFreePlaces) - 1) {
    return 1;
  }
  std::array<int, kFreePlaces> of_banks{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (std::ranges::find(places.first(i), places[i]) == places.begin() + static_cast<std::ptrdiff_t>(i)) {
      ++of_banks[places[i] % kFreePlaces];
    }
  }
  return std::ranges::max(of_banks);
}

// Of a multiple of 8 places.
int wavefronts_of_all(std::span<const std::uint32_t> places) {
  int sum = 0;
  for (; !places.empty(); places = places.subspan(kFreePlaces)) {
    sum += wavefronts_of(places.first(kFreePlaces));
  }
  return sum;
}

constexpr double kLaneBytes = 16;      // of a lane of ldmatrix: a place
constexpr int kFragmentRegisters = 4;  // of a weight tile, fp16; loaded at once
// Of a record without weights: what its copy to shared memory and four reads take beyond loads of biases and places,
// counted in machine code for sm_90; their wavefronts.
constexpr int kCopyInstructions = 5, kCopyWavefronts = 6;

// Of so many nodes of the graph.
Terms launch_terms(const Chip& chip, double nodes) {
  Parts parts{};
  parts[kLaunches] = nodes * node_us(chip);
  return terms_of(parts);
}

double weight_bytes_per_cycle(const Chip& chip) {
  return std::min<double>(chip.library_sm_bytes_per_cycle, chip.exchange_bytes_per_cycle_per_sm);
}

double dram_bytes_per_cycle(const Chip& chip) {
  return chip.dram_bytes_per_second * chip.library_dram_share / (chip.clock_hz * chip.tensor_clock_share);
}

// Registers of a thread with so many output blocks ahead: outputs that are held in place, weights, sums.
double registers(const BlocksGeometry& geometry, const BlocksTile& tile, int ahead) {
  const int sets = tile.groups * tile.words;
  const int held = tile.in_place ? geometry.warp_blocks * 2 * sets + geometry.warp_blocks / 2 : 0;
  const int remainder = geometry.remainder ? 4 + ahead : 0;  // where records lie, how many
  const int expanded = geometry.weight_bytes == 2 ? 0 : kFragmentRegisters;
  const int loaded = geometry.weight_bytes == 0 ? 1 : ahead;  // records in registers
  return held + loaded * (kFragmentRegisters * geometry.lane_vectors() + geometry.part_tiles() + 3) + expanded +
         remainder + 4 * tile.groups + 4 * sets;
}

double registers_of_thread(const Chip& chip, const BlocksGeometry& geometry) {
  return std::min<double>(chip.registers_per_thread, chip.registers_per_block / (32 * geometry.warps)) +
         chip.cost[Cost::blocks_reused_registers];
}

// A layer of one tile, in cycles.
Parts layer_cycles(const Chip& chip, const BlocksWork& work, const BlocksTile& tile, int layer) {
  const BlocksGeometry& geometry = work.geometry;
  const CostValues& cost = chip.cost;
  const double warps = geometry.warps, blocks = geometry.warp_blocks, sets = tile.groups * tile.words;
  const bool is_copied = geometry.weight_bytes == 0;
  const double instructions = cost[Cost::blocks_block_instructions] +
                              cost[Cost::blocks_tile_instructions] * geometry.tiles +
                              cost[Cost::tile_sum_instructions] * sets -
                              (geometry.part_tiles() - geometry.lane_vectors()) * geometry.parts +  // fewer loads
                              (is_copied ? kCopyInstructions * geometry.parts : 0);
  const double converted = geometry.weight_bytes == 1 ? kFragmentRegisters * geometry.tiles : 0;
  const double of_block = instructions * chip.fp32_issue_cycles + converted * chip.conversion_issue_cycles +
                          geometry.tiles * sets * chip.tensor_issue_cycles;
  const double records = static_cast<double>(work.remainder[layer]) / warps;  // of a warp
  const double of_record = (cost[Cost::blocks_record_instructions] + sets) * chip.fp32_issue_cycles +
                           kRecordTiles * sets * chip.tensor_issue_cycles;
  const int ahead = weights_ahead(chip, geometry, tile);
  const double reads = static_cast<double>(work.read_tiles[layer]) / warps;
  Parts parts{};
  parts[kProducts] = (blocks * of_block + records * of_record) * std::max(1.0, warps / chip.partitions);
  parts[kLatency] =
      (reads + records) * (chip.lds_latency_cycles + (kLaneBytes / 4 - 1) * chip.lds_latency_per_word_cycles) +
      records * kRecordTiles * chip.tensor_latency_cycles +
      blocks * (geometry.tiles * chip.tensor_latency_cycles +
                cost[Cost::blocks_epilogue_instructions] * chip.arithmetic_latency_cycles) +
      geometry.records() *
          (is_copied ? chip.lds_latency_cycles.value : shared_line_cycles(chip) / static_cast<double>(ahead));
  const double chain = parts[kProducts] + parts[kLatency];
  const double copied = is_copied ? kCopyWavefronts * geometry.records() * warps : 0;
  const double shared = (static_cast<double>(wavefronts(work, tile, layer)) + copied +
                         cost[Cost::blocks_ring_wavefronts] * static_cast<double>(work.remainder[layer])) *
                        chip.lds_wavefront_cycles;
  parts[kShared] = std::max(0.0, shared - chain);
  // Registers that spill are stored and loaded once in a layer. From device memory a layer comes once for all SMs,
  // which read it at about the same time.
  const double spilled = std::max(0.0, registers(geometry, tile, ahead) - registers_of_thread(chip, geometry));
  const double weights = work.weight_bytes(layer);
  const bool stays = weights * geometry.layers <= chip.l2_bytes * chip.library_l2_share;
  parts[kL2] =
      std::max({0.0, (weights + spilled * 2 * 4 * 32 * warps) / weight_bytes_per_cycle(chip) - std::max(chain, shared),
                stays ? 0 : weights / dram_bytes_per_cycle(chip) - std::max(chain, shared)});
  parts[kBarriers] = (tile.in_place ? 2 : 1) * barrier_cycles(chip, geometry.warps);
  return parts;
}

// Throws InputError for the first weight of a layer that fp16 cannot hold.
void refuse_weights(const FeedForward& network, const NetworkStructure& structure, const BlocksGeometry& geometry,
                    int l) {
  FeedForward one{network.name, {network.inputs(l), network.outputs(l)}, network.clip, {}};
  one.layer = [&](int) { return network.layer(l); };
  BlocksGeometry of_one = geometry;
  of_one.layers = 1;
  of_one.inputs = network.inputs(l);
  pack_blocks(one, {{structure.layers[l]}, {structure.places[l], structure.places[l + 1]}, {}, {}}, of_one);
}

}  // namespace

BlocksWork blocks_work(const FeedForward& network, const NetworkStructure& structure, const BlocksGeometry& geometry) {
  const int layers = network.layers();
  BlocksWork work{geometry,
                  std::vector<std::int64_t>(layers),
                  std::vector<std::int64_t>(layers),
                  std::vector<std::int64_t>(layers),
                  {network.neurons.begin(), network.neurons.end()},
                  0};
  parallel_for(layers, all_cores(), [&](int l) {
    if (!structure.values[l].halves) {
      refuse_weights(network, structure, geometry, l);
    }
    for_each_record(structure, geometry, l, [&](int, const RecordPlaces& record) {
      work.wavefronts[l] += wavefronts_of_all(record.outputs);
      for (int t = 0; t < geometry.tiles; ++t) {
        if (!record.same[t]) {
          ++work.read_tiles[l];
          work.wavefronts[l] += wavefronts_of_all(
              std::span(record.inputs).subspan(static_cast<std::size_t>(t) * kBlockColumns, kBlockColumns));
        }
      }
      if (!geometry.remainder) {
        return;
      }
      const std::vector<std::byte> outside =
          remainder_records(outside_weights(structure, l, record.rows), geometry.place_bytes);
      for (std::size_t at = 0; at < outside.size(); at += remainder_record_bytes(geometry.place_bytes)) {
        std::array<std::uint32_t, kRecordWeights> places;
        std::ranges::transform(read_remainder_record(outside.data() + at, geometry.place_bytes), places.begin(),
                               &OutsideWeight::place);
        work.wavefronts[l] += wavefronts_of_all(places);
        ++work.remainder[l];
      }
    });
  });
  for (const LayerStructure& layer : structure.layers) {
    work.block_elements += layer.blocks.elements();
  }
  work.monotone = std::ranges::all_of(structure.monotone, [](char is) { return is != 0; });
  return work;
}

double BlocksWork::weight_bytes(int layer) const {
  return static_cast<double>(geometry.layer_bytes()) +
         static_cast<double>(remainder[layer]) * static_cast<double>(remainder_record_bytes(geometry.place_bytes));
}

double BlocksWork::weight_bytes() const {
  double bytes = 0;
  for (int l = 0; l < geometry.layers; ++l) {
    bytes += weight_bytes(l);
  }
  return bytes;
}

std::int64_t wavefronts(const BlocksWork& work, const BlocksTile& tile, int layer) {
  return tile.groups * tile.words * work.wavefronts[layer];
}

int weights_ahead(const Chip& chip, const BlocksGeometry& geometry, const BlocksTile& tile) {
  if (geometry.weight_bytes == 0) {
    return geometry.most_ahead();
  }
  for (int ahead = geometry.most_ahead(); ahead > 1; --ahead) {
    if (geometry.ahead_divides() % ahead == 0 &&
        registers(geometry, tile, ahead) <= registers_of_thread(chip, geometry)) {
      return ahead;
    }
  }
  return 1;
}

BlocksPricer::BlocksPricer(const Chip& chip, const BlocksWork& work, const Activity& activity)
    : chip_(chip), work_(work), activity_(activity) {
  tiles_.reserve(64);
}

const BlocksPricer::OfTile& BlocksPricer::of(const BlocksTile& tile) const {
  const auto known = std::ranges::find(tiles_, tile, &OfTile::tile);
  if (known != tiles_.end()) {
    return *known;
  }
  OfTile fresh{tile, {terms_of({})}};
  Terms of_layer;
  for (int l = 0; l < work_.geometry.layers; ++l) {
    if (l == 0 || work_.read_tiles[l] != work_.read_tiles[l - 1] || work_.wavefronts[l] != work_.wavefronts[l - 1] ||
        work_.remainder[l] != work_.remainder[l - 1]) {
      of_layer = terms_of(layer_cycles(chip_, work_, tile, l) * tensor_cycle_us(chip_));
    }
    fresh.until.push_back(fresh.until.back() + of_layer);
  }
  return tiles_.emplace_back(std::move(fresh));
}

// Of one tile: its features come, its layers, who is alive, their features go.
Terms BlocksPricer::tile_terms(const BlocksTile& tile, int first, int end, double survivors) const {
  const BlocksGeometry& geometry = work_.geometry;
  const CostValues& cost = chip_.cost;
  const double lanes = 32, partitions = chip_.partitions, warps = geometry.warps;
  const double used = geometry.places - kFreePlaces, words = static_cast<double>(geometry.feature_words(tile));
  const double sm_dram = dram_bytes_per_cycle(chip_) / chip_.sm_count;
  const double barrier = barrier_cycles(chip_, geometry.warps);
  // What all warps issue, spread over the partitions; at least one warp's, whose instructions wait for each other.
  const auto issue = [&](double warps_worth, double slots) {
    return std::max(warps_worth / partitions * chip_.fp32_issue_cycles,
                    std::ceil(warps_worth / warps) * chip_.arithmetic_latency_cycles) *
           slots;
  };
  const double moved = issue(words * tile.groups / lanes, cost[Cost::blocks_move_slots]);
  const double image_bytes = 4 * words;
  Parts parts{};
  if (first == 0) {
    const double quads = (geometry.inputs + 127) / 128;
    const double transposed = issue(4 * quads * tile.groups / lanes, cost[Cost::transpose_slots]);
    const double expanded = std::max(issue(used * tile.groups / lanes, cost[Cost::blocks_expand_slots]),
                                     used * tile.groups / (lanes / 4) * chip_.lds_wavefront_cycles);
    parts[kImages] = std::max(transposed + expanded, 16 * quads * tile.images() / sm_dram);
    parts[kBarriers] += 2 * barrier;
  } else {
    parts[kImages] = std::max(moved, tile.images() * image_bytes / sm_dram) + chip_.l2_latency_cycles;
  }
  // Who is alive: shuffles over the lanes of an image, and a slot for each that is.
  parts[kSurvivors] = 3 * chip_.shuffle_latency_cycles + 2 * chip_.l2_latency_cycles;
  if (end < geometry.layers) {
    parts[kSurvivors] += std::max(moved, survivors * tile.images() * image_bytes / sm_dram);
  }
  parts[kBarriers] += (tile.in_place ? 4 : 3) * barrier;
  const OfTile& layers = of(tile);
  return layers.until[end] + layers.until[first] * -1 + terms_of(parts * tensor_cycle_us(chip_));
}

LaunchPrice BlocksPricer::phase(const BlocksTile& tile, int first, int end) const {
  LaunchPrice launch{"layers " + std::to_string(first + 1) + " to " + std::to_string(end), activity_.alive[first], 0, 0,
                     terms_of({})};
  launch.tiles = static_cast<std::int64_t>(std::ceil(launch.images / tile.images()));
  launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / chip_.sm_count));
  const double survivors = launch.images > 0 ? activity_.alive[end] / launch.images : 0;
  launch.terms = tile_terms(tile, first, end, survivors) * static_cast<double>(launch.rounds) + launch_terms(chip_, 1);
  return launch;
}

LaunchPrice BlocksPricer::bounds(const BlocksTile& tile, double images, double sms, int at_once) const {
  const int layers = work_.geometry.layers;
  // The kernel looks after layers 1, 5, 9, ...
  const int until =
      std::min(layers, (std::max(activity_.settled, 1) + kSettlesEach - 2) / kSettlesEach * kSettlesEach + 1);
  LaunchPrice launch = phase(tile, 0, layers);
  launch.name = "lower bounds";
  launch.images = images;
  launch.tiles = at_once * static_cast<std::int64_t>(std::ceil(launch.images / tile.images()));
  launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / sms));
  const OfTile& of_layers = of(tile);
  Parts looks{};
  looks[kSurvivors] = 3 * chip_.shuffle_latency_cycles * until / kSettlesEach;
  looks[kBarriers] = 2 * barrier_cycles(chip_, work_.geometry.warps) * until / kSettlesEach;
  const Terms of_tile = tile_terms(tile, 0, layers, 0) + of_layers.until[layers] * -1 + of_layers.until[until] +
                        terms_of(looks * tensor_cycle_us(chip_));
  launch.terms = of_tile * static_cast<double>(launch.rounds) + launch_terms(chip_, 1);
  return launch;
}

LaunchPrice BlocksPricer::undecided(const BlocksTile& wide, int first, const LaunchPrice& last) const {
  const double free = chip_.sm_count - static_cast<double>(last.tiles);
  const double images = std::max<double>(wide.images(), activity_.alive[first] - activity_.alive.back());
  LaunchPrice launch = bounds(wide, images, free > 0 ? free : chip_.sm_count, 2);
  launch.name = "bounds of two words, beyond the last phase";
  launch.terms = launch.terms + launch_terms(chip_, chip_.cost[Cost::inference_nodes]);
  return launch;
}

double BlocksPricer::beyond(const LaunchPrice& undecided, const LaunchPrice& last) const {
  const double us = undecided.terms.total();
  return static_cast<double>(last.tiles) < chip_.sm_count ? std::max(0.0, us - last.terms.total()) : us;
}

InferencePrice BlocksPricer::price(const BlocksPlan& plan) const {
  InferencePrice price;
  int first = 0, last_first = 0;
  for (const BlocksPhase& of_plan : plan.phases) {
    price.launches.push_back(phase(of_plan.tile, first, of_plan.end_layer));
    last_first = first;
    first = of_plan.end_layer;
  }
  price.launches.insert(price.launches.end() - 1, bounds(plan.lower, activity_.alive[last_first], chip_.sm_count));
  // Beside the last phase; what is longer than it counts.
  LaunchPrice finer = undecided(plan.wide, last_first, price.launches.back());
  finer.terms = finer.terms * (beyond(finer, price.launches.back()) / finer.terms.total());
  price.launches.push_back(std::move(finer));
  Parts listed{};
  listed[kSurvivors] = listed_us(chip_, activity_.alive.back());
  price.terms = launch_terms(chip_, chip_.cost[Cost::inference_nodes]) + terms_of(listed);
  for (const LaunchPrice& launch : price.launches) {
    price.terms = price.terms + launch.terms;
  }
  price.us = price.terms.total();
  const BlocksGeometry& geometry = work_.geometry;
  double bytes = 0, products = 0;
  for (int l = 0; l < geometry.layers; ++l) {
    bytes += activity_.alive[l] * 2 * static_cast<double>(work_.neurons[l] + work_.neurons[l + 1]);
    products += activity_.alive[l] / 8 * static_cast<double>(work_.block_elements) / geometry.layers /
                (kBlockRows * kBlockColumns);
  }
  const double pipe = chip_.smem_banks * chip_.smem_bank_bytes;
  price.floor_us =
      std::max(bytes / pipe * chip_.lds_wavefront_cycles, products * chip_.tensor_issue_cycles / chip_.partitions) /
      chip_.sm_count * 1e6 / chip_.clock_hz;
  return price;
}

InferencePrice price_blocks(const Chip& chip, const BlocksWork& work, const Activity& activity,
                            const BlocksPlan& plan) {
  InferencePrice price = BlocksPricer(chip, work, activity).price(plan);
  const auto us_with = [&](Number Chip::*member, double direction) {
    Chip changed = chip;
    Number& number = changed.*member;
    number.value = std::max(number.value + direction * number.half_width, 0.1 * number.value);
    return BlocksPricer(changed, work, activity).price(plan).us;
  };
  const double overlap = chip.gather_scatter * price.us;
  const auto reach = [&](double direction) {
    const Activity sampled = at_end_of_interval(activity, direction);
    const double l2 = std::hypot(us_with(&Chip::library_sm_bytes_per_cycle, -direction) - price.us,
                                 us_with(&Chip::l2_line_cycles, direction) - price.us);
    return std::hypot(overlap, l2, BlocksPricer(chip, work, sampled).price(plan).us - price.us);
  };
  price.low_us = std::max(price.floor_us, price.us - reach(-1));
  price.high_us = price.us + reach(1);
  return price;
}

}  // namespace onchip
