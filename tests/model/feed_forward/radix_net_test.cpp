// SPDX-License-Identifier: Apache-2.0
// The official networks against what is published of them.
#include "model/feed_forward/data/radix_net.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/staged/layout.hpp"
#include "tests/catch.hpp"
#include "tests/model/feed_forward/written.hpp"
#include "tests/nightly.hpp"
#include "tests/sha256.hpp"

#include <algorithm>
#include <array>
#include <vector>

using namespace onchip;

namespace {

struct Official {
  int neurons, groups;
  std::string_view residues;             // SHA-256 of all m as uint16
  std::string_view inputs;               // SHA-256 of the indices of layers 1 to 120, from 1, as int32
  std::array<std::int64_t, 3> champion;  // chunks, map entries, slice rows of the 2020 champion's layout, 120 layers
  std::array<int, 3> layers;             // whose files' SHA-256 follow
  std::array<std::string_view, 3> files;
};

const std::array<Official, 4> kOfficial{{
    {1024,
     320,
     "4cc5d5a08edac56c564b73fca564a530da03bd906d293a65bb12cbe04557b416",
     "09823e2d8a564a0217747341ff06bcb8c742f6a5b86b693d2edd2bf746d48f1b",
     {960, 491'520, 163'152},
     {1, 7, 120},
     {"48f8c5363f7f6579b4a186b0d03a27b13d5d9e3e41e17af884569d754248903a",
      "2c63b12ddca93f266438c44210bc333cdc975f25df2b5886455ef52d6e41331d",
      "c37c426fefe34411c1e98352d6d59921cffaf84a2421b8ed2a0576b72d47c73e"}},
    {4096,
     240,
     "6291875a9a434a1c857fc7f2c10c2b6360a23c929a8ffee187ee94053dfb8139",
     "340152ce2b0974a44f10d9035d6400bdb1efae74546b6c2c0cfcec27a47b707d",
     {15'360, 7'864'320, 965'872},
     {1, 9, 120},
     {"ea5ff922e183fa451675adc75f6d57e839f1e0c9cd5a3b50f994c9bf58b3f71d",
      "71f3fe4fe2be8cf39113a4ee953b0c472e3c61ef82ab236d4efbc87068bba4ce",
      "65d22475639f0adc96a380e7a7dfd25c3c28bc580e61e3ba33b44e77f8ecb162"}},
    {16384,
     192,
     "3e3d22ba5a48ca3fa2a35c67a8e880382ae95d52ce7c17ceed1cd8bce8c75bc1",
     "c286da302372445402cbcb13ae60bf0f3275702e8ff6a74487b19652457e88b0",
     {82'944, 40'882'176, 4'182'400},
     {1, 11, 120},
     {"c73b9d2bc38f3603051127ad64d745d0801ac98f864474feee3be139eebc8e63",
      "d7fdc5a5396ebc23e4c3cd8d54270ca2dc3d6a3a071f466cafe41b19d5003a7f",
      "8c401d1a02029c289dd749f800d3506b3575961aed0b37b90af42ea2a52af925"}},
    {65536,
     160,
     "400bd97df95b3aafb0943d80decd76fabad23a92e2a2fcc99e2d62d8aebf3e24",
     "edb0d70a9a4af3dde8e12853d5af290c0dbc631ec45a84a4c1f4c2d377c003d4",
     {358'400, 178'216'960, 17'027'216},
     {1, 13, 120},
     {"87edd8ceb320930ac5e5a611ff72c6342b16588d47087300cf4671f1401f4d2a",
      "d67f82a48a58c33c51b998590fb6213288c9af904f879499229035898f2609ab",
      "682fdafedeb9619883f168cab20f7ce1ff9a48ae73afe9da7c05e13a951363a8"}},
}};

void check_residues(const Official& official) {
  CAPTURE(official.neurons);
  const std::vector<std::uint16_t> m = radix_net_residues(official.neurons, official.groups);
  CHECK(sha256(bytes_of(m)) == official.residues);
}

void check_files(const Official& official) {
  CAPTURE(official.neurons);
  const FeedForward network = radix_net(official.neurons, 120);
  for (std::size_t i = 0; i < official.layers.size(); ++i) {
    CAPTURE(official.layers[i]);
    CHECK(sha256(layer_tsv(network.layer(official.layers[i] - 1).weights)) == official.files[i]);
  }
}

void check_120_layers(const Official& official) {
  CAPTURE(official.neurons);
  const FeedForward network = radix_net(official.neurons, 120);
  Sha256 hash;
  std::array<std::int64_t, 3> sums{};
  for (int l = 0; l < network.layers(); ++l) {
    SparseMatrix weights = network.layer(l).weights;
    const StagedLayer staged = stage({weights, {0}}, {});
    sums[0] += staged.chunks();
    sums[1] += static_cast<std::int64_t>(staged.map.size());
    sums[2] += staged.slice_rows();
    for (std::int32_t& column : weights.column) {
      ++column;
    }
    hash.add(bytes_of(weights.column));
  }
  CHECK(hash.hex() == official.inputs);
  CHECK(sums == official.champion);
}

}  // namespace

TEST_CASE("official networks of 1024 and 4096 neurons come out bit by bit", "[feed_forward][fast]") {
  for (const Official& official : {kOfficial[0], kOfficial[1]}) {
    check_residues(official);
    check_files(official);
  }
  check_120_layers(kOfficial[0]);
}

TEST_CASE("official networks of 16384 and 65536 neurons come out bit by bit", "[feed_forward][slow]") {
  check_120_layers(kOfficial[1]);
  for (const int size : {2, 3}) {
    check_residues(kOfficial[size]);
    check_files(kOfficial[size]);
    if (is_chosen(size, 2)) {
      check_120_layers(kOfficial[size]);
    }
  }
}

TEST_CASE("an official layer has 32 weights of 1/16 in and out of each neuron, and its size's bias and clip",
          "[feed_forward][fast]") {
  for (const auto& [neurons, bias] : {std::pair{1024, -0.3F}, {4096, -0.35F}, {16384, -0.4F}, {65536, -0.45F}}) {
    const FeedForward network = radix_net(neurons, 1);
    const SparseLayer layer = network.layer(0);
    check(layer);
    CHECK(network.clip == 32);
    CHECK(layer.bias == std::vector{bias});
    CHECK(std::ranges::all_of(layer.weights.value, [](float value) { return value == 0.0625F; }));
    CHECK(layer.weights.nnz() == 32 * neurons);
    const SparseMatrix back = transposed(layer.weights);
    for (int i = 0; i < neurons; ++i) {
      REQUIRE(back.row_begin[i + 1] - back.row_begin[i] == 32);
    }
  }
}

TEST_CASE("networks of the challenge's kind have 32 to 2^20 neurons", "[feed_forward][fast]") {
  for (const int neurons : {32, 128, 2048}) {
    const FeedForward network = radix_net(neurons, 9);
    for (int l = 0; l < network.layers(); ++l) {
      const SparseLayer layer = network.layer(l);
      check(layer);
      CHECK(layer.weights.rows == neurons);
    }
  }
  for (const int neurons : {-1, 0, 16, 1000, 1 << 21}) {
    CHECK_THROWS_AS(radix_net(neurons, 1), InputError);
  }
  CHECK_THROWS_AS(radix_net(1024, 0), InputError);
}
