// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_plan.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/feed_forward/plan/phase_text.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"
#include "model/plan/require.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

namespace onchip {
namespace {

constexpr int kRecordAlignment = 32;
constexpr int kPlaceBytes = 16;
constexpr int kMostTiles = 8, kPartTiles = 4;  // of a record, where blocks come whole and in parts
constexpr int kMostPlaces = 0x8000;            // of 2 bytes: their last bit says that an input was read already

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr int kMostGroups = 8, kMostWarps = 32, kMostAhead = 4;

BlocksTile read_tile(std::string_view text) {
  const bool in_place = text.ends_with('!');
  const auto parts = split_text(text.substr(0, text.size() - (in_place ? 1 : 0)), 'x');
  if (parts.size() != 2) {
    refuse_plan(text, "a tile such as 2x1 or, in place, 2x1!");
  }
  return {read_from_one(parts[0], kMostGroups, "groups of 8 images"), read_from_one(parts[1], 2, "words of a feature"),
          in_place};
}

// Of BlocksPlan, and of what is one.
template <typename P>
constexpr Field<P> kFields[] = {
    {.name = "warps",
     .get = [](const P& plan) { return plan.warps; },
     .set = [](P& plan, int warps) { plan.warps = warps; },
     .minimum = 1,
     .maximum = kMostWarps},
    {.name = "weight_bytes",
     .get = [](const P& plan) { return plan.weight_bytes; },
     .set = [](P& plan, int bytes) { plan.weight_bytes = bytes; },
     .minimum = 0,
     .maximum = 2,
     .usual = 2},
    phases_field<P, text, read_tile>(),
    list<P>(
        "lower", [](const P& plan) { return text(plan.lower); },
        [](P& plan, std::string_view given) { plan.lower = read_tile(given); }),
    list<P>(
        "wide", [](const P& plan) { return text(plan.wide); },
        [](P& plan, std::string_view given) { plan.wide = read_tile(given); }),
};

}  // namespace

std::string text(const BlocksTile& tile) {
  return std::to_string(tile.groups) + "x" + std::to_string(tile.words) + (tile.in_place ? "!" : "");
}

std::span<const Field<BlocksPlan>> fields(const BlocksPlan&) {
  return kFields<BlocksPlan>;
}

std::span<const Field<DenseLayerPlan>> fields(const DenseLayerPlan&) {
  return kFields<DenseLayerPlan>;
}

void check(const FeedForward& network, const BlocksPlan& plan) {
  check_last_layer(network, plan.phases.empty() ? 0 : plan.phases.back().end_layer);
  for (const BlocksPhase& phase : plan.phases) {
    require(phase.tile.words == plan.phases.front().tile.words,
            "tiles of as many words as the first phase has, by which features between phases are laid out, found " +
                text(phase.tile));
  }
}

std::size_t BlocksGeometry::record_bytes() const {
  return round_up(weights_bytes() + part_tiles() * place_bytes * kBlockColumns + kBlockRows * (4 + place_bytes) +
                      (remainder ? 4 : 0),
                  kRecordAlignment);
}

std::string_view weight_class(int weight_bytes) {
  return weight_bytes == 2 ? "fp16 values" : weight_bytes == 1 ? "coded values" : "one value";
}

int BlocksGeometry::most_ahead() const {
  int ahead = kMostAhead;
  while (ahead_divides() % ahead != 0) {
    --ahead;
  }
  return ahead;
}

std::size_t BlocksGeometry::shared_bytes(const BlocksTile& tile) const {
  const std::size_t quads = (inputs + 127) / 128;
  const std::size_t features = std::size_t{kPlaceBytes} * places * tile.groups * tile.words * (tile.in_place ? 1 : 2);
  const std::size_t bitmaps = (16 * tile.images() + 128 * tile.groups) * quads;
  const std::size_t rings = remainder           ? warps * kRemainderRing * remainder_record_bytes(place_bytes)
                            : weight_bytes == 0 ? warps * most_ahead() * record_bytes()
                                                : 0;
  return round_up(features + bitmaps + 16 + 4 * tile.images(), 128) + rings;
}

BlocksGeometry blocks_geometry(const FeedForward& network, const NetworkStructure& structure, int warps,
                               int warp_blocks, std::optional<int> weight_bytes) {
  BlocksGeometry geometry{.layers = network.layers(), .inputs = network.neurons.front(), .warps = warps};
  if (!std::isfinite(network.clip)) {
    throw InputError(std::string(kNeedsClip));
  }
  int places = 0, blocks = 0, least_blocks = std::numeric_limits<int>::max(), least_columns = least_blocks;
  bool are_full = true;  // blocks: each element is a weight
  for (int l = 0; l < network.layers(); ++l) {
    const LayerStructure& layer = structure.layers[l];
    geometry.remainder = geometry.remainder || layer.remainder.nnz() > 0;
    // Rows of no block get blocks of their own.
    int rows = 0;
    std::int64_t elements = 0;
    const auto is_neuron = [](std::int32_t neuron) { return neuron != kNoNeuron; };
    for (int b = 0; b < layer.blocks.count(); ++b) {
      const auto rows_of_block = static_cast<int>(std::ranges::count_if(layer.blocks.rows(b), is_neuron));
      const auto columns = static_cast<int>(std::ranges::count_if(layer.blocks.columns(b), is_neuron));
      rows += rows_of_block;
      elements += std::int64_t{rows_of_block} * columns;
      least_columns = std::min(least_columns, columns);
      geometry.tiles = std::max(geometry.tiles, static_cast<int>(layer.blocks.columns(b).size()) / kBlockColumns);
    }
    are_full = are_full && elements == layer.weights_in_blocks;
    least_blocks = std::min(least_blocks, layer.blocks.count());
    blocks = std::max(blocks, layer.blocks.count() + (network.outputs(l) - rows + kBlockRows - 1) / kBlockRows);
  }
  for (const Places& of_layer : structure.places) {
    places = std::max(places, of_layer.count);
  }
  geometry.tiles = std::max(geometry.tiles, 1);
  if (warp_blocks > 0) {
    geometry.warp_blocks = warp_blocks;
    geometry.warps = std::max(1, (blocks + warp_blocks - 1) / warp_blocks);
  } else {
    geometry.warp_blocks = std::max(1, (blocks + warps - 1) / warps);
    if (geometry.tiles > kMostTiles) {  // an even number of parts: two records ahead divide it
      geometry.parts = static_cast<int>(round_up(geometry.tiles, 2 * kPartTiles)) / kPartTiles;
      geometry.tiles = static_cast<int>(round_up(geometry.tiles, geometry.parts));
    }
  }
  geometry.places = static_cast<int>(round_up(places, kFreePlaces)) + kFreePlaces;
  const int rows = kBlockRows * geometry.warps * geometry.warp_blocks;
  geometry.holes =
      std::ranges::any_of(network.neurons, [&](int n) { return n != geometry.places - kFreePlaces || n != rows; });
  geometry.place_bytes = geometry.places > kMostPlaces ? 4 : 2;
  const WeightValues values =
      std::accumulate(structure.values.begin(), structure.values.end(), WeightValues(),
                      [](const WeightValues& before, const WeightValues& of_layer) { return both(before, of_layer); });
  const bool is_one = values.are_one() && are_full && !geometry.remainder;
  const float factor = values.e4m3_factor();
  geometry.weight_bytes = weight_bytes.value_or(is_one ? 0 : factor > 0 ? 1 : 2);
  if ((geometry.weight_bytes == 0 && !is_one) || (geometry.weight_bytes == 1 && factor == 0)) {
    throw InputError("weight_bytes=" + std::to_string(geometry.weight_bytes) + ": the weights are " +
                     (geometry.weight_bytes == 0 ? "not one number, in full blocks" : "no numbers of e4m3"));
  }
  if (geometry.weight_bytes == 0) {
    geometry.one_weight = static_cast<std::uint16_t>(to_bits(Precision::fp16, values.least));
    geometry.holes = geometry.holes || least_columns < kBlockColumns * geometry.tiles ||
                     least_blocks < geometry.warps * geometry.warp_blocks;
  } else if (geometry.weight_bytes == 1) {
    geometry.weight_factor = factor;
  }
  return geometry;
}

std::string why_not_fitting(const Chip& chip, const BlocksGeometry& geometry, const BlocksPlan& plan) {
  std::vector<BlocksTile> tiles{plan.lower, plan.wide};
  std::ranges::transform(plan.phases, std::back_inserter(tiles), &BlocksPhase::tile);
  const auto has = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  for (const BlocksTile& tile : tiles) {
    if (const std::size_t needs = geometry.shared_bytes(tile); needs > has) {
      return "a tile of " + std::to_string(tile.images()) + " images takes " + std::to_string(needs / 1024) +
             " KiB of shared memory; a block of " + chip.name + " has " + std::to_string(has / 1024) + " KiB";
    }
  }
  return "";
}

}  // namespace onchip
