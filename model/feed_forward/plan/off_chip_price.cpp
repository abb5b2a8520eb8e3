// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/off_chip_price.hpp"

#include "model/feed_forward/plan/unstructured_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

constexpr double kLanes = 32;
constexpr double kUnmeasured = 0.5;  // of a time, to either side

enum Part : std::uint8_t { kProducts, kShared, kL2, kLatency, kBarriers, kImages, kSurvivors, kLaunches, kParts };
constexpr std::array<std::string_view, kParts> kPartNames{"products", "shared_memory", "l2",        "latency",
                                                          "barriers", "images",        "survivors", "launches"};
using Parts = std::array<double, kParts>;  // us
static_assert(kParts <= Terms::kMost);

Parts operator+(Parts a, const Parts& b) {
  for (std::size_t i = 0; i < kParts; ++i) {
    a[i] += b[i];
  }
  return a;
}
Parts operator*(Parts a, double factor) {
  for (double& part : a) {
    part *= factor;
  }
  return a;
}

Terms terms_of(const Parts& parts) {
  Terms terms;
  for (std::size_t i = 0; i < kParts; ++i) {
    terms.add(kPartNames[i], parts[i]);
  }
  return terms;
}

double barrier_cycles(const Chip& chip, int warps) {
  return chip.block_barrier_cycles + chip.block_barrier_per_warp_cycles * warps;
}

double l2_latency_cycles(const Chip& chip) {
  return chip.l2_latency_cycles + chip.sm_count * chip.l2_line_cycles;
}

double dram_us(const Chip& chip, double bytes) {
  return 1e6 * bytes / (chip.dram_bytes_per_second * chip.library_dram_share);
}

double node_us(const Chip& chip) {
  return 1e6 * chip.library_node_seconds;
}

// The sum of its launches.
void finish(InferencePrice& price, const std::vector<Parts>& launches) {
  Parts all{};
  for (std::size_t i = 0; i < launches.size(); ++i) {
    price.launches[i].terms = terms_of(launches[i]);
    all = all + launches[i];
  }
  price.terms = terms_of(all);
  price.us = price.terms.total();
  price.low_us = (1 - kUnmeasured) * price.us;
  price.high_us = (1 + kUnmeasured) * price.us;
  price.binding = std::ranges::max_element(price.terms, {}, &Term::us)->name;
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
    finish(price_, launches_);
    return std::move(price_);
  }

 private:
  double cycle_us() const { return 1e6 / (chip_.clock_hz * chip_.tensor_clock_share); }
  double teams() const { return std::floor(chip_.sm_count / plan_.team); }
  double place_bytes() const { return 2.0 * 8 * plan_.groups; }

  Parts layer(int l) const {
    const BlocksGeometry& geometry = work_.geometry;
    const double groups = plan_.groups, tiles = geometry.tiles, chain = geometry.warp_blocks, items = geometry.warps;
    const double rounds = std::ceil(items / (static_cast<double>(plan_.team) * plan_.warps));
    const double warps = std::max(1.0, plan_.warps / chip_.partitions.value);
    // A pair of inputs for each product, loads and their addresses; ReLU, clip and conversion of four values of a
    // group.
    const double instructions = chain * (tiles * (3 * groups + 20) + 4 * 4 * groups + 30);
    const double multiplies = chain * tiles * groups * chip_.tensor_issue_cycles;
    const double products = rounds * warps * (instructions * chip_.fp32_issue_cycles + multiplies);
    const double epilogue = chip_.cost[Cost::blocks_epilogue_instructions] * chip_.arithmetic_latency_cycles;
    const double latency =
        rounds * (l2_latency_cycles(chip_) + chain * (tiles * chip_.tensor_latency_cycles + epilogue));
    const double features = place_bytes() * kBlockRows * (static_cast<double>(work_.read_tiles[l]) + items * chain);
    const double records = static_cast<double>(geometry.layer_bytes()) / (rounds > 1 ? 1 : plan_.at_once);
    const double rate = chip_.library_l2_bytes_per_second / teams() / (chip_.clock_hz * chip_.tensor_clock_share);
    Parts cycles{};
    cycles[kProducts] = products;
    cycles[kLatency] = latency;
    cycles[kL2] = std::max(0.0, (features + records) / rate - products - latency);
    cycles[kBarriers] = 2 * barrier_cycles(chip_, plan_.warps) + (plan_.at_once > 1 ? 0 : 2 * l2_latency_cycles(chip_));
    return cycles * cycle_us();
  }

  void add(const std::string& name, double images, int first, int end, bool keeps) {
    const BlocksGeometry& geometry = work_.geometry;
    constexpr double kNodes = 5, kTransposeSlots = 1024;  // of 128 neurons of a tile: a ballot for each bit
    LaunchPrice launch{.name = name, .images = images, .terms = {}};
    launch.tiles = static_cast<std::int64_t>(std::ceil(images / (8 * plan_.groups)));
    launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / teams()));
    Parts layers{};
    for (int l = first; l < end; ++l) {
      layers = layers + layer(l);
    }
    Parts parts = layers * static_cast<double>(launch.rounds);
    const double feature_bytes = images * (geometry.places - kFreePlaces) * 2;
    if (first == 0) {
      const double quads = (geometry.inputs + 127) / 128;
      const double issue = static_cast<double>(launch.tiles) * quads * kTransposeSlots * chip_.fp32_issue_cycles /
                           (chip_.sm_count * chip_.partitions);
      parts[kImages] = std::max(issue * cycle_us(), dram_us(chip_, 2 * 16 * quads * images));
    } else {
      parts[kImages] = dram_us(chip_, feature_bytes);
    }
    if (keeps) {  // written, read again, and what is alive written
      const double alive = images > 0 ? activity_.alive[end] / images : 0;
      parts[kSurvivors] = dram_us(chip_, feature_bytes * (1 + 2 * alive));
    }
    parts[kLaunches] = kNodes * node_us(chip_);
    price_.launches.push_back(std::move(launch));
    launches_.push_back(parts);
  }

  const Chip& chip_;
  const BlocksWork& work_;
  const Activity& activity_;
  const StreamedPlan& plan_;
  InferencePrice price_;
  std::vector<Parts> launches_;
};

}  // namespace

