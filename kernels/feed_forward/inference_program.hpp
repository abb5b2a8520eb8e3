// SPDX-License-Identifier: Apache-2.0
// What an inference does, as a value that any family of plans makes: kernels, arrays, and launches as a graph. A GPU
// runs it as one CUDA graph (inference.hpp), an interpreter of the kernels on the host
// (experiments/measurement/interpreted_inference.hpp).
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/feed_forward/inputs.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

struct Inference {
  std::vector<int> categories;  // images with a non-zero feature after the last layer, from 0
  std::vector<int> entering;    // images that enter each phase
  int open_narrow = 0;          // images that the bounds of one word do not decide
  int open_wide = 0;            // those of two words: computed in the reference's order
  double wall_ms = 0;           // from the launch to the categories
};

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

// A launch, a copy from the host, something that the host does, or zeros. Nodes of a stream come one after another.
struct ProgramNode {
  std::string label;  // "to layer 3"
  int stream = 0;
  std::vector<int> after = {};  // nodes of other streams that must have ended
  int kernel = -1;              // -1: no launch
  int blocks = 0, threads = 0;
  std::size_t shared_bytes = 0;
  bool cooperative = false;               // all blocks of threads at once
  std::vector<std::byte> arguments = {};  // the kernel's only parameter
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
  int bitmaps = 0;      // arrays: [most_images, bitmap_words(neurons)]
  int image_count = 0;  // one word
  int results = 0;      // words that read() understands
  int features = -1;    // fp32 [images, outputs] after the last layer, where none is dropped before; -1: nowhere
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
std::vector<std::uint32_t> padded_bitmaps(const Bitmaps& images);

// What the results say of so many images.
Inference read_results(const InferenceProgram& program, std::span<const std::uint32_t> results, int images);

// Throws InputError for images of other neurons, or more than the program takes.
void check_images(const InferenceProgram& program, const Bitmaps& images);

}  // namespace onchip
