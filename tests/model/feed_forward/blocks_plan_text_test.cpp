// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_plan_text.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/dense_layer/dense_layer.hpp"
#include "tests/catch.hpp"

#include <string>

namespace onchip {

TEST_CASE("streamed and unstructured plans come back from their texts", "[fast]") {
  const std::string streamed = "streamed groups=8 chain=2 warps=12 team=43 at_once=2 wide_groups=2 phases=2,4,120";
  CHECK(text(read_streamed_plan(streamed, 120)) == streamed);
  const std::string unstructured = "unstructured warps=32 order=bank_aware phases=2:32!,9:16!+1024,120:16";
  CHECK(text(read_unstructured_plan(unstructured, 120)) == unstructured);
  CHECK_THROWS_AS(read_streamed_plan("streamed groups=8 phases=120", 120), InputError);
  CHECK_THROWS_AS(read_streamed_plan(streamed, 121), InputError);
  CHECK_THROWS_AS(read_unstructured_plan("unstructured warps=32 order=no phases=120:16", 120), InputError);
  CHECK_THROWS_AS(read_unstructured_plan("unstructured warps=32 order=ascending phases=120", 120), InputError);
  for (const char* tile : {"12", "24", "64", "16+1"}) {
    INFO(tile);
    CHECK_THROWS_AS(
        read_unstructured_plan("unstructured warps=16 order=ascending phases=120:" + std::string(tile), 120),
        InputError);
  }
  const std::string dense = "dense_layer warps=16 phases=120:2x1 lower=2x1 wide=2x2";
  CHECK(dense_layer_text(read_dense_layer_plan(dense, 120)) == dense);
}

TEST_CASE("unstructured plans that do not fit are refused with what they take", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  FeedForward network;
  network.neurons.assign(5, 1024);
  const auto check = [&](const std::string& phases) {
    check_fits(chip, network, read_unstructured_plan("unstructured warps=16 order=ascending phases=" + phases, 4));
  };
  CHECK_NOTHROW(check("2:32!,4:16!+1024"));
  CHECK_THROWS_WITH(check("2:32!,4:32"), Catch::Matchers::Contains("KiB of shared memory"));
}

TEST_CASE("a plan of blocks comes back from its text, and what is none is refused by name", "[fast]") {
  const std::string good = "warps=16 phases=3:4x1,11:3x1!,120:2x1 lower=2x1 wide=2x2!";
  const BlocksPlan plan = read_blocks_plan(good, 120);
  CHECK(text(plan) == good);
  CHECK(plan.phases[1] == BlocksPhase{11, {3, 1, true}});
  const auto problem = [](const std::string& of) {
    try {
      read_blocks_plan(of, 120);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string ends = " lower=2x1 wide=2x2";
  for (const auto& [given, said] : {
           std::pair<std::string, std::string>{"", "'warps=', too"},
           {"warps=16 phases=120:2x1 lower=2x1", "'wide=', too"},
           {"warps=16 warps=8 phases=120:2x1" + ends, "'warps' once"},
           {"warps=99 phases=120:2x1" + ends, "from 1 to 32"},
           {"warp=16 phases=120:2x1" + ends,
            "'warp=16': expected warps=, phases=, lower= and wide=; did you mean 'warps'?"},
           {"warps=16 phases=120:0x1" + ends, "groups of 8 images"},
           {"warps=16 phases=120:2x3" + ends, "words of a feature"},
           {"warps=16 phases=120:2" + ends, "a tile such as"},
           {"warps=16 phases=120" + ends, "a last layer and a tile"},
           {"warps=16 phases=5:2x1,5:2x1,120:2x1" + ends, "ascend"},
           {"warps=16 phases=5:2x1" + ends, "to layer 120"},
           {"warps=16 phases=121:2x1" + ends, "a layer from 1 to 120"},
           {"warps=16 phases=5:2x1,120:2x2" + ends, "as many words"},
       }) {
    CAPTURE(given, problem(given));
    CHECK(problem(given).find(said) != std::string::npos);
  }
  const Chip chip = find_chip("h100_sxm").chip;
  BlocksGeometry geometry;
  geometry.inputs = geometry.places = 4104;
  CHECK_THROWS_AS(check_fits(chip, geometry, plan), InputError);
  geometry.inputs = geometry.places = 1032;
  check_fits(chip, geometry, plan);
}

}  // namespace onchip
