// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/sparse_program.hpp"

#include "kernels/runtime/defines.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/parallel.hpp"

namespace onchip {
namespace {

SparseTraining::Pass pass_of(const TrainingSize& size, Precision precision, const SparseMatrix& w_hh, bool is_backward,
                             int sms, std::size_t shared_bytes, const std::string& architecture,
                             const std::string& words) {
  constexpr int kFewer = 8, kLeast = 16;
  SparseRecurrence recurrence = choose_sparse_recurrence(size, precision, w_hh, is_backward, sms, shared_bytes);
  if (!words.empty()) {
    recurrence = sparse_recurrence(size, precision, w_hh, changed(unsettled(recurrence.plan), words), is_backward, sms,
                                   shared_bytes);
  }
  while (true) {
    const CompileRequest request = compile_request(recurrence, size, precision, is_backward, architecture);
    if (!compile(request).resources.spills() || recurrence.plan.register_words <= kLeast) {
      lay_out(recurrence, size, w_hh, is_backward, all_cores());
      return {std::move(recurrence), request};
    }
    SparseTrainingPlan plan = recurrence.plan;
    plan.register_words -= kFewer;
    recurrence = sparse_recurrence(size, precision, w_hh, plan, is_backward, sms, shared_bytes);
  }
}

}  // namespace

std::shared_ptr<const SparseTraining> lay_out_sparse_training(const TrainingSize& size, Precision precision,
                                                              const SparseMatrix& w_hh, int sms,
                                                              std::size_t shared_bytes, const std::string& architecture,
                                                              const std::string& forward, const std::string& backward) {
  CompileRequest weights{"sparse_weights", kSparseWeightsSource, architecture, {}};
  define(weights.defines, "precision", static_cast<int>(precision));
  constexpr int kOfWord = 4;  // elements
  std::vector<std::byte> mask(static_cast<std::size_t>(w_hh.rows) * w_hh.columns / kOfWord);
  for (int row = 0; row < w_hh.rows; ++row) {
    for (std::int64_t e = w_hh.row_begin[row]; e < w_hh.row_begin[row + 1]; ++e) {
      const std::int64_t at = std::int64_t{row} * w_hh.columns + w_hh.column[e];
      mask[static_cast<std::size_t>(at / kOfWord)] |= std::byte{1} << (at % kOfWord);
    }
  }
  return std::make_shared<const SparseTraining>(
      SparseTraining{pass_of(size, precision, w_hh, false, sms, shared_bytes, architecture, forward),
                     pass_of(size, precision, w_hh, true, sms, shared_bytes, architecture, backward),
                     std::move(weights), std::move(mask)});
}

SparseArrays add_arrays(InferenceProgram& program, const SparseRecurrence& recurrence) {
  return {.words = program.add_array(recurrence.words),
          .sources = program.add_array(recurrence.sources),
          .tables = program.add_array(recurrence.tables),
          .packed = program.add_array(4 * recurrence.words.size()),
          .ring = program.add_array(recurrence.ring_bytes)};
}

SparseWeightsArguments pack_arguments(ArrayPlaces at, const SparseArrays& arrays, const SparseRecurrence& recurrence,
                                      Precision precision, bool is_backward, int w_hh) {
  return {.weights = at[w_hh],
          .words = array_at<std::uint32_t>(at, arrays.words),
          .sources = array_at<std::int32_t>(at, arrays.sources),
          .packed = array_at<std::uint32_t>(at, arrays.packed),
          .count = static_cast<long long>(recurrence.words.size()),
          .scale = static_cast<float>(weight_scale(precision, is_backward)),
          .ring = at[arrays.ring],
          .ring_words = static_cast<long long>(recurrence.ring_bytes / 16)};
}

}  // namespace onchip
