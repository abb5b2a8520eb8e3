// SPDX-License-Identifier: Apache-2.0
// Networks and images that tests of feed-forward kernels share, on a GPU or interpreted.
#pragma once

#include "kernels/feed_forward/network/batched_inference.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace onchip {

// Images whose bits are set with a share of their own.
inline Bitmaps random_images(int count, int neurons, std::uint64_t seed) {
  Bitmaps images{count, neurons, {}};
  images.words.resize(static_cast<std::size_t>(count) * images.words_per_image());
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(random() % 1000) / 1000;
    for (int n = 0; n < neurons; ++n) {
      const bool set = static_cast<double>(random() % 1000) < 1000 * share;
      images.words[static_cast<std::size_t>(i) * images.words_per_image() + n / 32] |= std::uint32_t{set} << (n % 32);
    }
  }
  return images;
}

// Images with values of both signs, and some NaN and infinity in every other one.
inline IndexLists random_lists(int count, int neurons, std::uint64_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::array kOdd{std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 0.0F, -0.0F};
  IndexLists images{neurons, {0}, {}, {}};
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t share = random() % 1000;
    for (int n = 0; n < neurons; ++n) {
      if (random() % 1000 < share) {
        images.neuron.push_back(n);
        images.value.push_back(i % 2 == 0 && random() % 64 == 0
                                   ? kOdd[random() % kOdd.size()]
                                   : static_cast<float>(static_cast<double>(random() % 2000) / 1000 - 1));
      }
    }
    images.begin.push_back(images.nnz());
  }
  return images;
}

// So many runs of an inference have the categories of the reference.
inline void check_categories(InferenceExecutor& inference, const FeedForward& network, const Inputs& images,
                             int runs = 1) {
  INFO(image_count(images) << " images");
  inference.upload(images);
  const std::vector<int> reference = infer_reference(network, images).categories;
  for (int run = 0; run < runs; ++run) {
    CHECK(inference.infer().categories == reference);
  }
}

// As many random images, or lists of values, as each count says.
inline void check_counts(InferenceExecutor& inference, const FeedForward& network, std::initializer_list<int> counts,
                         std::uint64_t& seed) {
  for (const int count : counts) {
    check_categories(inference, network, random_images(count, network.neurons.front(), ++seed));
  }
}

// A random network of blocks of up to `most_layers` layers of up to `most_neurons`.
inline std::string random_blocks_network(int seed, int most_neurons, int most_layers) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  std::string text = "random:neurons=" + std::to_string(draw(1, most_neurons));
  const int layers = draw(1, most_layers);
  for (int l = 0; l < layers; ++l) {
    text += "-" + std::to_string(draw(1, most_neurons));
  }
  return text + ",degree=" + std::to_string(draw(1, 40)) + ",blocks=16,bias=-0." + std::to_string(draw(1, 9)) +
         ",seed=" + std::to_string(seed);
}

// A network that nobody chose: rows of any length, empty layers, wider and narrower ones, one neuron, sizes that divide
// nothing, blocks or none, weights of any sign and type, with a clip or not, biases that wake dead images, logits.
inline std::string random_network_text(int seed, int most_neurons, int most_layers) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  const auto neurons = [&] { return std::to_string(draw(0, 9) == 0 ? 1 : draw(1, most_neurons)); };
  const auto tenths = [&](int low, int high) {
    const int tenth = draw(low, high);
    return std::string(tenth < 0 ? "-" : "") + std::to_string(std::abs(tenth) / 10) + "." +
           std::to_string(std::abs(tenth) % 10);
  };
  std::string text = "random:neurons=" + neurons();
  for (int l = draw(1, most_layers); l > 0; --l) {
    text += "-" + neurons();
  }
  const int degrees = draw(0, 3);
  text += degrees == 0   ? ",degree=power-law:1.." + std::to_string(draw(1, 2000))
          : degrees == 1 ? ",degree=uniform:0.." + std::to_string(draw(0, 60))
                         : ",degree=" + std::to_string(draw(0, 9) == 0 ? 0 : draw(1, 40));
  text += draw(0, 1) == 0 ? ",blocks=16" : draw(0, 3) == 0 ? ",blocks=" + std::to_string(draw(2, 40)) : "";
  const int values = draw(0, 2);
  text += values == 0 ? ",values=0.0625" : values == 1 ? ",values=uniform:0.05..0.2" : ",values=uniform:-1..1";
  text += values == 0 ? "" : draw(0, 1) == 0 ? ",precision=fp16" : draw(0, 1) == 0 ? ",precision=bf16" : "";
  text += ",bias=" + (draw(0, 4) == 0 ? "uniform:-0.5..0.2" : tenths(-6, 0));
  text += draw(0, 3) == 0 ? ",clip=none" : ",clip=" + std::to_string(draw(1, 32));
  text += draw(0, 3) == 0 ? ",logits=yes" : "";
  return text + ",seed=" + std::to_string(seed);
}

}  // namespace onchip
