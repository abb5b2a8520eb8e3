// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted_inference.hpp"

#include "kernels/feed_forward/blocks_program.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward_cases.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr int kSms = 3;  // so that a block of threads has several tiles

}  // namespace

TEST_CASE("interpreted kernels of blocks have the categories of the reference", "[fast]") {
  std::vector<std::string> networks{"random:neurons=100-300-64-128,degree=16,blocks=16,bias=-0.1",
                                    "random:neurons=128,layers=14,degree=24,blocks=16,values=0.125,bias=-0.5,clip=4",
                                    "random:neurons=16,layers=5,degree=3,blocks=16,bias=-0.05"};
  for (int seed = 1; seed <= 3; ++seed) {
    networks.push_back(random_blocks_network(seed, 300, 6));
  }
  std::uint64_t seed = 1;
  for (const std::string& text : networks) {
    INFO(text);
    const FeedForward network = read_network(text);
    const NetworkStructure structure = find_structure(network, 0.0625);
    const BlocksGeometry geometry = blocks_geometry(network, structure, 4);
    const BlocksLayout layout = pack_blocks(network, structure, geometry);
    const BlocksPlan plan = choose_blocks_plan(find_chip("h100_sxm").chip, geometry);
    InterpretedInference inference(blocks_program(layout, plan, 150, kSms, "sm_90"));
    for (const int count : {0, 1, 150}) {
      INFO(count << " images");
      const Bitmaps images = random_images(count, network.neurons.front(), ++seed);
      inference.upload(images);
      CHECK(inference.infer().categories == infer_reference(network, images).categories);
    }
    CHECK_THROWS_AS(inference.upload(random_images(151, network.neurons.front(), 1)), InputError);
  }
}

}  // namespace onchip
