// SPDX-License-Identifier: Apache-2.0
// What a training step of a sparse LSTM has in the place of the dense recurrences: both passes' non-zeros as the SMs
// load them, and the mask of the gradient of W_hh.
#pragma once

#include "kernels/training/training_program.hpp"
#include "model/chip/chip.hpp"
#include "model/training/sparse_recurrence.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

// Of all SMs, as the kernels load them.
struct SparseWords {
  std::vector<std::uint32_t> words;   // without values
  std::vector<std::int32_t> sources;  // [2 * words]: which weight of W a half of a word is, -1: none
  std::vector<std::int32_t> tables;
};
SparseWords lay_out(const SparseRecurrence& recurrence, const TrainingSize& size, const SparseMatrix& w_hh,
                    bool is_backward, int threads);

CompileRequest compile_request(const SparseRecurrence& recurrence, const TrainingSize& size, Precision precision,
                               bool is_backward, const std::string& architecture);

// fp16: the power of two that backward's weights are packed with.
int weight_scale(Precision precision, bool is_backward);

struct SparseTraining {
  struct Pass {
    SparseRecurrence recurrence;
    CompileRequest request;
    SparseWords words;
  };
  Pass forward, backward;
  CompileRequest weights;       // sparse_weights.cu
  std::vector<std::byte> mask;  // of four neighbouring elements of W_hh: a bit for each that may have a gradient
};

// `w_hh` [4 hidden, hidden] is the mask, whatever its values. Throws InputError if it does not fit on the chip.
std::shared_ptr<const SparseTraining> lay_out_sparse_training(const TrainingSize& size, Precision precision,
                                                              const SparseMatrix& w_hh, const Chip& chip,
                                                              const SparseTrainingPlan& plan,
                                                              const std::string& architecture);

// Gradients of W_hh only where the mask has weights; weights elsewhere are not read.
TrainingProgram sparse_training_program(const TrainingSize& size, Precision precision,
                                        std::shared_ptr<const SparseTraining> sparse);

// Of either family, whose sparse one has a mask. Compiles nothing. Throws InputError for a plan that is not possible or
// not of kernels.
TrainingProgram training_program(const TrainingSize& size, Precision precision, const TrainingPlan& plan,
                                 const SparseMatrix* mask, const Chip& chip, const std::string& architecture);

}  // namespace onchip
