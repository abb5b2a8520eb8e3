// SPDX-License-Identifier: Apache-2.0
// The generated accesses of feed-forward plans of blocks against those of their kernels, executed by the interpreter.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "sim/feed_forward/blocks_trace.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

struct Executed {
  Inference inference;
  std::vector<InterpretedProgram::Launch> phases;
};

Executed execute(const BlocksLayout& layout, const BlocksPlan& plan, const Bitmaps& images) {
  const InferenceProgram program = blocks_program(layout, plan, images.images, 3, "sm_90");
  const auto interpreted = std::make_shared<InterpretedProgram>(program);
  interpreted->count_accesses(BankGeometry{});
  InferenceExecutor inference(program, interpreted);
  inference.upload(images);
  Executed executed{inference.infer(), {}};
  std::ranges::copy_if(interpreted->launches(), std::back_inserter(executed.phases),
                       [](const auto& launch) { return launch.label.starts_with("to layer"); });
  return executed;
}

std::uint64_t sum(const std::vector<LayerCounts>& layers, auto of) {
  std::uint64_t all = 0;
  for (const LayerCounts& layer : layers) {
    all += static_cast<std::uint64_t>(of(layer));
  }
  return all;
}

}  // namespace

TEST_CASE("kernels of blocks have the wavefronts that their replay has, in every phase", "[slow]") {
  const std::string blocks = "random:neurons=300,layers=6,degree=24,blocks=16,values=0.125,bias=-0.1,clip=4";
  const std::string moved = blocks + ",moved=0.1";
  // Ten tiles, in parts.
  const std::string wide = "random:neurons=300,layers=6,degree=150,blocks=16,values=0.0625,bias=-0.1,clip=4,moved=0.1";
  // Words: the same in all phases, because features between them are laid out by them.
  const std::string fp16 =
      "random:neurons=300,layers=6,degree=24,blocks=16,values=uniform:0.1..0.2,precision=fp16,"
      "bias=-0.1,clip=4";
  const std::vector<std::pair<std::string, int>> cases{{"spdnn:1024x6", 1}, {blocks, 1}, {blocks, 2}, {moved, 1},
                                                       {fp16, 1},           {moved, 2},  {wide, 1},   {wide, 2}};
  const int number = GENERATE_COPY(range(0, static_cast<int>(cases.size())));
  if (!is_chosen(number, 2)) {
    return;
  }
  const auto& [text, words] = cases[static_cast<std::size_t>(number)];
  INFO(text << ", " << words << " words");
  const Chip chip = find_chip("h100_sxm").chip;
  const FeedForward network = read_network(text);
  NetworkStructure structure = find_structure(network, text == moved ? 0.5 : 0.0625);
  // So that some accesses have conflicts: two neurons of different banks change places.
  std::vector<std::int32_t>& places = structure.places[3].of_neuron;
  std::swap(places[0], *std::ranges::find_if(places, [&](std::int32_t place) {
              return place % kFreePlaces != places[0] % kFreePlaces && place / kFreePlaces != places[0] / kFreePlaces;
            }));
  const BlocksGeometry geometry = blocks_geometry(network, structure, 8, 0, {});
  CHECK((geometry.parts > 1) == (text == wide));
  const BlocksLayout layout = pack_blocks(network, structure, geometry);
  BlocksPlan plan{geometry.warps, {}, {2, 1, false}, {1, 2, false}};
  plan.phases = {{2, {3, words, true}}, {4, {2, words, false}}, {5, {1, words, true}}, {6, {2, words, true}}};
  const Bitmaps images = random_images(40, network.neurons.front(), 7);
  const Executed executed = execute(layout, plan, images);
  REQUIRE(executed.phases.size() == plan.phases.size());
  int first = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const auto& [end, tile] = plan.phases[p];
    INFO("to layer " << end << " of " << executed.inference.entering[p] << " images");
    const std::vector<LayerCounts> layers = count_blocks(chip, layout, tile, first, end);
    const auto tiles = static_cast<std::uint64_t>((executed.inference.entering[p] + tile.images() - 1) / tile.images());
    const ptx::Counts& counts = executed.phases[p].counts;
    CHECK(counts.of(ptx::Access::matrix_load).wavefronts ==
          tiles * sum(layers, [](const LayerCounts& layer) { return layer.reads.wavefronts; }));
    CHECK(counts.of(ptx::Access::matrix_load).ideal ==
          tiles * sum(layers, [](const LayerCounts& layer) { return layer.reads.ideal; }));
    CHECK(counts.of(ptx::Access::matrix_store).wavefronts ==
          tiles * sum(layers, [](const LayerCounts& layer) { return layer.writes.wavefronts; }));
    CHECK(counts.of(ptx::Access::matrix_store).ideal ==
          tiles * sum(layers, [](const LayerCounts& layer) { return layer.writes.ideal; }));
    first = end;
  }
  CHECK(executed.phases[1].counts.of(ptx::Access::matrix_load).wavefronts >
        executed.phases[1].counts.of(ptx::Access::matrix_load).ideal);
}

TEST_CASE("a layer more reads as many bytes from L2 as its replay", "[fast]") {
  const auto& [values, weight_bytes] =
      GENERATE(table<std::string, int>({{"0.125", 0},
                                        {"uniform:0.1..0.2,precision=fp8", 1},
                                        {"0.125,moved=0.1", 1},
                                        {"uniform:0.1..0.2,precision=fp16", 2},
                                        {"uniform:0.1..0.2,precision=fp16,moved=0.1", 2}}));
  const FeedForward network =
      read_network("random:neurons=300,layers=6,degree=32,blocks=16,bias=-0.1,clip=4,values=" + values);
  const NetworkStructure structure = find_structure(network, says(values, "moved") ? 0.5 : 0.0625);
  const BlocksGeometry geometry = blocks_geometry(network, structure, 4, 0, {});
  REQUIRE(geometry.weight_bytes == weight_bytes);
  const BlocksLayout layout = pack_blocks(network, structure, geometry);
  const BlocksTile tile{2, 1, false};
  const Bitmaps images = random_images(48, 300, 7);
  std::vector<std::uint64_t> bytes;
  for (const int end : {3, 4}) {
    const BlocksPlan plan{geometry.warps, {{end, tile}, {6, tile}}, tile, {1, 2, false}};
    bytes.push_back(execute(layout, plan, images).phases[0].counts.global_bytes);
  }
  const LayerCounts layer = count_blocks(find_chip("h100_sxm").chip, layout, tile, 3, 4).front();
  CHECK(bytes[1] - bytes[0] == 3 * static_cast<std::uint64_t>(layer.l2_bytes));
}

}  // namespace onchip
