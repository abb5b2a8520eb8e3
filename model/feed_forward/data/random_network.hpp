// SPDX-License-Identifier: Apache-2.0
// Networks drawn at random, and networks changed at random: the same for a seed on every machine, each layer alone.
#pragma once

#include "model/feed_forward/network.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace onchip {

struct Range {
  double low = 0, high = 0;  // uniform on [low, high)
};

// Weights of a row: power_law has P(d) in proportion to d^-2 on [low, high].
enum class DegreeLaw : std::uint8_t { uniform, power_law };
inline constexpr std::array<std::string_view, 2> kDegreeLaws{"uniform", "power-law"};
struct Degrees {
  DegreeLaw law = DegreeLaw::uniform;
  int low = 32, high = 32;
};

inline constexpr int kMostDrawn = 1 << 27;  // weights of a layer, which take 1 GiB

struct RandomNetwork {
  std::vector<int> neurons;  // [layers + 1]
  Degrees degrees;           // no row has more weights than the layer has inputs
  int block_rows = 1;        // so many rows, anywhere in the layer, have the same columns
  Range values{0.0625, 0.0625};
  double negative = 0;     // share of the weights, whose sign is turned
  Range bias{-0.3, -0.3};  // of each neuron
  float clip = 32;
  std::uint64_t seed = 1;
};
// Throws InputError naming the field that is out of range.
FeedForward random_network(const RandomNetwork& drawn);

// What keeps a network's size and, but for `moved`, its blocks.
struct Perturbation {
  bool shuffle = false;         // the neurons of each layer; the input's stay
  std::optional<Range> values;  // of each weight, anew
  std::optional<Range> bias;    // of each neuron, anew
  double moved = 0;             // share of the weights that go to other columns of their rows
  std::uint64_t seed = 1;
};
FeedForward perturbed(FeedForward network, const Perturbation& perturbation);

}  // namespace onchip
