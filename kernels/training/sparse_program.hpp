// SPDX-License-Identifier: Apache-2.0
// What a training step of a sparse LSTM has in the place of the dense recurrences: both passes' non-zeros as the SMs
// load them, and the mask of the gradient of W_hh.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "kernels/training/sparse_layout.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

struct SparseTraining {
  struct Pass {
    SparseRecurrence recurrence;
    CompileRequest request;
  };
  Pass forward, backward;
  CompileRequest weights;       // sparse_weights.cu
  std::vector<std::byte> mask;  // of four neighbouring elements of W_hh: a bit for each that may have a gradient
};

// `w_hh` [4 hidden, hidden] is the mask, whatever its values. Plans by keys that differ from the chosen ones. Moves
// weights to shared memory until no kernel spills. Throws InputError if they do not fit.
std::shared_ptr<const SparseTraining> lay_out_sparse_training(const TrainingSize& size, Precision precision,
                                                              const SparseMatrix& w_hh, int sms,
                                                              std::size_t shared_bytes, const std::string& architecture,
                                                              const std::string& forward = "",
                                                              const std::string& backward = "");

// The arrays of a pass.
struct SparseArrays {
  int words = 0, sources = 0, tables = 0, packed = 0, ring = 0;
};
SparseArrays add_arrays(InferenceProgram& program, const SparseRecurrence& recurrence);

// As sparse_weights.cu has it.
struct SparseWeightsArguments {
  const void* weights = nullptr;
  const std::uint32_t* words = nullptr;
  const std::int32_t* sources = nullptr;
  std::uint32_t* packed = nullptr;
  long long count = 0;
  float scale = 1;
  std::byte* ring = nullptr;
  long long ring_words = 0;
  std::byte* gradient = nullptr;
  const std::byte* mask = nullptr;
  long long gradient_words = 0;
};
SparseWeightsArguments pack_arguments(ArrayPlaces at, const SparseArrays& arrays, const SparseRecurrence& recurrence,
                                      Precision precision, bool is_backward, int w_hh);

}  // namespace onchip
