// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/batched_inference.hpp"

#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

namespace onchip {
namespace {

std::size_t needed_bytes(const KernelProgram& program) {
  constexpr std::size_t kBeside = 1024;  // of each array: alignment
  std::size_t bytes = 0;
  for (const ProgramArray& array : program.arrays) {
    bytes += array.bytes + kBeside;
  }
  return bytes;
}

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

void add_part(Inference& sum, const Inference& part, const std::function<int(int)>& number_of) {
  std::ranges::transform(part.categories, std::back_inserter(sum.categories), number_of);
  sum.entering.resize(std::max(sum.entering.size(), part.entering.size()));
  for (std::size_t phase = 0; phase < part.entering.size(); ++phase) {
    sum.entering[phase] += part.entering[phase];
  }
  sum.undecided_narrow += part.undecided_narrow;
  sum.undecided_wide += part.undecided_wide;
  sum.kept += part.kept;
  sum.wall_ms += part.wall_ms;
}

int images_at_once(const ProgramOfImages& program, std::size_t available_bytes) {
  constexpr int kWord = 32;  // images have a bit in words, so that bytes are linear in words of images
  constexpr std::size_t kMost = std::numeric_limits<int>::max() / kWord;
  if (const std::size_t one = needed_bytes(program(1)); one > available_bytes) {
    throw DoesNotFit("the network with one image needs " + std::to_string(one) + " bytes of device memory; " +
                     std::to_string(available_bytes) +
                     " are available; a network of fewer weights, or a device with "
                     "more memory, would fit");
  }
  const std::size_t word = needed_bytes(program(kWord)), more = needed_bytes(program(2 * kWord)) - word;
  return word > available_bytes ? 1 : static_cast<int>(std::min(kMost, 1 + (available_bytes - word) / more)) * kWord;
}

void BatchedInference::load(int images) {
  if (executor_ && executor_->most_images() >= std::min(images, most_images_)) {
    return;
  }
  executor_.reset();
  most_images_ = images_at_once(program_, target_.available_bytes());
  // With some room, so that a few more are taken without loading the program again.
  const std::int64_t wanted = std::int64_t{images} + images / 4;
  executor_ = target_.load(program_(static_cast<int>(std::min<std::int64_t>(wanted, most_images_))));
}

Inference BatchedInference::infer(const Inputs& images, std::vector<float>* features) {
  const int count = image_count(images);
  Inference sum;
  load(std::max(count, 1));
  const int at_once = executor_->most_images();
  for (std::int64_t first = 0; first < count; first += at_once) {
    const auto begin = static_cast<int>(first);
    const int taken = std::min(at_once, count - begin);
    if (taken == count) {
      executor_->upload(images);
    } else {
      executor_->upload(some_of(images, begin, taken));
    }
    add_part(sum, executor_->infer(), [&](int image) { return begin + image; });
    if (features != nullptr) {
      const std::vector<float> batch = executor_->features();
      features->insert(features->end(), batch.begin(), batch.end());
    }
  }
  return sum;
}

}  // namespace onchip
