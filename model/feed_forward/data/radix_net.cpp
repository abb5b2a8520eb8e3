// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/data/radix_net.hpp"

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <random>
#include <string>

namespace onchip {
namespace {

constexpr int kCopies = 16;  // of each neuron: blocks of ones are 16 x 16
constexpr int kPublishedLayers = 1920;
constexpr std::array kPublished{1024, 4096, 16384, 65536};

int ring_size(int neurons) {
  return neurons / kCopies;
}
int layers_of_group(int neurons) {
  return std::countr_zero(static_cast<unsigned>(ring_size(neurons)));
}
int groups_of(int neurons, int layers) {
  return (layers + layers_of_group(neurons) - 1) / layers_of_group(neurons);
}

// Doubles that the stream has given to the networks before.
unsigned long long first_draw(int neurons) {
  unsigned long long draws = 0;
  for (const int before : kPublished) {
    if (before == neurons) {
      return draws;
    }
    draws += static_cast<unsigned long long>(groups_of(before, kPublishedLayers) - 1) * before;
  }
  return 0;
}

SparseLayer radix_layer(int neurons, int l, std::span<const std::uint16_t> residues, float bias) {
  const int ring = ring_size(neurons), stride = 1 << l % layers_of_group(neurons);
  std::vector<std::int32_t> members(neurons);  // [ring, kCopies]: the inputs of a residue, ascending
  std::vector<int> count(ring);
  for (int i = 0; i < neurons; ++i) {
    members[residues[i] * kCopies + count[residues[i]]++] = i;
  }
  constexpr int kRow = 2 * kCopies;
  SparseMatrix weights{neurons, neurons, std::vector<std::int64_t>(neurons + 1), {}, {}};
  for (int j = 0; j <= neurons; ++j) {
    weights.row_begin[j] = std::int64_t{kRow} * j;
  }
  std::vector<std::int32_t> of_copy(static_cast<std::size_t>(kRow) * ring);  // columns, the same for each copy
  for (int j = 0; j < ring; ++j) {
    const auto near = members.begin() + j * kCopies, far = members.begin() + (j + stride) % ring * kCopies;
    std::merge(near, near + kCopies, far, far + kCopies, of_copy.begin() + std::int64_t{kRow} * j);
  }
  weights.column.reserve(of_copy.size() * kCopies);
  for (int copy = 0; copy < kCopies; ++copy) {
    weights.column.insert(weights.column.end(), of_copy.begin(), of_copy.end());
  }
  weights.value.assign(weights.column.size(), 1.0F / kCopies);
  return {std::move(weights), {bias}};
}

}  // namespace

std::vector<std::uint16_t> radix_net_residues(int neurons, int groups) {
  const int ring = ring_size(neurons);
  std::mt19937 stream;
  stream.discard(2 * first_draw(neurons));
  struct Draw {
    std::uint64_t value;  // times 2^-53 the double
    std::int32_t neuron;
  };
  std::vector<std::uint16_t> residues(static_cast<std::size_t>(groups) * neurons);
  for (int i = 0; i < neurons; ++i) {
    residues[i] = static_cast<std::uint16_t>(i % ring);
  }
  constexpr int kAtOnce = 8;  // groups drawn before they are sorted
  std::vector<std::vector<Draw>> draws(kAtOnce, std::vector<Draw>(neurons));
  for (int first = 1; first < groups; first += kAtOnce) {
    const int drawn = std::min(kAtOnce, groups - first);
    for (int d = 0; d < drawn; ++d) {
      for (int i = 0; i < neurons; ++i) {
        const std::uint64_t upper = stream() >> 5, lower = stream() >> 6;
        draws[d][i] = {upper << 26 | lower, i};
      }
    }
    parallel_for(drawn, all_cores(), [&](int d) {
      std::ranges::stable_sort(draws[d], {}, &Draw::value);
      for (int k = 0; k < neurons; ++k) {
        residues[static_cast<std::size_t>(first + d) * neurons + draws[d][k].neuron] =
            static_cast<std::uint16_t>(k % ring);
      }
    });
  }
  return residues;
}

float challenge_bias(int neurons) {
  return static_cast<float>(-0.3 - 0.025 * (std::bit_width(static_cast<unsigned>(neurons)) - 11));
}

FeedForward radix_net(int neurons, int layers) {
  if (neurons < 2 * kCopies || neurons > kMaxDimension || !std::has_single_bit(static_cast<unsigned>(neurons))) {
    throw InputError("the challenge's networks have 32, 64, 128, ... or " + std::to_string(kMaxDimension) +
                     " neurons; found " + std::to_string(neurons));
  }
  if (layers < 1) {
    throw InputError("a network has at least one layer; found " + std::to_string(layers));
  }
  const float bias = challenge_bias(neurons);
  // Drawn for the first layer that is asked for.
  struct Residues {
    std::once_flag drawn;
    std::vector<std::uint16_t> all;
  };
  const auto residues = std::make_shared<Residues>();
  return {"spdnn:" + std::to_string(neurons) + "x" + std::to_string(layers), std::vector<int>(layers + 1, neurons),
          kChallengeClip, [=](int l) {
            std::call_once(residues->drawn,
                           [&] { residues->all = radix_net_residues(neurons, groups_of(neurons, layers)); });
            const std::size_t group = static_cast<std::size_t>(l / layers_of_group(neurons));
            return radix_layer(neurons, l, std::span(residues->all).subspan(group * neurons, neurons), bias);
          }};
}

}  // namespace onchip
