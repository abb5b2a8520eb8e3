// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/off_chip_price.hpp"

#include "model/base/parallel.hpp"
#include "model/feed_forward/plan/unstructured_layout.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace onchip {
using namespace price_parts;
namespace {

constexpr double kLanes = 32;

double dram_us(const Chip& chip, double bytes) {
  return 1e6 * bytes / (chip.dram_bytes_per_second * chip.library_dram_share);
}

// The sum of its launches. What overlaps inside an SM is its interval.
void finish(const Chip& chip, InferencePrice& price) {
  for (const LaunchPrice& launch : price.launches) {
    price.terms = price.terms + launch.terms;
  }
  price.us = price.terms.total();
  price.low_us = (1 - chip.gather_scatter) * price.us;
  price.high_us = (1 + chip.gather_scatter) * price.us;
}

class StreamedPricer {
 public:
  StreamedPricer(const Chip& chip, const BlocksWork& work, const Activity& activity, const StreamedPlan& plan)
      : chip_(chip), work_(work), activity_(activity), plan_(plan) {}

  InferencePrice price() {
    int first = 0;
    for (std::size_t p = 0; p < plan_.end_layers.size(); ++p) {
      const int end = plan_.end_layers[p];
      const bool is_last = p + 1 == plan_.end_layers.size();
      if (is_last) {
        add("lower bounds", activity_.alive[first], 0, std::min(work_.geometry.layers, activity_.settled + 1), false);
      }
      add("layers " + std::to_string(first + 1) + " to " + std::to_string(end), activity_.alive[first], first, end,
          !is_last);
      first = end;
    }
    finish(chip_, price_);
    return std::move(price_);
  }

 private:
  double batch_groups() const { return std::floor(chip_.sm_count / plan_.sms); }
  double place_bytes() const { return 2.0 * 8 * plan_.groups; }
  // Of so many stores to parts of sectors.
  double scattered_us(double sectors) const {
    constexpr double kSectorBytes = 32;
    return 1e6 * sectors * kSectorBytes * chip_.cost[Cost::l2_scattered_store] / chip_.library_l2_bytes_per_second;
  }

  Parts layer(int l) const {
    const BlocksGeometry& geometry = work_.geometry;
    const CostValues& cost = chip_.cost;
    const double groups = plan_.groups, tiles = geometry.tiles, chain = geometry.warp_blocks, items = geometry.warps;
    const double rounds = std::ceil(items / (static_cast<double>(plan_.sms) * plan_.warps));
    const double warps = std::max(1.0, plan_.warps / chip_.partitions.value);
    const double of_products = cost[Cost::streamed_product_instructions] * groups;
    const double instructions =
        chain * (tiles * (of_products + cost[Cost::streamed_tile_instructions]) +
                 cost[Cost::tile_sum_instructions] * groups + cost[Cost::streamed_block_instructions]);
    const double multiplies = chain * tiles * groups * chip_.tensor_issue_cycles;
    // What lies outside of blocks, by records, of a warp: each reads its places from L2.
    const double outside = static_cast<double>(work_.remainder[l]),
                 outside_of_warp = outside / (plan_.sms * plan_.warps);
    const double of_record =
        (cost[Cost::blocks_record_instructions] + kRecordTiles * of_products) * chip_.fp32_issue_cycles +
        kRecordTiles * groups * chip_.tensor_issue_cycles;
    const double products =
        warps * (rounds * (instructions * chip_.fp32_issue_cycles + multiplies) + outside_of_warp * of_record);
    const double epilogue = cost[Cost::blocks_epilogue_instructions] * chip_.arithmetic_latency_cycles;
    const double latency =
        rounds * (shared_line_cycles(chip_) + chain * (tiles * chip_.tensor_latency_cycles + epilogue)) +
        outside_of_warp * (shared_line_cycles(chip_) + kRecordTiles * chip_.tensor_latency_cycles);
    const double features =
        place_bytes() *
        (kBlockRows * (static_cast<double>(work_.read_tiles[l]) + cost[Cost::l2_write] * items * chain) +
         kRecordWeights * outside);
    const double records = work_.weight_bytes(l) / (rounds > 1 ? 1 : plan_.at_once);
    const double rate =
        chip_.library_l2_bytes_per_second / batch_groups() / (chip_.clock_hz * chip_.tensor_clock_share);
    Parts cycles{};
    cycles[kProducts] = products;
    cycles[kLatency] = latency;
    cycles[kL2] = std::max(0.0, (features + records) / rate - products - latency);
    cycles[kBarriers] =
        2 * barrier_cycles(chip_, plan_.warps) + (plan_.at_once > 1 ? 0 : 2 * shared_line_cycles(chip_));
    return cycles * tensor_cycle_us(chip_);
  }

