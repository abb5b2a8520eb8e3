// SPDX-License-Identifier: Apache-2.0
// The images that enter a feed-forward network, never expanded: bitmaps where each feature is 0 or 1, lists of the
// non-zero ones otherwise.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace onchip {

struct Bitmaps {
  int images = 0;
  int neurons = 0;
  std::vector<std::uint32_t> words;  // [images, words_per_image()]: bit i % 32 of word i / 32 is neuron i

  int words_per_image() const { return (neurons + 31) / 32; }
  std::span<const std::uint32_t> of(int image) const {
    return std::span(words).subspan(static_cast<std::size_t>(image) * words_per_image(), words_per_image());
  }
  std::int64_t nnz() const;
  friend bool operator==(const Bitmaps&, const Bitmaps&) = default;
};

struct IndexLists {
  int neurons = 0;
  std::vector<std::int64_t> begin;   // [images + 1]
  std::vector<std::int32_t> neuron;  // [nnz], ascending within an image
  std::vector<float> value;          // [nnz]; empty: all are 1

  std::int64_t nnz() const { return static_cast<std::int64_t>(neuron.size()); }
  friend bool operator==(const IndexLists&, const IndexLists&) = default;
};

using Inputs = std::variant<Bitmaps, IndexLists>;

int image_count(const Inputs& inputs);
int neuron_count(const Inputs& inputs);

// What one image has: calls take(neuron, value), neurons ascending.
template <typename Take>
void for_each_feature(const Bitmaps& bitmaps, int image, Take&& take) {
  const std::span<const std::uint32_t> words = bitmaps.of(image);
  for (std::size_t w = 0; w < words.size(); ++w) {
    for (std::uint32_t left = words[w]; left != 0; left &= left - 1) {
      take(static_cast<int>(w) * 32 + std::countr_zero(left), 1.0F);
    }
  }
}
template <typename Take>
void for_each_feature(const IndexLists& lists, int image, Take&& take) {
  for (std::int64_t i = lists.begin[image]; i < lists.begin[image + 1]; ++i) {
    take(static_cast<int>(lists.neuron[i]), lists.value.empty() ? 1.0F : lists.value[i]);
  }
}
template <typename Take>
void for_each_feature(const Inputs& inputs, int image, Take&& take) {
  std::visit([&](const auto& images) { for_each_feature(images, image, take); }, inputs);
}

// Images first to first + count - 1; or those of these numbers.
Inputs some_of(const Inputs& inputs, int first, int count);
Inputs images_of(const Inputs& inputs, std::span<const int> numbers);
// Whether all values of lists are 1, as bitmaps have them.
bool is_binary(const Inputs& inputs);

// Throw InputError for values other than 1, or neurons outside the network.
Bitmaps to_bitmaps(const IndexLists& lists);
IndexLists to_lists(const Bitmaps& bitmaps);

// Throws InputError if the images are not well formed, or not of a network with `neurons` inputs: "image 17 has neuron
// 1024; the network's inputs are 0 to 1023".
void check(const Inputs& inputs, int neurons);

}  // namespace onchip
