// SPDX-License-Identifier: Apache-2.0
// The words that the SMs load of a sparse LSTM's recurrences (sparse_recurrence.cu), and how their kernel is compiled.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/training/sparse_recurrence.hpp"

#include <cstdint>
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

}  // namespace onchip