  void add(const std::string& name, double images, int first, int end, bool keeps) {
    const BlocksGeometry& geometry = work_.geometry;
    LaunchPrice launch{.name = name, .images = images, .terms = {}};
    launch.tiles = static_cast<std::int64_t>(std::ceil(images / (8 * plan_.groups)));
    launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / batch_groups()));
    Parts layers{};
    for (int l = first; l < end; ++l) {
      layers = layers + layer(l);
    }
    Parts parts = layers * static_cast<double>(launch.rounds);
    const double feature_bytes = images * (geometry.places - kFreePlaces) * 2;
    const double neurons = geometry.places - kFreePlaces, tiles = images / (8 * plan_.groups);
    if (first == 0) {
      const double quads = (geometry.inputs + 127) / 128;
      const double issue = tiles * quads * chip_.cost[Cost::transpose_slots] * chip_.fp32_issue_cycles /
                           (chip_.sm_count * chip_.partitions);  // beside it each place's bits go to another sector
      parts[kImages] = std::max(issue * tensor_cycle_us(chip_), scattered_us(tiles * geometry.inputs)) +
                       dram_us(chip_, 2 * 16 * quads * images);
    } else {
      parts[kImages] = dram_us(chip_, feature_bytes);
    }
    if (keeps) {  // written, read again, and what is alive written: where some died, by parts of sectors
      const double alive = images > 0 ? activity_.alive[end] / images : 0;
      const double halves = 8.0 * plan_.groups / 32, sectors = halves * (2 * alive + 1);
      constexpr double kRowsOfWarp = 256 / 8;  // 8 at once
      parts[kSurvivors] =
          dram_us(chip_, feature_bytes) + std::max(kRowsOfWarp * 2 * chip_.l2_latency_cycles * 1e6 / chip_.clock_hz,
                                                   dram_us(chip_, feature_bytes * (1 + (alive < 1 ? 0 : 1))) +
                                                       (alive < 1 ? scattered_us(tiles * neurons * sectors) : 0));
    }
    if (end == work_.geometry.layers) {
      parts[kSurvivors] += listed_us(chip_, activity_.alive[end]);
    }
    parts[kLaunches] = chip_.cost[Cost::inference_nodes] * node_us(chip_);
    launch.terms = terms_of(parts);
    price_.launches.push_back(std::move(launch));
  }

  const Chip& chip_;
  const BlocksWork& work_;
  const Activity& activity_;
  const StreamedPlan& plan_;
  InferencePrice price_;
};

}  // namespace

InferencePrice price_streamed(const Chip& chip, const BlocksWork& work, const Activity& activity,
                              const StreamedPlan& plan) {
  return StreamedPricer(chip, work, activity, plan).price();
}

namespace {

// A layer, packed for a tile.
UnstructuredWork work_of_layer(const FeedForward& network, int l, const UnstructuredTile& tile, int warps,
                               ReadOrder order) {
  const FeedForward one{
      network.name, {network.inputs(l), network.outputs(l)}, network.clip, [&](int) { return network.layer(l); }};
  const UnstructuredLayout layout = pack_unstructured(one, {.warps = warps, .order = order, .phases = {{1, tile}}});
  const UnstructuredLayout::Phase& packed = layout.phases.front();
  const bool is_fp32 = layout.weight_type == Precision::fp32;
  int items = 0;  // rows without a weight have an output, too
  for (std::size_t first_row = 0; first_row < packed.destination.size(); first_row += tile.rows_per_warp()) {
    items += packed.destination[first_row] != UnstructuredLayout::kNoPlace;
  }
  return {.tile = tile,
          .is_fp32 = is_fp32,
          .items = static_cast<double>(items),
          .steps = std::accumulate(packed.halves.begin(), packed.halves.end(), 0.0) * (is_fp32 ? 1 : 2),
          .entries = static_cast<double>(packed.warp_begin.back())};
}

class UnstructuredPricer {
 public:
  UnstructuredPricer(const Chip& chip, const FeedForward& network, const Activity& activity, int warps)
      : chip_(chip), network_(network), activity_(activity), warps_(warps) {}

