// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/staged/layout.hpp"
#include "tests/catch.hpp"
#include "tests/model/feed_forward/plans.hpp"

#include <utility>
#include <vector>

using namespace onchip;
using Catch::Matchers::Contains;

namespace {

// The weights that a kernel multiplies, in its order; padding must multiply the zero behind a chunk.
SparseMatrix restored(const StagedLayer& layer, const StagedPlan& plan) {
  SparseMatrix matrix{layer.outputs, layer.inputs, {0}, {}, {}};
  const bool staged = plan.staging == Staging::shared;
  for (int row = 0; row < layer.outputs; ++row) {
    const int block = row / plan.block_outputs, warp = row % plan.block_outputs / 32, lane = row % 32;
    for (std::uint32_t chunk = layer.block_chunk[block]; chunk < layer.block_chunk[block + 1]; ++chunk) {
      const std::uint32_t size = layer.chunk_map[chunk + 1] - layer.chunk_map[chunk];
      const std::size_t slice = std::size_t{chunk} * plan.warps() + warp;
      for (std::uint32_t m = layer.slice_begin[slice]; m < layer.slice_begin[slice + 1]; ++m) {
        const std::size_t at = std::size_t{m} * 32 + lane;
        if (staged ? layer.index[at] == plan.chunk_inputs()
                   : m - layer.slice_begin[slice] >= layer.row_length[static_cast<std::size_t>(row)]) {
          CHECK(layer.value[at] == 0);
          continue;
        }
        if (staged) {
          REQUIRE(layer.index[at] < size);
        }
        matrix.column.push_back(staged ? layer.map[layer.chunk_map[chunk] + layer.index[at]] : layer.index[at]);
        matrix.value.push_back(layer.value[at]);
      }
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace

TEST_CASE("a staged layer has the weights of its network in their order, whatever the rows", "[feed_forward][fast]") {
  for (const char* text : {"random:neurons=777-1-300-1000,degree=power-law:1..700,values=uniform:-1..1",
                           "random:neurons=100,layers=3,degree=uniform:0..3,bias=uniform:-1..1",
                           "random:neurons=33,layers=2,degree=0", "spdnn:1024x8"}) {
    const FeedForward network = read_network(text);
    for (const char* plan_text : {"staged", "staged block_outputs=32 staged_bytes=48 images=12",
                                  "staged block_outputs=96 images=5 staged_bytes=2000", "staged l1"}) {
      INFO(text << ", " << plan_text);
      const StagedPlan plan = staged_plan(plan_text);
      const StagedLayout layout = stage_network(network, plan);
      for (int l = 0; l < network.layers(); ++l) {
        const SparseLayer layer = network.layer(l);
        CHECK(restored(layout.layers[l], plan) == layer.weights);
        for (int row = 0; row < layer.weights.rows; ++row) {
          CHECK(layout.layers[l].bias[row] == layer.bias_of(row));
        }
      }
    }
  }
}

TEST_CASE("the 2020 champion's counts of the official networks of 1920 layers", "[feed_forward][slow]") {
  const FeedForward network = read_network("spdnn:1024x1920");
  std::int64_t chunks = 0, map = 0, slice_rows = 0;
  for (int l = 0; l < network.layers(); ++l) {
    const StagedLayer layer = stage(network.layer(l), {});
    chunks += layer.chunks();
    map += static_cast<std::int64_t>(layer.map.size());
    slice_rows += layer.slice_rows();
  }
  CHECK(chunks == 15'360);
  CHECK(map == 7'864'320);
  CHECK(slice_rows == 2'658'544);
}

TEST_CASE("images are dropped once no later layer gives an image of zeros a feature", "[feed_forward][fast]") {
  const auto first_drop = [](std::vector<float> biases) {
    std::vector<SparseLayer> layers;
    for (const float bias : biases) {
      layers.push_back({{1, 1, {0, 1}, {0}, {1}}, {bias}});
    }
    return stage_network(stored_network("", std::move(layers), kNoClip), {}).first_drop;
  };
  CHECK(first_drop({-1, -1, 0}) == 0);
  CHECK(first_drop({1, -1, -1}) == 0);
  CHECK(first_drop({-1, 1, -1}) == 1);
  CHECK(first_drop({-1, 1, 1}) == 2);
}

TEST_CASE("staged plans that cannot be are refused with what was expected", "[feed_forward][fast]") {
  const std::pair<const char*, const char*> refused[] = {
      {"staged block_outputs=48", "block_outputs to be whole warps of 32, found 48"},
      {"staged block_outputs=2048", "block_outputs to be a whole number from 32 to 1024, found 2048"},
      {"staged images=0", "images to be a whole number from 1 to 64"},
      {"staged staged_bytes=40", "staged_bytes to hold an input of 12 images, 48 bytes, found 40"},
      {"staged images=1 staged_bytes=1000000", "at most 65535 inputs of 1 images, found 250000"},
      {"staged compact_on_devise", "did you mean 'compact_on_device'?"},
      {"staged block_output=32", "did you mean 'block_outputs'?"},
  };
  for (const auto& [text, message] : refused) {
    CHECK_THROWS_WITH(staged_plan(text), Contains(message));
  }
  const FeedForward wide = read_network("random:neurons=70000-8,degree=1");
  CHECK_THROWS_WITH(stage_network(wide, {}), Contains("layer 1: staged plans name a layer's inputs by 16 bits, at most "
                                                      "65536 of them; there are 70000"));
  const FeedForward uneven = read_network("random:neurons=8,layers=2,degree=2,values=uniform:0.1..0.2");
  CHECK_THROWS_WITH(stage_network(uneven, staged_plan("staged fp16")), Contains("layer 1 has a weight that is no "
                                                                                "fp16 number"));
}
