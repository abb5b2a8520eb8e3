// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/bounds.hpp"
#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"
#include "tests/model/feed_forward/plans.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace onchip {
namespace {

InferenceProgram program_of(const BlocksLayout& layout, int images) {
  const DeviceInfo device = device_info();
  return blocks_program(layout, dropping_plan(find_chip("h100_sxm").chip, layout.geometry), images, device.sm_count,
                        device.architecture);
}

}  // namespace

TEST_CASE("kernels of blocks compile for tiles of one and two words, and keep what they need in registers", "[fast]") {
  const FeedForward network = read_network("spdnn:1024x2");
  BlocksGeometry geometry = blocks_geometry(network, find_structure(network), 16, 0, {});
  geometry.weight_bytes = GENERATE(0, 1, 2);
  for (const BlocksTile tile : {BlocksTile{4, 1, false}, BlocksTile{2, 2, true}}) {
    const BlocksKernel kernel = compile_blocks(geometry, tile, tile.words == 2, "sm_90");
    INFO(tile.groups << "x" << tile.words << ", " << weight_class(geometry.weight_bytes));
    CHECK(kernel.resources.spill_bytes == 0);
    CHECK(kernel.ahead > 0);
  }
  CHECK(compile(exact_request("sm_90")).resources.spill_bytes == 0);
  CHECK_THROWS_AS(compile_blocks(geometry, {2, 1, false}, false, "sm_80"), InputError);
}

TEST_CASE("an inference has the categories of the reference, in each run", "[gpu]") {
  std::vector<std::string> networks{
      "spdnn:1024x120",
      "spdnn:1024x120,shuffle=yes,values=uniform:0.05..0.075,precision=fp16",
      "spdnn:1024x120,shuffle=yes,values=uniform:0.05..0.075,precision=fp8",
      "spdnn:4096x12",
      "spdnn:1024x14,shuffle=yes,moved=0.1",
      "random:neurons=1000,layers=9,degree=32,blocks=16",
      "random:neurons=100-300-64-512,degree=16,blocks=16,bias=-0.1",
      "random:neurons=16,layers=5,degree=3,blocks=16,bias=-0.05",
      "random:neurons=777,layers=40,degree=24,blocks=16,values=0.125,bias=-0.5,clip=4",
      "random:neurons=1024,layers=7,degree=0,blocks=16",
  };
  for (int drawn = 1; drawn <= 12; ++drawn) {
    networks.push_back(random_blocks_network(drawn, 1500, 14));
  }
  std::uint64_t seed = 1;
  for (const std::string& text : networks) {
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = find_structure(network, 0.0625);
    const BlocksLayout layout = pack_blocks(network, structure, blocks_geometry(network, structure, 16, 0, {}));
    for (const int count : {0, 1, 37, 5000}) {
      const Bitmaps images = count == 5000 && text.starts_with("spdnn")
                                 ? synthetic_digits(network.neurons.front(), 0, count)
                                 : random_images(count, network.neurons.front(), ++seed);
      InferenceExecutor inference = inference_on<DeviceProgram>(program_of(layout, count));
      check_categories(inference, network, images, /*runs=*/2);
    }
  }
}

TEST_CASE("weights that are off are seen in the categories", "[gpu]") {
  const FeedForward network = read_network("spdnn:1024x40");
  const NetworkStructure structure = find_structure(network);
  BlocksGeometry geometry = blocks_geometry(network, structure, 16, 0, {});
  geometry.weight_bytes = 2;
  BlocksLayout layout = pack_blocks(network, structure, geometry);
  const Bitmaps images = synthetic_digits(1024, 0, 20000);
  const std::vector<int> reference = infer_reference(network, images).categories;
  // The weights of each layer's first block are halved.
  for (int l = 0; l < network.layers(); ++l) {
    auto* halves = reinterpret_cast<std::uint16_t*>(layout.records.data() + geometry.layer_bytes() * l);
    for (int i = 0; i < 512; ++i) {
      halves[i] = static_cast<std::uint16_t>(halves[i] - 0x0400);
    }
  }
  InferenceExecutor inference = inference_on<DeviceProgram>(program_of(layout, images.images));
  inference.upload(images);
  bool differs = false;
  try {
    differs = inference.infer().categories != reference;
  } catch (const CudaError&) {
    differs = true;  // the exact kernel has the right weights: the bounds contradict each other
  }
  CHECK(differs);
}

}  // namespace onchip
