// SPDX-License-Identifier: Apache-2.0
// What an inference does, as a program that any family of plans makes: where images come in, and what results mean.
#pragma once

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/kernel_program.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/feed_forward/network_inference.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace onchip {

struct InferenceProgram : KernelProgram {
  int most_images = 0;  // at once
  int neurons = 0;      // of the input
  // Arrays. Of the images, bitmaps or lists; -1: none.
  int bitmaps = -1;                                        // [most_images, bitmap_words(neurons)]
  int list_begin = -1, list_neuron = -1, list_value = -1;  // u64 [most_images + 1]; u32, fp32 [most_images * neurons]
  int image_count = 0;                                     // one word
  // Of a program that keeps features after the last layer: fp32 [position, feature_neurons]; u32 [position]: the image,
  // of images alive that are kept rather than marked. Without, no image is dropped, and positions are images. -1: none.
  int features = -1, feature_ids = -1;
  int feature_neurons = 0;
  std::function<Inference(std::span<const std::uint32_t> results)> read =
      {};  // entering: of the phases behind the first
};

// Words of a bit for each image, and the images whose bits are set.
constexpr std::size_t bit_words(int images) {
  return (static_cast<std::size_t>(images) + 31) / 32;
}
inline std::vector<int> images_set(std::span<const std::uint32_t> words) {
  const auto add = [](std::size_t sum, std::uint32_t word) { return sum + std::popcount(word); };
  std::vector<int> images(std::accumulate(words.begin(), words.end(), std::size_t{0}, add));
  auto next = images.begin();
  for (std::size_t word = 0; word < words.size(); ++word) {
    for (std::uint32_t left = words[word]; left != 0; left &= left - 1) {
      *next++ = static_cast<int>(32 * word) + std::countr_zero(left);
    }
  }
  return images;
}

// Rows of whole 16 bytes, as kernels read them.
constexpr int bitmap_words(int neurons) {
  return (neurons + 127) / 128 * 4;
}

// The kernel that lists the images that are alive (feed_forward_compact.cu).
inline constexpr int kCompactThreads = 256;
inline CompileRequest compact_request(const std::string& architecture) {
  return {"feed_forward_compact", kFeedForwardCompactSource, architecture, {}};
}

}  // namespace onchip
