// SPDX-License-Identifier: Apache-2.0
#include "sim/feed_forward/blocks_trace.hpp"

#include "model/feed_forward/files/network_text.hpp"
#include "tests/catch.hpp"

#include <numeric>
#include <string>
#include <vector>

namespace onchip {
namespace {

struct Packed {
  NetworkStructure structure;
  BlocksLayout layout;
};

Packed packed(const std::string& text, int warps, bool natural_places = false) {
  const FeedForward network = read_network(text);
  Packed made{find_structure(network), {}};
  for (Places& places : made.structure.places) {
    if (natural_places) {
      std::iota(places.of_neuron.begin(), places.of_neuron.end(), 0);
      places.count = (static_cast<int>(places.of_neuron.size()) + kFreePlaces - 1) / kFreePlaces * kFreePlaces;
    }
  }
  made.layout = pack_blocks(network, made.structure, blocks_geometry(network, made.structure, warps, 0, {}));
  return made;
}

const Chip& h100() {
  static const Chip chip = find_chip("h100_sxm").chip;
  return chip;
}

}  // namespace

TEST_CASE("a replayed layer has the conflicts that the structure counts, for each group of images and word", "[fast]") {
  const bool natural = GENERATE(false, true);
  const BlocksTile tile = GENERATE(BlocksTile{2, 1, false}, BlocksTile{3, 1, true}, BlocksTile{1, 2, false});
  // A block for each warp, so that no tile is left out because the block before has read it.
  const Packed made = packed("spdnn:1024x3", 64, natural);
  const std::vector<LayerCounts> layers = count_blocks(h100(), made.layout, tile, 0, 3);
  bool has_conflicts = false;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    INFO("layer " << l << ", tile " << tile.groups << "x" << tile.words);
    const Blocks& blocks = made.structure.layers[l].blocks;
    const Conflicts reads = read_conflicts(blocks, made.structure.places[l]);
    const Conflicts writes = write_conflicts(blocks, made.structure.places[l + 1]);
    const int each = tile.groups * tile.words;
    CHECK(layers[l].reads.ideal == each * reads.accesses);
    CHECK(layers[l].writes.ideal == each * writes.accesses);
    CHECK(layers[l].reads.wavefronts == each * (reads.accesses + reads.extra));
    CHECK(layers[l].writes.wavefronts == each * (writes.accesses + writes.extra));
    has_conflicts = has_conflicts || reads.extra + writes.extra > 0;
  }
  CHECK(has_conflicts == natural);
}

TEST_CASE("tiles whose inputs the block before has read are not read again", "[fast]") {
  const Packed made = packed("spdnn:1024x4", 16);
  const BlocksGeometry& geometry = made.layout.geometry;
  REQUIRE(geometry.warp_blocks == 4);
  const LayerCounts layer = count_blocks(h100(), made.layout, {2, 1, false}, 1, 2).front();
  // Four blocks of a warp have two tiles each, of which neighbours share some.
  CHECK(layer.reads.wavefronts < 64 * 2 * 4);
  CHECK(layer.reads.wavefronts >= 64 * 4);
  CHECK(layer.writes.wavefronts == 64 * 4);
  CHECK(layer.l2_bytes == static_cast<std::int64_t>(geometry.layer_bytes()));
}

TEST_CASE("layers are the same one by one, in chunks and by several threads", "[fast]") {
  const Packed made = packed("spdnn:1024x20", 16);
  const BlocksTile tile{2, 1, false};
  const std::vector<LayerCounts> layers = count_blocks(h100(), made.layout, tile, 3, 20);
  const std::vector<LayerCounts> again = count_blocks(h100(), made.layout, tile, 3, 20, 3);
  REQUIRE(layers.size() == 17);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const int first = 3 + static_cast<int>(l);
    for (const LayerCounts& other : {again[l], count_blocks(h100(), made.layout, tile, first, first + 1)[0]}) {
      CHECK(layers[l].reads == other.reads);
      CHECK(layers[l].writes == other.writes);
      CHECK(layers[l].l2_bytes == other.l2_bytes);
      CHECK(layers[l].instructions == other.instructions);
    }
  }
}

}  // namespace onchip
