// SPDX-License-Identifier: Apache-2.0
// What an inference does, as a value that any family of plans makes: kernels, arrays, and launches as a graph. A GPU
// runs it as one CUDA graph (inference.hpp), an interpreter of the kernels on the host
// (experiments/measurement/interpreted_inference.hpp).
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cublas.hpp"
#include "model/feed_forward/network_inference.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

struct ProgramKernel {
  CompileRequest request;
  std::string entry;
};

struct ProgramArray {
  std::size_t bytes = 0;
  std::span<const std::byte> contents;  // what it begins with, not copied; behind it, nothing is known
};

// Copies between the host and the device, done when it returns.
using HostCopy = std::function<void(void* to, const void* from, std::size_t bytes)>;

// A launch, a library's product, a copy from the host, something that the host does, or zeros. Nodes of a stream come
// one after another.
struct ProgramNode {
  std::string label;  // "to layer 3"
  int stream = 0;
  std::vector<int> after = {};  // nodes of other streams that must have ended
  int kernel = -1;              // -1: no launch
  int blocks = 0, threads = 0;
  std::size_t shared_bytes = 0;
  bool cooperative = false;               // all blocks of threads at once
  std::vector<std::byte> arguments = {};  // the kernel's only parameter
  std::optional<DenseProduct> product = {};
  std::span<std::byte> zeros = {};
  std::span<const std::byte> from = {};  // the host's
  std::byte* to = nullptr;
  std::function<void(const HostCopy&)> host = {};  // after what comes before it, on the same stream
};

// Where each array lies.
using ArrayPlaces = std::span<std::byte* const>;

struct InferenceProgram {
  int most_images = 0;  // at once
  int neurons = 0;      // of the input
  std::vector<ProgramKernel> kernels = {};
  std::vector<ProgramArray> arrays = {};
  // Arrays. Of the images, bitmaps or lists; -1: none.
  int bitmaps = -1;                                        // [most_images, bitmap_words(neurons)]
  int list_begin = -1, list_neuron = -1, list_value = -1;  // u64 [most_images + 1]; u32, fp32 [most_images * neurons]
  int image_count = 0;                                     // one word
  int results = 0;                                         // words that read() understands
  // Of a program that keeps features after the last layer: fp32 [position, feature_neurons]; u32 [position]: the image,
  // of images alive that are kept rather than marked. Without, no image is dropped, and positions are images. -1: none.
  int features = -1, feature_ids = -1;
  int feature_neurons = 0;
  std::function<std::vector<ProgramNode>(ArrayPlaces)> nodes = {};
  std::function<Inference(std::span<const std::uint32_t> results)> read =
      {};  // entering: of the phases behind the first

  int add_array(std::size_t bytes) {
    arrays.push_back({bytes, {}});
    return static_cast<int>(arrays.size()) - 1;
  }
  template <typename T>
  int add_array(const std::vector<T>& contents) {
    arrays.push_back({contents.size() * sizeof(T), std::as_bytes(std::span(contents))});
    return static_cast<int>(arrays.size()) - 1;
  }
  int add_kernel(CompileRequest request, std::string entry) {
    kernels.push_back({std::move(request), std::move(entry)});
    return static_cast<int>(kernels.size()) - 1;
  }
};

template <typename T>
T* array_at(ArrayPlaces places, int array) {
  return reinterpret_cast<T*>(places[array]);
}

template <typename Arguments>
ProgramNode launch_node(std::string label, int kernel, int blocks, int threads, std::size_t shared_bytes,
                        const Arguments& arguments) {
  ProgramNode node{
      .label = std::move(label), .kernel = kernel, .blocks = blocks, .threads = threads, .shared_bytes = shared_bytes};
  node.arguments.resize(sizeof(Arguments));
  std::memcpy(node.arguments.data(), &arguments, sizeof(Arguments));
  return node;
}

// Rows of whole 16 bytes, as kernels read them.
constexpr int bitmap_words(int neurons) {
  return (neurons + 127) / 128 * 4;
}

}  // namespace onchip
