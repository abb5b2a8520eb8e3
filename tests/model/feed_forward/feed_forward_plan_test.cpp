// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/feed_forward_plan.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"

#include <string>

namespace onchip {
namespace {

using Catch::Matchers::Contains;

FeedForward network_of(int layers, int neurons = 1024) {
  FeedForward network;
  network.neurons.assign(static_cast<std::size_t>(layers) + 1, neurons);
  return network;
}

// As what comes in as text is read.
FeedForwardPlan read(const std::string& text, int layers = 120) {
  const FeedForwardPlan plan = parse_feed_forward_plan(text);
  check_plan(network_of(layers), plan);
  return plan;
}

}  // namespace

TEST_CASE("feed-forward plans of every family begin with its name and come back from their texts", "[fast]") {
  for (const std::string text :
       {"blocks warps=16 phases=3:4x1,11:3x1!,120:2x1 lower=2x1 wide=2x2!",
        "blocks warps=16 weight_bytes=0 phases=120:2x1 lower=2x1 wide=2x2!",
        "streamed groups=8 chain=2 warps=12 sms=43 at_once=2 wide_groups=2 phases=2,4,120",
        "dense_layer warps=16 phases=120:2x1 lower=2x1 wide=2x2",
        "unstructured bank_aware warps=32 phases=2:32!,9:16!+1024,120:16",
        "staged shared_memory blocked compact_on_device resident fp32 block_outputs=256 images=12 "
        "staged_bytes=24576"}) {
    INFO(text);
    const FeedForwardPlan plan = read(text);
    CHECK(to_string(plan) == text);
    CHECK(text.starts_with(std::string(family_name(plan)) + " "));
    if (!std::holds_alternative<StagedPlan>(plan)) {
      CHECK(end_layers(plan).back() == 120);
      CHECK_THROWS_WITH(read(text, 121), Contains("phases to layer 121, the network's last, found 120"));
    }
  }
  const auto blocks = std::get<BlocksPlan>(read("blocks warps=16 phases=11:3x1!,120:2x1 lower=2x1 wide=2x2"));
  CHECK(blocks.phases[0] == BlocksPhase{11, {3, 1, true}});
  CHECK(is_on_chip(blocks));
  CHECK_FALSE(is_on_chip(StreamedPlan()));
}

TEST_CASE("what is no feed-forward plan is refused by name, and an old text with the new one", "[fast]") {
  const std::string ends = " lower=2x1 wide=2x2";
  for (const auto& [given, said] : {
           std::pair<std::string, std::string>{"", "unknown family ''"},
           {"block warps=16", "did you mean 'blocks'?"},
           {"warps=16 phases=120:2x1" + ends, "expected the family first, 'blocks warps=16 phases=120:2x1" + ends},
           {"unstructured warps=16 order=ascending phases=120:16", "expected the name alone, 'ascending'"},
           {"streamed groups=8 chain=2 warps=12 team=43 phases=120", "'team'; it is called sms now"},
           {"blocks", "'phases=', too"},
           {"blocks warps=16 phases=120:2x1 lower=2x1", "'wide=', too"},
           {"blocks warps=16 warps=8 phases=120:2x1" + ends, "'warps' stands twice"},
           {"blocks warps=99 phases=120:2x1" + ends, "from 1 to 32"},
           {"blocks warp=16 phases=120:2x1" + ends, "unknown key 'warp'; did you mean 'warps'?"},
           {"blocks warps=16 phases=120:0x1" + ends, "groups of 8 images"},
           {"dense_layer warps=16 phases=120:2x3" + ends, "words of a feature"},
           {"blocks warps=16 phases=120:2" + ends, "a tile such as"},
           {"blocks warps=16 phases=120" + ends, "a last layer and a tile"},
           {"blocks warps=16 phases=5:2x1,5:2x1,120:2x1" + ends, "ascend"},
           {"blocks warps=16 phases=5:2x1,120:2x2" + ends, "as many words"},
           {"streamed groups=0 phases=120", "groups to be a whole number from 1"},
           {"streamed phases=120:16", "a layer from 1"},
           {"unstructured no phases=120:16", "unstructured does not know 'no'"},
           {"unstructured phases=120", "a last layer and a tile"},
           {"unstructured phases=120:12", "a power of two of images"},
           {"unstructured phases=120:64", "images of a tile from 1 to 32"},
           {"unstructured phases=120:16+1", "copies for each row of an access"},
           {"staged block_outputs=48", "whole warps of 32"},
       }) {
    CAPTURE(given);
    CHECK_THROWS_WITH(read(given), Contains(said));
  }
}

TEST_CASE("plans that do not fit say what they take and what there is", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  const auto unstructured = [&](const std::string& phases) {
    return why_not_fitting(chip, network_of(4),
                           std::get<UnstructuredPlan>(read("unstructured ascending warps=16 phases=" + phases, 4)));
  };
  CHECK(unstructured("2:32!,4:16!+1024").empty());
  CHECK_THAT(unstructured("2:32!,4:32"), Contains("KiB of shared memory"));
  const auto blocks = std::get<BlocksPlan>(read("blocks warps=16 phases=3:4x1,120:2x1 lower=2x1 wide=2x2!"));
  BlocksGeometry geometry;
  geometry.inputs = geometry.places = 4104;
  CHECK_THAT(why_not_fitting(chip, geometry, blocks),
             Contains("KiB of shared memory; a block of H100 SXM has 227 KiB"));
  geometry.inputs = geometry.places = 1032;
  CHECK(why_not_fitting(chip, geometry, blocks).empty());
}

}  // namespace onchip
