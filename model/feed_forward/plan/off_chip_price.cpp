// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/off_chip_price.hpp"

#include "model/base/parallel.hpp"
#include "model/feed_forward/plan/unstructured_layout.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>

namespace onchip {
using namespace price_parts;
namespace {

constexpr double kLanes = 32;
// Of the price, what 40 inferences of such plans took (h200/spdnn.csv, spdnn_random.csv).
constexpr double kLeast = 0.89, kMost = 2.33;

double dram_us(const Chip& chip, double bytes) {
  return 1e6 * bytes / (chip.dram_bytes_per_second * chip.library_dram_share);
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
  price.low_us = kLeast * price.us;
  price.high_us = kMost * price.us;
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
    // What lies outside of blocks, by records, of a warp: each reads its places from L2.
    const double outside = static_cast<double>(work_.remainder[l]),
                 outside_of_warp = outside / (plan_.team * plan_.warps);
    const double of_record =
        (chip_.cost[Cost::blocks_record_instructions] + kRecordTiles * 3 * groups) * chip_.fp32_issue_cycles +
        kRecordTiles * groups * chip_.tensor_issue_cycles;
    const double products =
        warps * (rounds * (instructions * chip_.fp32_issue_cycles + multiplies) + outside_of_warp * of_record);
    const double epilogue = chip_.cost[Cost::blocks_epilogue_instructions] * chip_.arithmetic_latency_cycles;
    const double latency =
        rounds * (shared_line_cycles(chip_) + chain * (tiles * chip_.tensor_latency_cycles + epilogue)) +
        outside_of_warp * (shared_line_cycles(chip_) + kRecordTiles * chip_.tensor_latency_cycles);
    const double features = place_bytes() * (kBlockRows * (static_cast<double>(work_.read_tiles[l]) + items * chain) +
                                             kRecordWeights * outside);
    const double records = work_.weight_bytes(l) / (rounds > 1 ? 1 : plan_.at_once);
    const double rate = chip_.library_l2_bytes_per_second / teams() / (chip_.clock_hz * chip_.tensor_clock_share);
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
    constexpr double kNodes = 5, kTransposeSlots = 320;  // of 128 neurons of a tile: five exchanges of 32 bits
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
      parts[kImages] = std::max(issue * tensor_cycle_us(chip_), dram_us(chip_, 2 * 16 * quads * images));
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

namespace {

// A layer, packed for a tile.
UnstructuredWork work_of_layer(const FeedForward& network, int l, const UnstructuredTile& tile, int warps,
                               ReadOrder order) {
  const FeedForward one{
      network.name, {network.inputs(l), network.outputs(l)}, network.clip, [&](int) { return network.layer(l); }};
  const UnstructuredLayout layout = pack_unstructured(one, {.warps = warps, .order = order, .phases = {{1, tile}}});
  const UnstructuredLayout::Phase& packed = layout.phases.front();
  const double rows = tile.rows_per_warp();
  const double steps = std::accumulate(packed.halves.begin(), packed.halves.end(), 0.0) *
                       (layout.weight_type == Precision::fp32 ? 1 : 2);
  return {.tile = tile,
          .wavefronts = steps * rows / tile.rows_per_access(),
          .warp_steps = steps,
          .entry_bytes = 16 * rows * packed.warp_begin.back()};
}

UnstructuredWork operator*(UnstructuredWork work, double times) {
  work.wavefronts *= times;
  work.warp_steps *= times;
  work.entry_bytes *= times;
  return work;
}

class UnstructuredPricer {
 public:
  UnstructuredPricer(const Chip& chip, const FeedForward& network, const Activity& activity, int warps)
      : chip_(chip), network_(network), activity_(activity), warps_(warps) {}

  // Layers first + 1 to end. work: of a layer, on average.
  Parts phase(const UnstructuredWork& work, int first, int end, LaunchPrice& launch) const {
    const double images = activity_.alive[first], tile = work.tile.images;
    launch.name = "layers " + std::to_string(first + 1) + " to " + std::to_string(end);
    launch.images = images;
    launch.tiles = static_cast<std::int64_t>(std::ceil(images / tile));
    launch.rounds = static_cast<std::int64_t>(std::ceil(static_cast<double>(launch.tiles) / chip_.sm_count));
    Parts of_tile = layer(work) * (end - first);
    of_tile[kImages] += wavefronts(network_.inputs(first) * tile) + shared_line_cycles(chip_);
    of_tile[kSurvivors] += 3 * shared_line_cycles(chip_);
    Parts parts = of_tile * (1e6 / chip_.clock_hz * static_cast<double>(launch.rounds));
    parts[kImages] += dram_us(chip_, images * network_.inputs(first) * (first == 0 ? 1.0 / 8 : 4.0));
    if (end < network_.layers()) {
      parts[kSurvivors] += dram_us(chip_, activity_.alive[end] * 4 * network_.inputs(end));
    }
    parts[kLaunches] = (first == 0 ? 3 : 1) * node_us(chip_);  // zeros before, results after
    launch.terms = terms_of(parts);
    return parts;
  }

 private:
  double wavefronts(double words) const { return words / kLanes * chip_.lds_wavefront_cycles; }

  Parts layer(const UnstructuredWork& work) const {
    // Of a step: two reads with their addresses, or one; a place and a weight of an entry; a quarter of what an entry,
    // its copy and the loop need.
    const double reads = work.tile.images < 8 ? 1 : 2, instructions = 2 * work.tile.lane_images() + 2 * reads + 7;
    // An entry is written, then read by the lanes of its row: two at once.
    const double entries = work.entry_bytes / 4 * (1 + std::max(1, work.tile.lanes_per_row() / 2));
    const double rate = std::min<double>(chip_.library_sm_bytes_per_cycle,
                                         chip_.library_l2_bytes_per_second / (chip_.clock_hz * chip_.sm_count));
    Parts cycles{};
    cycles[kProducts] = work.warp_steps * instructions * chip_.fp32_issue_cycles / chip_.partitions;
    cycles[kShared] =
        std::max(0.0, work.wavefronts * chip_.lds_wavefront_cycles + wavefronts(entries) - cycles[kProducts]);
    cycles[kL2] = std::max(0.0, work.entry_bytes / rate - cycles[kProducts] - cycles[kShared]);
    cycles[kLatency] = shared_line_cycles(chip_) + chip_.lds_latency_cycles;
    cycles[kBarriers] = (work.tile.in_place ? 2 : 1) * barrier_cycles(chip_, warps_);
    return cycles;
  }

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
      of_phase.wavefronts += of_layer.wavefronts;
      of_phase.warp_steps += of_layer.warp_steps;
      of_phase.entry_bytes += of_layer.entry_bytes;
    }
    work.push_back(of_phase);
    first = phase.end_layer;
  }
  return work;
}

InferencePrice price_unstructured(const Chip& chip, const FeedForward& network,
                                  const std::vector<UnstructuredWork>& work, const Activity& activity,
                                  const UnstructuredPlan& plan) {
  const UnstructuredPricer pricer(chip, network, activity, plan.warps);
  InferencePrice price;
  std::vector<Parts> launches;
  int first = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    launches.push_back(pricer.phase(work[p], first, plan.phases[p].end_layer, price.launches.emplace_back()));
    first = plan.phases[p].end_layer;
  }
  finish(price, launches);
  return price;
}

// Bellman's shortest way, as blocks_search.cpp takes it. A weight costs the same in each layer.
UnstructuredPlan choose_unstructured_plan(const Chip& chip, const FeedForward& network, const Activity& activity,
                                          ReadOrder order) {
  UnstructuredPlan plan{.warps = unstructured_warps(chip, network.neurons), .order = order, .phases = {}};
  const int layers = network.layers();
  std::vector<double> weights(layers);
  std::vector<char> wakes(layers);
  parallel_for(layers, all_cores(), [&](int l) {
    const SparseLayer layer = network.layer(l);
    weights[l] = static_cast<double>(layer.weights.nnz());
    wakes[l] = wakes_zeros(layer);
  });
  const int may_drop_from = static_cast<int>(layers - (std::find(wakes.rbegin(), wakes.rend(), true) - wakes.rbegin()));
  const double mean_weights = std::max(1.0, std::accumulate(weights.begin(), weights.end(), 0.0)) / layers;
  std::vector<UnstructuredTile> tiles;
  for (int images = 1; images <= 32; images *= 2) {
    for (const bool in_place : {false, true}) {
      tiles.push_back(with_copies(chip, network.neurons, {images, in_place}, plan.warps));
    }
  }
  std::vector<UnstructuredWork> works(tiles.size());  // of a weight
  parallel_for(static_cast<int>(tiles.size()), all_cores(), [&](int i) {
    works[i] = unstructured_work(network, {plan.warps, order, {{layers, tiles[i]}}}).front() * (1 / mean_weights);
  });
  std::vector<int> points{0};
  std::ranges::copy_if(drop_points(activity), std::back_inserter(points), [&](int l) { return l >= may_drop_from; });
  points.push_back(layers);
  struct Way {
    double us = std::numeric_limits<double>::infinity();
    std::size_t from = 0;
    UnstructuredTile tile = {};
  };
  const UnstructuredPricer pricer(chip, network, activity, plan.warps);
  std::vector<Way> to(points.size());
  to[0].us = 0;
  for (std::size_t p = 1; p < points.size(); ++p) {
    for (std::size_t from = 0; from < p; ++from) {
      const int first = points[from], end = points[p];
      const double per_layer = std::accumulate(&weights[first], &weights[first] + end - first, 0.0) / (end - first);
      for (const UnstructuredWork& of_weight : works) {
        UnstructuredWork work = of_weight * per_layer;
        const auto neurons = std::span(network.neurons).subspan(first, end - first + 1);
        work.tile = with_copies(chip, neurons, {work.tile.images, work.tile.in_place}, plan.warps);
        if (!fits(chip, unstructured_geometry(neurons, work.tile, plan.warps))) {
          continue;
        }
        LaunchPrice launch;
        pricer.phase(work, first, end, launch);
        if (const double us = to[from].us + launch.terms.total(); us < to[p].us) {
          to[p] = {us, from, work.tile};
        }
      }
    }
  }
  if (!std::isfinite(to.back().us)) {
    return choose_unstructured_plan(chip, network, order);  // which says what does not fit
  }
  for (std::size_t p = points.size() - 1; p > 0; p = to[p].from) {
    plan.phases.insert(plan.phases.begin(), {points[p], to[p].tile});
  }
  return plan;
}

}  // namespace onchip
