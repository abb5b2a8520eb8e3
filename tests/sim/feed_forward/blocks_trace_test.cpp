// SPDX-License-Identifier: Apache-2.0
#include "sim/feed_forward/blocks_trace.hpp"

#include "model/feed_forward/network_text.hpp"
#include "sim/feed_forward/simulate_blocks.hpp"
#include "tests/catch.hpp"

#include <algorithm>
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
  made.layout = pack_blocks(network, made.structure, blocks_geometry(network, made.structure, warps));
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
  const std::vector<LayerRun> layers = count_blocks(h100(), made.layout, tile, 0, 3);
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
  const LayerRun layer = count_blocks(h100(), made.layout, {2, 1, false}, 1, 2).front();
  // Four blocks of a warp have two tiles each, of which neighbours share some.
  CHECK(layer.reads.wavefronts < 64 * 2 * 4);
  CHECK(layer.reads.wavefronts >= 64 * 4);
  CHECK(layer.writes.wavefronts == 64 * 4);
  CHECK(layer.l2_bytes == static_cast<std::int64_t>(geometry.layer_bytes()));
}

TEST_CASE("layers are the same one by one, in chunks and by several threads, and take as long as their floors at least",
          "[fast]") {
  const Packed made = packed("spdnn:1024x20", 16);
  const BlocksTile tile{2, 1, false};
  const BlocksRun run = simulate_blocks(h100(), made.layout, tile, 3, 20);
  const BlocksRun again = simulate_blocks(h100(), made.layout, tile, 3, 20, {}, 3);
  REQUIRE(run.layers.size() == 17);
  CHECK(run.cycles() == again.cycles());
  CHECK(run.causes == again.causes);
  CHECK_THAT(std::accumulate(run.causes.begin(), run.causes.end(), 0.0),
             Catch::Matchers::WithinRel(run.cycles(), 1e-9));
  for (std::size_t l = 0; l < run.layers.size(); ++l) {
    const LayerRun& layer = run.layers[l];
    const LayerRun alone = count_blocks(h100(), made.layout, tile, 3 + static_cast<int>(l), 4 + static_cast<int>(l))[0];
    CHECK(layer.reads == alone.reads);
    CHECK(layer.l2_bytes == alone.l2_bytes);
    CHECK(layer.cycles > layer.reads.wavefronts + layer.writes.wavefronts);
    CHECK(layer.cycles > static_cast<double>(layer.instructions) / h100().partitions);
    CHECK(layer.cycles < 4000);
  }
  // Other banks, another time.
  SmOptions without;
  without.banks = false;
  const Packed natural = packed("spdnn:1024x20", 16, /*natural_places=*/true);
  CHECK(simulate_blocks(h100(), natural.layout, tile, 3, 20).cycles() >
        1.1 * simulate_blocks(h100(), natural.layout, tile, 3, 20, without).cycles());
}

}  // namespace onchip
