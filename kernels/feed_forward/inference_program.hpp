// SPDX-License-Identifier: Apache-2.0
// What an inference does, as a program that any family of plans makes: where images come in, and what results mean.
#pragma once

#include "kernels/runtime/kernel_program.hpp"
#include "model/feed_forward/network_inference.hpp"

#include <cstdint>
#include <functional>
#include <span>

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

// Rows of whole 16 bytes, as kernels read them.
constexpr int bitmap_words(int neurons) {
  return (neurons + 127) / 128 * 4;
}

}  // namespace onchip
