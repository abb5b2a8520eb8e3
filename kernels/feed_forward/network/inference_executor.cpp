// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/inference_executor.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

namespace onchip {
namespace {

Bitmaps as_bitmaps(const Inputs& images) {
  return std::holds_alternative<Bitmaps>(images) ? std::get<Bitmaps>(images) : to_bitmaps(std::get<IndexLists>(images));
}

IndexLists as_lists(const Inputs& images) {
  return std::holds_alternative<IndexLists>(images) ? std::get<IndexLists>(images)
                                                    : to_lists(std::get<Bitmaps>(images));
}

// Rows of whole 16 bytes.
std::vector<std::uint32_t> padded(const Bitmaps& images) {
  const int words = bitmap_words(images.neurons);
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(words) * images.images);
  for (int i = 0; i < images.images; ++i) {
    std::ranges::copy(images.of(i), rows.begin() + static_cast<std::ptrdiff_t>(words) * i);
  }
  return rows;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

void InferenceExecutor::upload(const Inputs& images) {
  check(images, program_.neurons);
  const int count = image_count(images);
  if (count > program_.most_images) {
    throw InputError("there are " + std::to_string(count) + " images; at most " + std::to_string(program_.most_images) +
                     " are taken at once");
  }
  if (program_.list_begin < 0) {
    executor_->write(program_.bitmaps, bytes_of(padded(as_bitmaps(images))));
  } else {
    IndexLists lists = as_lists(images);
    if (lists.value.empty()) {
      lists.value.assign(lists.neuron.size(), 1.0F);
    }
    executor_->write(program_.list_begin, bytes_of(lists.begin));
    executor_->write(program_.list_neuron, bytes_of(lists.neuron));
    executor_->write(program_.list_value, bytes_of(lists.value));
  }
  executor_->write(program_.image_count, bytes_of(std::array{static_cast<std::uint32_t>(count)}));
  images_ = count;
  kept_ = 0;
}

Inference InferenceExecutor::infer() {
  const auto begin = std::chrono::steady_clock::now();
  Inference inference = program_.read(executor_->run());
  inference.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  inference.entering.insert(inference.entering.begin(), images_);
  kept_ = program_.feature_ids < 0 ? images_ : inference.kept;
  return inference;
}

std::vector<float> InferenceExecutor::features() const {
  if (program_.features < 0) {
    throw InputError("the program keeps no features");
  }
  const auto neurons = static_cast<std::size_t>(program_.feature_neurons);
  std::vector<float> kept(neurons * kept_);
  executor_->read(program_.features, std::as_writable_bytes(std::span(kept)));
  if (program_.feature_ids < 0) {
    return kept;
  }
  std::vector<std::uint32_t> ids(static_cast<std::size_t>(kept_));
  executor_->read(program_.feature_ids, std::as_writable_bytes(std::span(ids)));
  std::vector<float> all(neurons * images_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::ranges::copy(std::span(kept).subspan(i * neurons, neurons),
                      all.begin() + static_cast<std::ptrdiff_t>(ids[i] * neurons));
  }
  return all;
}

}  // namespace onchip
