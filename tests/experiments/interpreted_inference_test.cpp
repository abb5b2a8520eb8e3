// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/interpreted_inference.hpp"

#include "kernels/feed_forward/blocks_program.hpp"
#include "kernels/feed_forward/streamed_program.hpp"
#include "kernels/feed_forward/unstructured_program.hpp"
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
                                    "random:neurons=16,layers=5,degree=3,blocks=16,bias=-0.05",
                                    "spdnn:64x7,moved=0.1,shuffle=yes"};
  for (int seed = 1; seed <= 3; ++seed) {
    networks.push_back(random_blocks_network(seed, 300, 6));
  }
  std::uint64_t seed = 1;
  for (const std::string& text : networks) {
    INFO(text);
    const FeedForward network = read_network(text);
    NetworkStructure structure = find_structure(network);
    absorb_remainder(structure);
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

TEST_CASE("interpreted streamed kernels have the categories of the reference", "[fast]") {
  std::vector<std::string> networks{"random:neurons=100-300-64-128,degree=16,blocks=16,bias=-0.1",
                                    "random:neurons=128,layers=14,degree=24,blocks=16,values=0.125,bias=-0.5,clip=4",
                                    "spdnn:256x12"};
  for (int seed = 4; seed <= 6; ++seed) {
    networks.push_back(random_blocks_network(seed, 200, 6) + ",values=0.0625");
  }
  std::uint64_t seed = 200;
  int drawn = 0;
  for (const std::string& text : networks) {
    const FeedForward network = read_network(text);
    NetworkStructure structure = find_structure(network);
    absorb_remainder(structure);
    StreamedPlan plan = choose_streamed_plan(find_chip("h100_sxm").chip, network, structure);
    ++drawn;
    plan.groups = drawn % 3 == 0 ? 8 : drawn % 3 == 1 ? 4 : 2;
    plan.chain = 1 + drawn % 2;
    plan.warps = 2;
    plan.team = 1 + drawn % 3;
    plan.at_once = 1 + drawn / 2 % 2;
    INFO(text << ": " << onchip::text(plan));
    const BlocksLayout layout = pack_blocks(network, structure, streamed_geometry(network, structure, plan.chain));
    InterpretedInference inference(streamed_program(layout, plan, 150, kSms + drawn % 2, "sm_90"));
    for (const int count : {0, 1, 150}) {
      INFO(count << " images");
      const Bitmaps images = random_images(count, network.neurons.front(), ++seed);
      inference.upload(images);
      CHECK(inference.infer().categories == infer_reference(network, images).categories);
    }
  }
}

TEST_CASE("interpreted unstructured kernels have the categories of the reference, of any network", "[fast]") {
  const std::vector<std::string> networks{
      "random:neurons=100-300-64-128,degree=16,bias=-0.1",
      "random:neurons=100,layers=9,degree=power-law:1..90,values=uniform:-1..1,clip=none",
      "random:neurons=33-1-17-200,degree=uniform:0..20,values=uniform:-1..1,bias=uniform:-0.5..0.5,clip=2",
      "random:neurons=90,layers=3,degree=0,bias=0.5",
      "random:neurons=64,layers=12,degree=8,values=uniform:0.1..0.2,precision=bf16,bias=-0.2",
      "spdnn:64x8"};
  std::uint64_t seed = 100;
  for (const std::string& text : networks) {
    const FeedForward network = read_network(text);
    for (const ReadOrder order : {ReadOrder::ascending, ReadOrder::bank_aware}) {
      for (const int images_each : {0, 1, 2, 8}) {  // of a tile; 0: as chosen
        UnstructuredPlan plan = choose_unstructured_plan(find_chip("h100_sxm").chip, network, order);
        for (UnstructuredPhase& phase : plan.phases) {
          phase.tile = images_each == 0 ? phase.tile : UnstructuredTile{images_each, images_each < 8};
        }
        plan.warps = images_each == 0 ? 4 : 2;
        INFO(text << ": " << onchip::text(plan));
        const UnstructuredLayout layout = pack_unstructured(network, plan);
        InterpretedInference inference(unstructured_program(layout, 100, kSms, "sm_90"));
        for (const int count : {0, 1, 100}) {
          INFO(count << " images");
          const Bitmaps images = random_images(count, network.neurons.front(), ++seed);
          inference.upload(images);
          CHECK(inference.infer().categories == infer_reference(network, images).categories);
        }
      }
    }
  }
}

}  // namespace onchip