InferencePrice price_streamed(const Chip& chip, const BlocksWork& work, const Activity& activity,
                              const StreamedPlan& plan) {
  return StreamedPricer(chip, work, activity, plan).price();
}

std::vector<UnstructuredWork> unstructured_work(const FeedForward& network, const UnstructuredPlan& plan) {
  constexpr int kMostPacked = 4;
  std::vector<UnstructuredWork> work;
  int first = 0;
  for (const UnstructuredPhase& phase : plan.phases) {
    const int layers = phase.end_layer - first, packed = std::min(layers, kMostPacked);
    UnstructuredWork of_phase{phase.tile};
    for (int i = 0; i < packed; ++i) {
      const int l = first + static_cast<int>(static_cast<std::int64_t>(i) * layers / packed);
      const FeedForward one{
          network.name, {network.inputs(l), network.outputs(l)}, network.clip, [&](int) { return network.layer(l); }};
      const UnstructuredLayout layout =
          pack_unstructured(one, {.warps = plan.warps, .order = plan.order, .phases = {{1, phase.tile}}});
      const UnstructuredLayout::Phase& of_layer = layout.phases.front();
      const double rows = phase.tile.rows_per_warp(), steps_each = layout.weight_type == Precision::fp32 ? 2 : 4;
      const double steps = steps_each * of_layer.warp_begin.back() / packed;
      of_phase.wavefronts += steps * rows / phase.tile.rows_per_access();
      of_phase.warp_steps += steps;
      of_phase.entry_bytes += 16 * rows * of_layer.warp_begin.back() / packed;
    }
    work.push_back(of_phase);
    first = phase.end_layer;
  }
  return work;
}

InferencePrice price_unstructured(const Chip& chip, const FeedForward& network,
                                  const std::vector<UnstructuredWork>& work, const Activity& activity,
                                  const UnstructuredPlan& plan) {
  constexpr double kOtherInstructions = 4;  // of a step: address, weight, read, a quarter of an entry's load
  const double cycle_us = 1e6 / chip.clock_hz, barrier = barrier_cycles(chip, plan.warps);
  InferencePrice price;
  std::vector<Parts> launches;
  int first = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const UnstructuredWork& of_layer = work[p];
    const int end = plan.phases[p].end_layer, layers = end - first;
    const double images = activity.alive[first], tile = of_layer.tile.images;
    LaunchPrice launch{
        .name = "layers " + std::to_string(first + 1) + " to " + std::to_string(end), .images = images, .terms = {}};
    launch.tiles = static_cast<std::int64_t>(std::ceil(images / tile));
    launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / chip.sm_count));
    Parts cycles{};
    cycles[kProducts] = of_layer.warp_steps * (2 * of_layer.tile.lane_images() + kOtherInstructions) *
                        chip.fp32_issue_cycles / chip.partitions;
    cycles[kShared] = std::max(0.0, of_layer.wavefronts * chip.lds_wavefront_cycles - cycles[kProducts]);
    const double rate = std::min<double>(chip.library_sm_bytes_per_cycle, chip.exchange_bytes_per_cycle_per_sm);
    cycles[kL2] = std::max(0.0, of_layer.entry_bytes / rate - cycles[kProducts] - cycles[kShared]);
    cycles[kLatency] = l2_latency_cycles(chip) + chip.lds_latency_cycles;
    cycles[kBarriers] = (of_layer.tile.in_place ? 2 : 1) * barrier;
    Parts of_tile = cycles * layers;
    const auto wavefronts = [&](double neurons) {
      return neurons * tile * 4 / (4 * kLanes) * chip.lds_wavefront_cycles;
    };
    of_tile[kImages] += wavefronts(network.inputs(first)) + l2_latency_cycles(chip);
    of_tile[kSurvivors] += 3 * l2_latency_cycles(chip);
    Parts parts = of_tile * (cycle_us * static_cast<double>(launch.rounds));
    parts[kImages] +=
        first == 0 ? dram_us(chip, images * network.inputs(0) / 8) : dram_us(chip, images * 4 * network.inputs(first));
    if (p + 1 < plan.phases.size()) {
      parts[kSurvivors] += dram_us(chip, activity.alive[end] * 4 * network.inputs(end));
    }
    parts[kLaunches] = (p == 0 ? 3 : 1) * node_us(chip);  // zeros before, results after
    price.launches.push_back(std::move(launch));
    launches.push_back(parts);
    first = end;
  }
  finish(price, launches);
  return price;
}

}  // namespace onchip
