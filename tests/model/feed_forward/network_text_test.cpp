// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/equal_rows.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace onchip;

namespace {

std::string text_error(std::string_view text) {
  return error_of([&] { read_network(text); });
}

std::vector<std::int64_t> degrees_of(const SparseMatrix& weights) {
  std::vector<std::int64_t> degrees;
  for (int row = 0; row < weights.rows; ++row) {
    degrees.push_back(weights.row_begin[row + 1] - weights.row_begin[row]);
  }
  return degrees;
}

}  // namespace

TEST_CASE("the challenge's networks are named by neurons and layers", "[feed_forward][fast]") {
  const FeedForward network = read_network("spdnn:1024x120");
  CHECK(network.name == "spdnn:1024x120");
  CHECK(network.layers() == 120);
  CHECK(network.clip == 32);
  CHECK(network.layer(119).weights.nnz() == 32768);
  for (const auto* wrong : {"spdnn:", "spdnn:1024", "spdnn:1024x", "spdnn:1024x120y", "spdnn:x120"}) {
    CHECK(text_error(wrong).find("expected spdnn:NEURONSxLAYERS, like spdnn:1024x120") == 0);
  }
  CHECK(says(text_error("spdnn:1000x120"), "32, 64, 128, ..."));
  CHECK(says(text_error("spdnn:1024x2000000000"), "at most 1000000 layers"));
}

TEST_CASE("a random network is as its keys say", "[feed_forward][fast]") {
  const FeedForward network = read_network(
      "random:neurons=300-2500-400,degree=power-law:1..2000,values=uniform:0.5..1,signs=0.25,bias=uniform:-0.4..-0.2,"
      "clip=none,seed=7");
  CHECK(network.neurons == std::vector{300, 2500, 400});
  CHECK(network.clip == kNoClip);
  const SparseLayer layer = network.layer(1);
  check(layer);
  const std::vector<std::int64_t> degrees = degrees_of(layer.weights);
  CHECK(*std::ranges::min_element(degrees) == 1);
  CHECK(*std::ranges::max_element(degrees) > 50);
  // Half of the rows of d^-2 have one weight.
  const auto ones = std::ranges::count(degrees, 1);
  CHECK(ones > 160);
  CHECK(ones < 240);
  const auto negative = std::ranges::count_if(layer.weights.value, [](float value) { return value < 0; });
  CHECK(static_cast<double>(negative) > 0.15 * static_cast<double>(layer.weights.nnz()));
  CHECK(static_cast<double>(negative) < 0.35 * static_cast<double>(layer.weights.nnz()));
  CHECK(std::ranges::all_of(layer.weights.value, [](float v) { return std::abs(v) >= 0.5 && std::abs(v) <= 1; }));
  CHECK(layer.bias.size() == 400);
  CHECK(std::ranges::all_of(layer.bias, [](float bias) { return bias >= -0.4F && bias <= -0.2F; }));
  CHECK(network.layer(1) == layer);

  const SparseLayer blocks = read_network("random:neurons=512,layers=3,blocks=16,degree=20").layer(2);
  const RowGroups groups = equal_rows(blocks.weights);
  CHECK(groups.count() == 32);
  CHECK(blocks.weights.nnz() == 512 * 20);
  CHECK(read_network("random:neurons=16,degree=uniform:0..64,layers=2").layer(0).weights.nnz() <= 256);
  CHECK(read_network("random:neurons=1,degree=0").layer(0).weights.nnz() == 0);
  CHECK(read_network("random:seed=1").layer(0) != read_network("random:seed=2").layer(0));
}

TEST_CASE("a network that is shuffled has the categories of the one that is not", "[feed_forward][fast]") {
  const Inputs digits = read_images("digits:200,seed=3", 1024);
  const FeedForward natural = read_network("spdnn:1024x20,bias=uniform:-0.3..-0.2");
  const FeedForward shuffled = read_network("spdnn:1024x20,bias=uniform:-0.3..-0.2,shuffle=yes");
  CHECK(natural.layer(3) != shuffled.layer(3));
  const ReferenceResult a = infer_reference(natural, digits), b = infer_reference(shuffled, digits);
  CHECK(a.categories.size() == 21);
  CHECK(a.categories == b.categories);
}

