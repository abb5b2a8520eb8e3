// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_plan.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/plan/phase_text.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"
#include "model/plan/require.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace onchip {
namespace {

constexpr int kRecordAlignment = 32;
constexpr int kPlaceBytes = 16;
constexpr int kMostTiles = 8, kPartTiles = 4;  // of a record, where blocks come whole and in parts
constexpr int kMostPlaces = 0x8000;            // of 2 bytes: their last bit says that an input was read already

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr int kMostGroups = 8, kMostWarps = 32;

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
    throw InputError(std::string(kNeedsClip));
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
