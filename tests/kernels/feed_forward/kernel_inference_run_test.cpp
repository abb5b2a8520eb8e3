// SPDX-License-Identifier: Apache-2.0
#include "kernels/api/kernel_inference.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Inputs without NaN, whose bits may differ.
IndexLists lists_of(int count, int neurons) {
  IndexLists images = random_lists(count, neurons, 3);
  std::ranges::replace_if(
      images.value, [](float value) { return !(value > -2 && value < 2); }, 0.75F);
  return images;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), sizeof(float) * a.size()) == 0;
}

}  // namespace

TEST_CASE("a network on the device has the reference's categories and, bit by bit, its features", "[gpu]") {
  for (const auto& [text, layers] :
       {std::pair("spdnn:1024x40", std::vector{0, 1, 7, 40}), std::pair("spdnn:4096x12", std::vector{3, 12}),
        std::pair("random:neurons=300-1000-77,degree=power-law:1..90,values=uniform:-1..1,clip=none",
                  std::vector{0, 1, 2})}) {
    const FeedForward network = read_network(text);
    const auto by_kernels = kernel_inference(network, device_target());
    const auto by_reference = reference_inference(network);
    INFO(text << ": " << by_kernels->plan());
    const int neurons = network.neurons.front();
    const Bitmaps bitmaps =
        std::string(text).starts_with("spdnn") ? synthetic_digits(neurons, 0, 2000) : random_images(2000, neurons, 1);
    for (const Inputs& images : {Inputs(bitmaps), Inputs(lists_of(500, neurons))}) {
      CHECK(by_kernels->infer(images).categories == by_reference->infer(images).categories);
      for (const int l : layers) {
        CHECK(same_bits(by_kernels->features(images, l), by_reference->features(images, l)));
      }
    }
  }
}

TEST_CASE("10^6 images go through the device, at once and in batches", "[gpu]") {
  const FeedForward network = read_network("random:neurons=64,layers=9,degree=8,values=uniform:-1..1,bias=-0.2");
  const Bitmaps images = random_images(1'000'000, 64, 5);
  const std::vector<int> categories = reference_inference(network)->infer(images).categories;
  InferenceTarget target = device_target();
  CHECK(kernel_inference(network, target)->infer(images).categories == categories);
  target.available_bytes = [] { return std::size_t{50'000'000}; };
  CHECK(kernel_inference(network, target)->infer(images).categories == categories);
}

TEST_CASE("300 networks that nobody chose have the categories of the reference, again and again", "[gpu]") {
  for (int seed = 1; seed <= 300; ++seed) {
    const std::string text = random_network_text(seed, seed % 10 == 0 ? 5000 : 1500, 12);
    INFO(text);
    const FeedForward network = read_network(text);
    const auto by_kernels = kernel_inference(network, device_target());
    INFO(by_kernels->plan());
    const int count = seed % 7 == 0 ? seed % 2 : 1000;
    const Bitmaps images = random_images(count, network.neurons.front(), static_cast<std::uint64_t>(seed));
    const std::vector<int> categories = reference_inference(network)->infer(images).categories;
    CHECK(by_kernels->infer(images).categories == categories);
    CHECK(by_kernels->infer(images).categories == categories);
  }
}

}  // namespace onchip