TEST_CASE("a tenth of the weights is moved, within their rows", "[feed_forward][fast]") {
  const SparseMatrix before = read_network("spdnn:4096x9").layer(8).weights;
  const SparseMatrix after = read_network("spdnn:4096x9,moved=0.1,values=uniform:0.05..0.07").layer(8).weights;
  CHECK(degrees_of(before) == degrees_of(after));
  std::int64_t stayed = 0;
  for (int row = 0; row < before.rows; ++row) {
    for (const std::int32_t column : columns_of(before, row)) {
      stayed += std::ranges::binary_search(columns_of(after, row), column);
    }
  }
  CHECK(std::abs(static_cast<double>(stayed) / static_cast<double>(before.nnz()) - 0.9) < 0.01);
  std::vector<float> values = after.value;
  std::ranges::sort(values);
  CHECK(std::unique(values.begin(), values.end()) - values.begin() > 100000);
  CHECK(read_network("random:neurons=4,degree=4,moved=1").layer(0).weights.nnz() == 16);
}

TEST_CASE("what a network's text says wrongly is named", "[feed_forward][fast]") {
  CHECK(text_error("spdnn:1024x120,sed=1") == "unknown key 'sed' of a network; did you mean 'seed'?");
  CHECK(text_error("spdnn:1024x120,degree=3") ==
        "the key 'degree' is not for this network; its keys: values, bias, clip, logits, moved, shuffle, precision, "
        "seed");
  CHECK(text_error("random:seed") == "expected seed=VALUE; found 'seed'");
  CHECK(text_error("random:seed=1,seed=2") == "the key 'seed' is there twice");
  CHECK(text_error("random:degree=powerlaw:1..9") ==
        "unknown law of degrees 'powerlaw'; did you mean 'power-law'?; expected degree=32, uniform:0..64 or "
        "power-law:1..2000");
  CHECK(text_error("random:degree=power-law:0..9") ==
        "expected degree=32, uniform:0..64 or power-law:1..2000; found 'power-law:0..9'");
  CHECK(text_error("random:degree=9..1").find("expected degree=") == 0);
  CHECK(text_error("random:neurons=784-") == "expected neurons=1024 or 784-300-10; found '784-'");
  CHECK(text_error("random:neurons=8-9,layers=2") == "neurons=8-... names 1 layers, but layers=2");
  CHECK(text_error("random:signs=2").find("expected signs=positive, mixed or a share to 1") == 0);
  CHECK(text_error("random:values=a").find("expected values=A or uniform:A..B") == 0);
  CHECK(text_error("random:values=nan").find("expected values=") == 0);
  CHECK(text_error("spdnn:64x1,shuffle=1") == "expected shuffle=yes or no; found '1'");
  CHECK(text_error("spdnn:64x1,moved=1.5").find("expected moved=a share from 0 to 1") == 0);
  CHECK(text_error("random:precision=fp4") == "expected precision=fp16, bf16, fp32 or fp8; found 'fp4'");
  CHECK_THROWS_AS(read_network("random:values=1e6,precision=fp16").layer(0), InputError);
  CHECK(says(text_error("random:neurons=1048576,degree=1048576"), "at most 134217728 weights"));
  CHECK(says(error_of([] { read_images("digits:16777216", 65536); }), "expected at most 4 GiB"));
  CHECK(says(text_error("/nowhere/at/all"), "cannot read the file"));
  CHECK_THROWS_AS(read_images("digits:", 1024), InputError);
  CHECK_THROWS_AS(read_images("digits:5,sed=1", 1024), InputError);
  CHECK_THROWS_AS(read_images("digits:-5", 1024), InputError);
  CHECK_THROWS_AS(read_images("/nowhere.tsv", 1024), InputError);
}
