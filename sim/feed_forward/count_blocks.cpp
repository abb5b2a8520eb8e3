// SPDX-License-Identifier: Apache-2.0
#include "sim/feed_forward/count_blocks.hpp"

#include "model/base/parallel.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "sim/feed_forward/blocks_trace.hpp"
#include "sim/machine/sm.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace onchip {
namespace {

constexpr int kLayersAtOnce = 8;

// Layers of a trace, by its barriers.
void count(const BlockTrace& block, int barriers_of_a_layer, const BankGeometry& geometry,
           std::span<LayerCounts> layers) {
  BankModel banks(geometry);
  for (const WarpTrace& warp : block.warps) {
    std::size_t barriers = 0;
    for (const Instruction& instruction : warp.instructions) {
      const std::size_t layer = barriers / static_cast<std::size_t>(barriers_of_a_layer);
      if (layer == layers.size()) {
        break;
      }
      LayerCounts& of = layers[layer];
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

// Calls of(first, layers) for a few layers at a time, of which the first is only there to ask for the weights of the
// next.
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

std::vector<LayerCounts> count_blocks(const Chip& chip, const BlocksLayout& layout, const BlocksTile& tile,
                                      int first_layer, int end_layer, int threads) {
  std::vector<LayerCounts> result(static_cast<std::size_t>(end_layer - first_layer));
  const int ahead = weights_ahead(chip, layout.geometry, tile);
  in_chunks(first_layer, end_layer, threads, [&](int first, std::vector<int> layers) {
    std::vector<LayerCounts> runs(layers.size());
    const BlocksTrace trace(layout, tile, std::move(layers), ahead);
    count(trace.block(0), trace.barriers_of_a_layer(), bank_geometry(chip), runs);
    std::copy(runs.begin() + 1, runs.end(), result.begin() + first);
  });
  return result;
}

}  // namespace onchip