  LaunchPrice phase(const UnstructuredWork& work, int first, int end) const {
    const double images = activity_.alive[first], tile = work.tile.images;
    LaunchPrice launch;
    launch.name = "layers " + std::to_string(first + 1) + " to " + std::to_string(end);
    launch.images = images;
    launch.tiles = static_cast<std::int64_t>(std::ceil(images / tile));
    launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / chip_.sm_count));
    Parts of_tile = layer(work) * (end - first);
    of_tile[kImages] += load_cycles(work.tile, network_.inputs(first), first == 0);
    of_tile[kSurvivors] += 3 * shared_line_cycles(chip_);
    if (end < network_.layers()) {
      of_tile[kSurvivors] += store_cycles(work.tile, network_.inputs(end));
    }
    Parts parts = of_tile * (1e6 / chip_.clock_hz * static_cast<double>(launch.rounds));
    parts[kImages] += dram_us(chip_, images * network_.inputs(first) * (first == 0 ? 1.0 / 8 : 4.0));
    parts[kSurvivors] += end < network_.layers() ? dram_us(chip_, activity_.alive[end] * 4 * network_.inputs(end))
                                                 : listed_us(chip_, activity_.alive[end]);
    parts[kLaunches] = (1 + (first == 0 ? chip_.cost[Cost::unstructured_nodes] : 0)) * node_us(chip_);
    launch.terms = terms_of(parts);
    return launch;
  }

 private:
  double wavefronts(double words) const { return words / kLanes * chip_.lds_wavefront_cycles; }

  // Cycles to bring the features of a tile: bits that become words, or words.
  double load_cycles(const UnstructuredTile& tile, int inputs, bool is_first) const {
    const double words = std::min(tile.images, 4), quads = tile.images / words, threads = kLanes * warps_;
    const double memory = 2 * chip_.l2_latency_cycles;  // of a load from device memory
    if (is_first) {
      const double slots = 32 * chip_.cost[Cost::unstructured_bit_slots] * words;  // of a word of bits
      const double rounds = std::ceil(std::ceil(inputs / 32.0) * quads / threads);
      return memory + rounds * slots * chip_.arithmetic_latency_cycles / 2 + wavefronts(inputs * tile.images);
    }
    constexpr double kUnrolled = 4;
    return std::ceil(inputs * quads / threads / kUnrolled) * memory + wavefronts(inputs * tile.images);
  }

  // Features go by images, whose words lie a place apart.
  double store_cycles(const UnstructuredTile& tile, int outputs) const {
    const double quads = tile.images / std::min(tile.images, 4);
    return outputs * quads / kLanes * 4 * std::min(8.0, quads) * chip_.lds_wavefront_cycles;
  }

  Parts layer(const UnstructuredWork& work) const {
    const UnstructuredTile& tile = work.tile;
    const CostValues& cost = chip_.cost;
    const double images = tile.lane_images(), reads = images < 8 ? 1 : 2, rows = tile.rows_per_warp();
    const double items = std::max(1.0, work.items), steps = work.steps / items, entries = work.entries / items;
    // Of an item: instructions of a warp, wavefronts.
    const double instructions =
        steps * cost[Cost::unstructured_step_instructions] * (images + reads + (work.is_fp32 ? 0 : 1)) +
        entries * cost[Cost::unstructured_entry_instructions];
    const double of_reads = steps * rows / tile.rows_per_access() +
                            entries * (std::min(4.0, rows / 4) + cost[Cost::unstructured_copy_wavefronts]);
    const double has_copies = static_cast<double>(tile.copies) / std::max(1, network_neurons());
    const double ends = cost[Cost::unstructured_item_instructions] +
                        images * cost[Cost::unstructured_output_instructions] *
                            (1 + (tile.copies > 0 ? cost[Cost::unstructured_second_output] : 0));
    // Outputs go to places of any class.
    const double conflicts =
        1 + cost[Cost::unstructured_store_conflicts] * std::min(2.0, std::log2(tile.rows_per_access()));
    const double of_outputs = reads * std::min(4.0, images) * conflicts * (1 + std::min(1.0, has_copies));
    const double entry_latency = 3 * (chip_.lds_latency_cycles + 3 * chip_.lds_latency_per_word_cycles);
    const double pipe_share = cost[Cost::unstructured_pipe_share];
    Parts cycles{};
    const auto add_round = [&](double active, double times) {
      const double of_partition = std::ceil(active / chip_.partitions) * chip_.fp32_issue_cycles;
      const double issued = of_partition * instructions;
      const double shared = active * of_reads * chip_.lds_wavefront_cycles;
      const double loop = std::max(
          {issued / pipe_share, shared / pipe_share, instructions * chip_.fp32_issue_cycles + entries * entry_latency});
      cycles[kProducts] += times * (issued + of_partition * ends);
      cycles[kShared] += times * (loop - issued + active * of_outputs * chip_.lds_wavefront_cycles);
    };
    const double full = std::floor(items / warps_ + 1e-6), left = items - full * warps_;
    add_round(warps_, full);
    if (left > 1e-3) {
      add_round(std::ceil(left), 1);
    }
    // All SMs read the same.
    const double rate = std::min<double>(chip_.library_sm_bytes_per_cycle, chip_.exchange_bytes_per_cycle_per_sm);
    cycles[kL2] = std::max(0.0, 16 * rows * work.entries / rate - cycles[kProducts] - cycles[kShared]);
    cycles[kLatency] = shared_line_cycles(chip_) + chip_.lds_latency_cycles;
    cycles[kBarriers] = (work.tile.in_place ? 2 : 1) * barrier_cycles(chip_, warps_);
    return cycles;
  }

  int network_neurons() const { return std::ranges::max(network_.neurons); }

  const Chip& chip_;
  const FeedForward& network_;
  const Activity& activity_;
  int warps_;
};

}  // namespace

