// SPDX-License-Identifier: Apache-2.0
// Device memory of a training, array by array: what is allocated is what is predicted.
#pragma once

#include "model/training/training_plan.hpp"

#include <cstdint>

namespace onchip {

// Of a dense layer's direction, in bytes.
struct LayerMemory {
  // From forward to backward, beside y (TrainingArrays of kernels/training/training_program.hpp).
  std::int64_t cells = 0, kept = 0;
  // While a half runs.
  std::int64_t packed = 0, packed_back = 0, ring = 0, ring_back = 0, bias_sums = 0;
  std::int64_t ranks = 0;                         // of each half
  std::int64_t carry = 0;                         // between chunks
  std::int64_t progress = 0;                      // of layers that are on the SMs at once
  std::int64_t chunk_gates = 0, chunk_cells = 0;  // of a stash of cells or replay
  // Of a stash of replay, of a layer that is not the last: outputs of a chunk and the state before it, and their
  // gradients.
  std::int64_t chunk_y = 0, chunk_dy = 0;
  std::int64_t copied_x = 0, copied_y = 0, copied_w_ih = 0, copied_w_hh = 0, copied_dw_ih = 0, copied_dw_hh = 0;
};
// Throws InputError for a plan that the kernels do not have. Of a sparse layer: what both families have.
// `is_last`: of the layers that are replayed.
LayerMemory layer_memory(const TrainingSize& size, const DenseTrainingPlan& plan, bool is_dense = true,
                         bool is_last = true);

// Of `layers` layers of the stack, from `first` on: of one that is replayed, or of those that are on the SMs at once.
inline TrainingSize layers_of(TrainingSize size, int first, int layers = 1) {
  size.input = first > 0 ? size.hidden : size.input;
  size.layers = layers;
  return size;
}

inline constexpr int kKeptValues = 4;  // of a unit, that forward leaves in the gates: i f g o, or r z n q
// cuBLAS multiplies matrices whose rows are not whole 16 bytes at a third of its rate. So a dense layer multiplies
// copies with zeros behind their columns; each gate of the gates, and of the weights, is padded so.
constexpr std::int64_t aligned_columns(std::int64_t columns) {
  return (columns + 7) / 8 * 8;
}

inline constexpr std::int64_t kMemoryAlignment = 256;        // of each array of a workspace
inline constexpr std::int64_t kProductWorkspace = 32 << 20;  // cuBLAS's, in a half's workspace

// What a half needs while it runs, all directions, or all layers that are replayed.
std::int64_t workspace_bytes(const TrainingSize& size, const DenseTrainingPlan& plan);

// Of all layers and directions.
struct TrainingMemory {
  std::int64_t stash_bytes = 0;      // kept from the forward to the backward pass, y included
  std::int64_t workspace_bytes = 0;  // the most of a half of a layer
  // The most that is there at once beside x and the weights: the stash, y, gradients and the workspace.
  std::int64_t peak_bytes = 0;
};
TrainingMemory training_memory(const Training& training, const TrainingPlan& plan, int length_bytes = 0);

}  // namespace onchip
