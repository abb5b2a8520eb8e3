// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/batched_inference.hpp"

#include "kernels/runtime/device.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace onchip {
namespace {

std::size_t bytes_of(const KernelProgram& program) {
  constexpr std::size_t kBeside = 1024;  // of each array: alignment
  std::size_t bytes = 0;
  for (const ProgramArray& array : program.arrays) {
    bytes += array.bytes + kBeside;
  }
  return bytes;
}

void add(Inference& sum, const Inference& batch, int first) {
  for (const int image : batch.categories) {
    sum.categories.push_back(first + image);
  }
  sum.entering.resize(batch.entering.size());
  std::ranges::transform(sum.entering, batch.entering, sum.entering.begin(), std::plus<>());
  sum.open_narrow += batch.open_narrow;
  sum.open_wide += batch.open_wide;
  sum.kept += batch.kept;
  sum.wall_ms += batch.wall_ms;
}

}  // namespace

int images_at_once(const ProgramOfImages& program, std::size_t available_bytes) {
  constexpr int kWord = 32;  // images have a bit in words, so that bytes are linear in words of images
  constexpr std::size_t kMost = std::numeric_limits<int>::max() / kWord;
  if (const std::size_t one = bytes_of(program(1)); one > available_bytes) {
    throw DoesNotFit("the network with one image needs " + std::to_string(one) + " bytes of device memory; " +
                     std::to_string(available_bytes) +
                     " are available; a network of fewer weights, or a device with "
                     "more memory, would fit");
  }
  const std::size_t word = bytes_of(program(kWord)), more = bytes_of(program(2 * kWord)) - word;
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
    add(sum, executor_->infer(), begin);
    if (features != nullptr) {
      const std::vector<float> batch = executor_->features();
      features->insert(features->end(), batch.begin(), batch.end());
    }
  }
  return sum;
}

}  // namespace onchip
