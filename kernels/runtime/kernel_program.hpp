// SPDX-License-Identifier: Apache-2.0
// What kernels do together, as a value: kernels, arrays, and launches as a graph. A GPU runs it as one CUDA graph
// (device_program.hpp), an interpreter of the kernels on the host
// (experiments/measurement/interpreted/interpreted_program.hpp).
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cublas.hpp"

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

// A launch, a library's product, a copy, something that the host does, or memory that is filled. Nodes of a stream come
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
  std::span<std::byte> filled = {};
  int byte = 0;                          // that it is filled with
  std::span<const std::byte> from = {};  // memory of the host or of the device
  std::byte* to = nullptr;
  std::function<void(const HostCopy&)> host = {};  // after what comes before it, on the same stream
};

// Where each array lies.
using ArrayPlaces = std::span<std::byte* const>;

struct KernelProgram {
  std::vector<ProgramKernel> kernels = {};
  std::vector<ProgramArray> arrays = {};
  int results = 0;  // an array of words
  std::function<std::vector<ProgramNode>(ArrayPlaces)> nodes = {};

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

// Whatever runs programs.
class ProgramExecutor {
 public:
  virtual ~ProgramExecutor() = default;

  const KernelProgram& program() const { return program_; }
  // At the beginning of an array.
  virtual void write(int array, std::span<const std::byte> bytes) = 0;
  virtual void read(int array, std::span<std::byte> bytes) const = 0;
  // Runs the nodes, and has the array of results.
  virtual std::span<const std::uint32_t> run() = 0;

 protected:
  explicit ProgramExecutor(KernelProgram program) : program_(std::move(program)) {}

  KernelProgram program_;
};

// Where arrays begin that lie one behind another in one piece of memory that is aligned to kArrayAlignment; then its
// end.
inline constexpr std::size_t kArrayAlignment = 256;
inline std::vector<std::size_t> array_offsets(const KernelProgram& program) {
  std::vector<std::size_t> offsets{0};
  for (const ProgramArray& array : program.arrays) {
    offsets.push_back(offsets.back() + (array.bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment);
  }
  return offsets;
}

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

// The number of the node.
inline int add_node(std::vector<ProgramNode>& nodes, ProgramNode node, int stream = 0, std::vector<int> after = {}) {
  node.stream = stream;
  node.after = std::move(after);
  nodes.push_back(std::move(node));
  return static_cast<int>(nodes.size()) - 1;
}

inline ProgramNode fill_node(std::string label, void* memory, std::size_t bytes, int byte = 0) {
  return {.label = std::move(label), .filled = {static_cast<std::byte*>(memory), bytes}, .byte = byte};
}

}  // namespace onchip
