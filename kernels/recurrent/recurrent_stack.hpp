// SPDX-License-Identifier: Apache-2.0
// Several layers, in one direction or both, as torch.nn.RNN, GRU and LSTM have them (batch_first=False): the input of a
// layer is the output of the one before it, [forward, backward]. Layer by layer on the caller's stream:
//   x = W_ih input               one dense product for all steps and both directions (cublas.hpp)
//   h' = cell(x + b_ih, W_hh h + b_hh)    a persistent kernel per direction, one after the other
//   (persistent_kernel.hpp)
#pragma once

#include "kernels/recurrent/persistent_kernel.hpp"
#include "kernels/runtime/cublas.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

// One direction of one layer. Gates in PyTorch's order: i f g o, or r z n with the reset after the product.
struct StackWeights {
  // W_ih, [gates * hidden, input of the layer], zeros where pruned (see to_dense); kept in the type of the state.
  std::span<const float> input;
  const Layout* recurrent = nullptr;  // W_hh in its plan
  Biases biases;
};

// One batch of sequences; pointers to device memory, in the type of the network's state. Null: zeros, or not wanted.
struct StackSequences {
  std::int64_t steps = 0;
  const void* input = nullptr;         // [steps, batch, input size]; not null
  const void* initial = nullptr;       // [layers, directions, batch, hidden]
  const void* initial_cell = nullptr;  // likewise, LSTM only
  void* output = nullptr;              // [steps, batch, directions, hidden]
  void* final_state = nullptr;         // [layers, directions, batch, hidden]: forward of each sample's last step,
                                       // backward of step 0
  void* final_cell = nullptr;          // likewise, LSTM only
  // As torch's packed sequences, in any order. Host memory, read before enqueue returns: steps of each sample, 1 to
  // `steps`; output beyond is zero, and input beyond does not matter. Empty: all.
  std::span<const int> lengths;
};

class RecurrentStack {
 public:
  // `weights`: [layers, directions], all of the same cell, precision, hidden size and batch; copied. Sequences have at
  // most `most_steps`: the workspace holds that many of a layer's projected input and output.
  // Throws InputError for sizes that do not match, CudaError as PersistentKernel and Cublas do.
  RecurrentStack(int input_size, int directions, std::span<const StackWeights> weights, std::int64_t most_steps);

  // Enqueues all layers on the stream; allocates nothing. One run at a time per object: its workspace is its own.
  // Throws InputError for a number of steps or a length out of range.
  void enqueue(cudaStream_t stream, const StackSequences& sequences);

  // After the stream is synchronised: throws CudaError if a block gave up waiting for another.
  void check_status() const;

 private:
  struct InputWeights {
    int columns;
    DeviceBuffer<std::byte> elements;  // [directions * gates * hidden, columns]
  };

  void check(const StackSequences& sequences) const;
  void project(const InputWeights& weights, const void* input, std::int64_t steps) const;

  Recurrent network_;
  int directions_;
  std::int64_t most_steps_;
  std::vector<InputWeights> input_weights_;    // [layers]
  std::vector<PersistentKernel> recurrences_;  // [layers, directions]
  DeviceBuffer<std::byte> projected_;          // [most steps, batch, directions, gates, hidden]
  DeviceBuffer<std::byte> between_;            // [most steps, batch, directions, hidden]: from a layer to the next
  Cublas cublas_;
};

}  // namespace onchip
