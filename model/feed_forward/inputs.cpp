// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/inputs.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>

namespace onchip {
namespace {

[[noreturn]] void refuse(std::int64_t image, const std::string& problem) {
  throw InputError("image " + std::to_string(image) + " " + problem);
}

void check(const IndexLists& lists) {
  if (lists.begin.empty() || lists.begin.front() != 0 || lists.begin.back() != lists.nnz() ||
      !std::ranges::is_sorted(lists.begin) || (!lists.value.empty() && lists.value.size() != lists.neuron.size())) {
    throw InputError("the lists of the images do not match their " + std::to_string(lists.nnz()) + " indices");
  }
  for (std::size_t image = 0; image + 1 < lists.begin.size(); ++image) {
    for (std::int64_t i = lists.begin[image]; i < lists.begin[image + 1]; ++i) {
      const std::int32_t neuron = lists.neuron[i];
      if (neuron < 0 || neuron >= lists.neurons) {
        refuse(image, "has neuron " + std::to_string(neuron) + "; the network's inputs are 0 to " +
                          std::to_string(lists.neurons - 1));
      }
      if (i > lists.begin[image] && neuron <= lists.neuron[i - 1]) {
        refuse(image, "has neuron " + std::to_string(neuron) + " after " + std::to_string(lists.neuron[i - 1]) +
                          "; expected each once, ascending");
      }
    }
  }
}

void check(const Bitmaps& bitmaps) {
  if (bitmaps.words.size() != static_cast<std::size_t>(bitmaps.images) * bitmaps.words_per_image()) {
    throw InputError("the bitmaps have " + std::to_string(bitmaps.words.size()) + " words; expected " +
                     std::to_string(bitmaps.words_per_image()) + " of each of " + std::to_string(bitmaps.images) +
                     " images");
  }
  if (const int used = bitmaps.neurons % 32; used != 0) {
    for (int image = 0; image < bitmaps.images; ++image) {
      if (const std::uint32_t beyond = bitmaps.of(image).back() >> used; beyond != 0) {
        refuse(image, "has neuron " + std::to_string(bitmaps.neurons + std::countr_zero(beyond)) +
                          "; the network's inputs are 0 to " + std::to_string(bitmaps.neurons - 1));
      }
    }
  }
}

}  // namespace

std::int64_t Bitmaps::nnz() const {
  std::int64_t count = 0;
  for (const std::uint32_t word : words) {
    count += std::popcount(word);
  }
  return count;
}

int image_count(const Inputs& inputs) {
  const auto* bitmaps = std::get_if<Bitmaps>(&inputs);
  return bitmaps ? bitmaps->images : static_cast<int>(std::get<IndexLists>(inputs).begin.size()) - 1;
}

int neuron_count(const Inputs& inputs) {
  return std::visit([](const auto& images) { return images.neurons; }, inputs);
}

Inputs some_of(const Inputs& inputs, int first, int count) {
  const auto part = [](const auto& of, std::int64_t begin, std::int64_t end) {
    return std::decay_t<decltype(of)>(of.begin() + begin, of.begin() + end);
  };
  if (const auto* bitmaps = std::get_if<Bitmaps>(&inputs)) {
    const std::int64_t words = bitmaps->words_per_image();
    return Bitmaps{count, bitmaps->neurons, part(bitmaps->words, words * first, words * (std::int64_t{first} + count))};
  }
  const auto& lists = std::get<IndexLists>(inputs);
  const std::int64_t begin = lists.begin[first], end = lists.begin[first + count];
  IndexLists some{lists.neurons, part(lists.begin, first, first + count + 1), part(lists.neuron, begin, end), {}};
  for (std::int64_t& of_image : some.begin) {
    of_image -= begin;
  }
  if (!lists.value.empty()) {
    some.value = part(lists.value, begin, end);
  }
  return some;
}

Inputs images_of(const Inputs& inputs, std::span<const int> numbers) {
  if (const auto* bitmaps = std::get_if<Bitmaps>(&inputs)) {
    Bitmaps images{static_cast<int>(numbers.size()), bitmaps->neurons, {}};
    for (const int number : numbers) {
      const auto words = bitmaps->of(number);
      images.words.insert(images.words.end(), words.begin(), words.end());
    }
    return images;
  }
  IndexLists images{neuron_count(inputs), {0}, {}, {}};
  for (const int number : numbers) {
    for_each_feature(inputs, number, [&](int neuron, float value) {
      images.neuron.push_back(neuron);
      images.value.push_back(value);
    });
    images.begin.push_back(images.nnz());
  }
  return images;
}

bool is_binary(const Inputs& inputs) {
  const auto* lists = std::get_if<IndexLists>(&inputs);
  return lists == nullptr || std::ranges::all_of(lists->value, [](float value) { return value == 1; });
}

Bitmaps to_bitmaps(const IndexLists& lists) {
  check(lists);
  Bitmaps bitmaps{static_cast<int>(lists.begin.size()) - 1, lists.neurons, {}};
  bitmaps.words.resize(static_cast<std::size_t>(bitmaps.images) * bitmaps.words_per_image());
  for (int image = 0; image < bitmaps.images; ++image) {
    for (std::int64_t i = lists.begin[image]; i < lists.begin[image + 1]; ++i) {
      if (!lists.value.empty() && lists.value[i] != 1) {
        refuse(image, "has the value " + std::to_string(lists.value[i]) + " at neuron " +
                          std::to_string(lists.neuron[i]) + "; a bitmap holds 0 and 1");
      }
      bitmaps.words[static_cast<std::size_t>(image) * bitmaps.words_per_image() + lists.neuron[i] / 32] |=
          std::uint32_t{1} << lists.neuron[i] % 32;
    }
  }
  return bitmaps;
}

IndexLists to_lists(const Bitmaps& bitmaps) {
  check(bitmaps);
  IndexLists lists{bitmaps.neurons, {0}, {}, {}};
  lists.neuron.reserve(static_cast<std::size_t>(bitmaps.nnz()));
  for (int image = 0; image < bitmaps.images; ++image) {
    for_each_feature(bitmaps, image, [&](int neuron, float) { lists.neuron.push_back(neuron); });
    lists.begin.push_back(lists.nnz());
  }
  return lists;
}

void check(const Inputs& inputs, int neurons) {
  std::visit([](const auto& images) { check(images); }, inputs);
  if (neuron_count(inputs) != neurons) {
    throw InputError("the images are of " + std::to_string(neuron_count(inputs)) + " neurons, but the network has " +
                     std::to_string(neurons) + " inputs");
  }
}

}  // namespace onchip
