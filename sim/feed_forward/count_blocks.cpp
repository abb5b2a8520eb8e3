// SPDX-License-Identifier: Apache-2.0
#include "sim/feed_forward/simulate_blocks.hpp"

#include "model/base/parallel.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "sim/feed_forward/blocks_trace.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace onchip {
namespace {

constexpr int kLayersAtOnce = 8;

// Layers of a trace, by its barriers.
void count(const BlockTrace& block, int barriers_of_a_layer, const BankGeometry& geometry, std::span<LayerRun> layers) {
  BankModel banks(geometry);
  for (const WarpTrace& warp : block.warps) {
    std::size_t barriers = 0;
    for (const Instruction& instruction : warp.instructions) {
      const std::size_t layer = barriers / static_cast<std::size_t>(barriers_of_a_layer);
      if (layer == layers.size()) {
        break;
      }
      LayerRun& of = layers[layer];
      ++of.instructions;
      barriers += instruction.operation == Operation::barrier ? 1 : 0;
      if (instruction.operation == Operation::global_load || instruction.operation == Operation::async_copy) {
        of.l2_bytes += std::int64_t{instruction.width} * std::popcount(instruction.mask);
      } else if (instruction.operation == Operation::shared_store) {
        of.writes += banks.count(shared_access(warp, instruction));
      } else if (instruction.operation == Operation::matrix_load) {
        of.reads += banks.count(shared_access(warp, instruction));
      }
    }
  }
}

// When the last warp came to the last barrier of each layer.
std::vector<std::int64_t> layer_ends(const BlockTrace& block, int barriers_of_a_layer, std::size_t layers,
                                     const SmRun& run) {
  std::vector<std::int64_t> ends(layers);
  std::vector<std::size_t> barriers(block.warps.size());
  for (const IssueEvent& event : run.events) {
    const auto warp = static_cast<std::size_t>(event.warp);
    if (block.warps[warp].instructions[event.instruction].operation == Operation::barrier) {
      const std::size_t layer = barriers[warp]++ / static_cast<std::size_t>(barriers_of_a_layer);
      ends[layer] = std::max(ends[layer], event.cycle);
    }
  }
  return ends;
}

// Calls of(first, layers) for a few layers at a time, of which the first is only there to warm up.
template <typename Of>
void in_chunks(int first_layer, int end_layer, int threads, Of&& of) {
  const int chunks = (end_layer - first_layer + kLayersAtOnce - 1) / kLayersAtOnce;
  parallel_for(chunks, threads, [&](int chunk) {
    const int first = first_layer + chunk * kLayersAtOnce, end = std::min(end_layer, first + kLayersAtOnce);
    std::vector<int> layers(static_cast<std::size_t>(end - first) + 1);
    std::iota(layers.begin(), layers.end(), first - 1);
    layers[0] = std::max(layers[0], 0);
    of(first - first_layer, std::move(layers));
  });
}

}  // namespace

double BlocksRun::cycles() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerRun& layer) { return sum + layer.cycles; });
}

Cause BlocksRun::binding() const {
  return static_cast<Cause>(std::ranges::max_element(causes) - causes.begin());
}

BlocksRun simulate_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile, int first_layer,
                          int end_layer, const SmOptions& options, int threads) {
  BlocksRun result;
  result.layers.resize(static_cast<std::size_t>(end_layer - first_layer));
  std::vector<Causes> causes(result.layers.size());  // of a chunk, at its first layer
  const int ahead = weights_ahead(chip, layout.geometry, tile);
  const BankGeometry banks = bank_geometry(chip);
  in_chunks(first_layer, end_layer, threads, [&](int first, std::vector<int> layers) {
    const std::size_t count_of = layers.size();
    const BlocksTrace trace(layout, tile, std::move(layers), ahead);
    const BlockTrace block = trace.block(0);
    std::vector<LayerRun> runs(count_of);
    count(block, trace.barriers_of_a_layer(), banks, runs);
    SmOptions with_events = options;
    with_events.events = true;
    const SmRun run = run_sm(chip, {&block, 1}, with_events);
    const std::vector<std::int64_t> ends = layer_ends(block, trace.barriers_of_a_layer(), count_of, run);
    for (std::size_t i = 1; i < count_of; ++i) {
      runs[i].cycles = static_cast<double>(ends[i] - ends[i - 1]);
      result.layers[static_cast<std::size_t>(first) + i - 1] = runs[i];
    }
    // As if the causes of the layer that warms up were those of the others.
    const double share = static_cast<double>(ends.back() - ends.front()) / static_cast<double>(run.cycles);
    std::ranges::transform(run.causes, causes[static_cast<std::size_t>(first)].begin(),
                           [&](double cycles) { return share * cycles; });
  });
  for (const Causes& of_chunk : causes) {
    std::ranges::transform(result.causes, of_chunk, result.causes.begin(), std::plus<>());
  }
  // As for other kernels that multiply with tensor cores.
  result.us_per_cycle = 1e6 / (chip.clock_hz * chip.tensor_clock_share);
  return result;
}

std::vector<LayerRun> count_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile,
                                   int first_layer, int end_layer, int threads) {
  std::vector<LayerRun> result(static_cast<std::size_t>(end_layer - first_layer));
  in_chunks(first_layer, end_layer, threads, [&](int first, std::vector<int> layers) {
    std::vector<LayerRun> runs(layers.size());
    const BlocksTrace trace(layout, tile, std::move(layers), 1);
    count(trace.block(0), trace.barriers_of_a_layer(), bank_geometry(chip), runs);
    std::copy(runs.begin() + 1, runs.end(), result.begin() + first);
  });
  return result;
}

}  // namespace onchip
