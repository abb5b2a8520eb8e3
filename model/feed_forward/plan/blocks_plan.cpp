// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_plan.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

constexpr int kRecordAlignment = 32;
constexpr int kPlaceBytes = 16;
constexpr int kMostTiles = 8, kPartTiles = 4;  // of a record, where blocks come whole and in parts
constexpr int kMostPlaces = 0x8000;            // of 2 bytes: their last bit says that an input was read already

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string tile_text(const BlocksTile& tile) {
  return std::to_string(tile.groups) + "x" + std::to_string(tile.words) + (tile.in_place ? "!" : "");
}

// The largest tile of at most `groups`; with two buffers if that costs no images.
BlocksTile largest_tile(const Chip& chip, const BlocksGeometry& geometry, int groups, int words) {
  const auto has = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  for (; groups > 0; --groups) {
    for (const bool in_place : {false, true}) {
      const BlocksTile tile{groups, words, in_place};
      if (geometry.shared_bytes(tile) <= has) {
        return tile;
      }
    }
  }
  const std::size_t needs = geometry.shared_bytes({1, words, true});
  throw InputError("8 images of up to " + std::to_string(geometry.places - kFreePlaces) + " neurons take " +
                   std::to_string(needs / 1024) + " KiB of shared memory; a block of " + chip.name + " has " +
                   std::to_string(has / 1024) + " KiB");
}

}  // namespace

std::string text(const BlocksPlan& plan) {
  std::string text = "warps=" + std::to_string(plan.warps) + " phases=";
  for (const BlocksPhase& phase : plan.phases) {
    text += (&phase == plan.phases.data() ? "" : ",") + std::to_string(phase.end_layer) + ":" + tile_text(phase.tile);
  }
  return text + " lower=" + tile_text(plan.lower) + " wide=" + tile_text(plan.wide);
}

std::size_t BlocksGeometry::record_bytes() const {
  const std::size_t of_tile = 2 * kBlockRows * kBlockColumns + place_bytes * kBlockColumns;  // weights and places
  return round_up(part_tiles() * of_tile + kBlockRows * (4 + place_bytes) + (remainder ? 4 : 0), kRecordAlignment);
}

std::size_t BlocksGeometry::shared_bytes(const BlocksTile& tile) const {
  const std::size_t quads = (inputs + 127) / 128;
  const std::size_t features = std::size_t{kPlaceBytes} * places * tile.groups * tile.words * (tile.in_place ? 1 : 2);
  const std::size_t bitmaps = (16 * tile.images() + 128 * tile.groups) * quads;
  const std::size_t rings = remainder ? warps * kRemainderRing * remainder_record_bytes(place_bytes) : 0;
  return round_up(features + bitmaps + 16 + 4 * tile.images(), 128) + rings;
}

BlocksGeometry blocks_geometry(const FeedForward& network, const NetworkStructure& structure, int warps,
                               int warp_blocks) {
  BlocksGeometry geometry{.layers = network.layers(), .inputs = network.neurons.front(), .warps = warps};
  if (!std::isfinite(network.clip)) {
    throw InputError("plans of blocks need a clip: features without one may grow beyond fp16");
  }
  int places = 0, blocks = 0;
  for (int l = 0; l < network.layers(); ++l) {
    const LayerStructure& layer = structure.layers[l];
    geometry.remainder = geometry.remainder || layer.remainder.nnz() > 0;
    // Rows of no block get blocks of their own.
    int rows = 0;
    for (int b = 0; b < layer.blocks.count(); ++b) {
      rows += static_cast<int>(
          std::ranges::count_if(layer.blocks.rows(b), [](std::int32_t row) { return row != kNoNeuron; }));
      geometry.tiles = std::max(geometry.tiles, static_cast<int>(layer.blocks.columns(b).size()) / kBlockColumns);
    }
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
  return geometry;
}

BlocksPlan choose_blocks_plan(const Chip& chip, const BlocksGeometry& geometry) {
  // Where half of the images have died, or more, in the challenge's networks; others run as right, and drop later.
  constexpr std::array kDropAfter{3, 5, 8, 11};
  BlocksPlan plan;
  plan.warps = geometry.warps;
  plan.wide = largest_tile(chip, geometry, 2, 2);  // which needs the most
  const BlocksTile many = largest_tile(chip, geometry, 4, 1), few = largest_tile(chip, geometry, 2, 1);
  for (const int layer : kDropAfter) {
    if (layer < geometry.layers) {
      plan.phases.push_back({layer, layer < kDropAfter.back() ? many : few});
    }
  }
  plan.phases.push_back({geometry.layers, few});
  plan.lower = few;
  return plan;
}

}  // namespace onchip