std::vector<UnstructuredWork> unstructured_work(const FeedForward& network, const UnstructuredPlan& plan) {
  constexpr int kMostPacked = 4;
  std::vector<UnstructuredWork> work;
  int first = 0;
  for (const UnstructuredPhase& phase : plan.phases) {
    const int layers = phase.end_layer - first, packed = std::min(layers, kMostPacked);
    UnstructuredWork of_phase{phase.tile};
    for (int i = 0; i < packed; ++i) {
      const int l = first + static_cast<int>(static_cast<std::int64_t>(i) * layers / packed);
      const UnstructuredWork of_layer = work_of_layer(network, l, phase.tile, plan.warps, plan.order) * (1.0 / packed);
      of_phase.is_fp32 = of_layer.is_fp32;
      of_phase.items += of_layer.items;
      of_phase.steps += of_layer.steps;
      of_phase.entries += of_layer.entries;
    }
    work.push_back(of_phase);
    first = phase.end_layer;
  }
  return work;
}

LaunchPrice price_phase(const Chip& chip, const FeedForward& network, const UnstructuredWork& work,
                        const Activity& activity, int warps, int first, int end) {
  return UnstructuredPricer(chip, network, activity, warps).phase(work, first, end);
}

InferencePrice price_unstructured(const Chip& chip, const FeedForward& network,
                                  const std::vector<UnstructuredWork>& work, const Activity& activity,
                                  const UnstructuredPlan& plan) {
  InferencePrice price;
  int first = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    price.launches.push_back(
        price_phase(chip, network, work[p], activity, plan.warps, first, plan.phases[p].end_layer));
    first = plan.phases[p].end_layer;
  }
  finish(chip, price);
  return price;
}

}  // namespace onchip
