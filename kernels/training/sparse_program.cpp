// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/sparse_program.hpp"

#include "kernels/runtime/defines.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace onchip {
namespace {

SparseTraining::Pass pass_of(const TrainingSize& size, Precision precision, const SparseMatrix& w_hh, bool is_backward,
                             const Chip& chip, const std::string& architecture, const SparseRecurrencePlan& plan) {
  SparseRecurrence recurrence =
      sparse_recurrence(size, precision, w_hh, plan, is_backward, static_cast<int>(chip.sm_count),
                        static_cast<std::size_t>(chip.smem_bytes_per_block.value))
          .value_or_throw();
  CompileRequest request = compile_request(recurrence, size, precision, is_backward, architecture);
  SparseWords laid_out = lay_out(recurrence, size, w_hh, is_backward, all_cores());
  return {std::move(recurrence), std::move(request), std::move(laid_out)};
}

// The arrays of a pass.
struct SparseArrays {
  int words = 0, sources = 0, tables = 0, packed = 0, ring = 0;
};

SparseArrays add_arrays(KernelProgram& program, const SparseTraining::Pass& pass) {
  return {.words = program.add_array(pass.words.words),
          .sources = program.add_array(pass.words.sources),
          .tables = program.add_array(pass.words.tables),
          .packed = program.add_array(4 * pass.words.words.size()),
          .ring = program.add_array(pass.recurrence.ring_bytes)};
}

// What of a dense program's nodes is otherwise.
struct SparseNodes {
  TrainingSize size;
  Precision precision = Precision::fp16;
  std::shared_ptr<const SparseTraining> sparse = {};
  TrainingArrays arrays = {};
  SparseArrays forward = {}, backward = {};
  int mask = 0, mask_gradient = 0;

  static SparseTrainingArguments arguments_of(const ProgramNode& node) {
    SparseTrainingArguments arguments;
    std::memcpy(static_cast<TrainingArguments*>(&arguments), node.arguments.data(), sizeof(TrainingArguments));
    return arguments;
  }
  template <typename Arguments>
  static ProgramNode with(ProgramNode node, const Arguments& arguments) {
    node.arguments.resize(sizeof arguments);
    std::memcpy(node.arguments.data(), &arguments, sizeof arguments);
    return node;
  }

  // Of W, or only an empty ring.
  SparseWeightsArguments prepared(ArrayPlaces at, bool is_backward, bool only_ring) const {
    const SparseArrays& of_pass = is_backward ? backward : forward;
    const SparseTraining::Pass& pass = is_backward ? sparse->backward : sparse->forward;
    return {.weights = array_at<std::uint16_t>(at, arrays.w_hh),
            .words = array_at<std::uint32_t>(at, of_pass.words),
            .sources = array_at<std::int32_t>(at, of_pass.sources),
            .packed = array_at<std::uint32_t>(at, of_pass.packed),
            .count = only_ring ? 0 : static_cast<long long>(pass.words.words.size()),
            .scale = static_cast<float>(weight_scale(precision, is_backward)),
            .ring = at[of_pass.ring],
            .ring_words = static_cast<long long>(pass.recurrence.ring_bytes / 16)};
  }

  // A launch for each turn, and between them one that empties the ring.
  void add_turns(std::vector<ProgramNode>& all, const ProgramNode& dense, const ProgramNode& prepare, ArrayPlaces at,
                 bool is_backward) const {
    const SparseArrays& of_pass = is_backward ? backward : forward;
    const SparseRecurrence& recurrence = (is_backward ? sparse->backward : sparse->forward).recurrence;
    SparseTrainingArguments arguments = arguments_of(dense);
    arguments.packed = array_at<std::uint32_t>(at, of_pass.packed);
    arguments.ring = array_at<char>(at, of_pass.ring);
    arguments.tables = array_at<std::int32_t>(at, of_pass.tables);
    for (arguments.turn = 0; arguments.turn < recurrence.turns; ++arguments.turn) {
      if (arguments.turn > 0) {
        ProgramNode empty = with(prepare, prepared(at, is_backward, true));
        empty.label = dense.label + " ring";
        empty.stream = dense.stream;
        empty.after = {};
        all.push_back(std::move(empty));
        arguments.bias_sums += sparse->backward.recurrence.bias_bytes / sizeof(float) / recurrence.turns;
      }
      ProgramNode node = with(dense, arguments);
      node.label += arguments.turn == 0 ? "" : " of turn " + std::to_string(arguments.turn);
      node.blocks = recurrence.blocks;
      node.threads = recurrence.geometry.threads;
      node.shared_bytes = recurrence.shared_bytes;
      all.push_back(std::move(node));
    }
  }

  std::vector<ProgramNode> instead_of(const std::vector<ProgramNode>& dense, ArrayPlaces at) const {
    std::vector<ProgramNode> all;
    for (const ProgramNode& node : dense) {
      const bool is_backward = node.label.ends_with("backward");
      if (node.label.starts_with("prepare")) {
        all.push_back(with(node, prepared(at, is_backward, false)));
      } else if (node.cooperative) {
        const auto prepare = std::ranges::find(all, "prepare " + node.label, &ProgramNode::label);
        add_turns(all, node, ProgramNode(*prepare), at, is_backward);
      } else if (node.label == "db") {
        all.push_back(with(node, arguments_of(node)));
      } else {
        all.push_back(node);
      }
    }
    constexpr int kOfWord = 4, kOfBlock = 256;
    const std::int64_t words = std::int64_t{4} * size.hidden * size.hidden / kOfWord;
    all.push_back(launch_node(
        "dW_hh mask", mask_gradient, static_cast<int>((words + kOfBlock - 1) / kOfBlock), kOfBlock, 0,
        SparseWeightsArguments{
            .gradient = at[arrays.dw_hh], .mask = array_at<unsigned char>(at, mask), .gradient_words = words}));
    return all;
  }
};

}  // namespace

std::shared_ptr<const SparseTraining> lay_out_sparse_training(const TrainingSize& size, Precision precision,
                                                              const SparseMatrix& w_hh, const Chip& chip,
                                                              const SparseTrainingPlan& plan,
                                                              const std::string& architecture) {
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
  return std::make_shared<const SparseTraining>(SparseTraining{
      pass_of(size, precision, w_hh, false, chip, architecture, plan.forward),
      pass_of(size, precision, w_hh, true, chip, architecture, plan.backward), std::move(weights), std::move(mask)});
}

TrainingProgram sparse_training_program(const TrainingSize& size, Precision precision,
                                        std::shared_ptr<const SparseTraining> sparse) {
  const RecurrenceKernels kernels{sparse->weights, sparse->forward.request, sparse->backward.request,
                                  sparse->backward.recurrence.bias_bytes};
  TrainingProgram training = training_program(size, precision, {}, sparse->weights.architecture, &kernels);
  KernelProgram& program = training.program;
  SparseNodes nodes{.size = size, .precision = precision, .sparse = sparse, .arrays = training.arrays};
  nodes.forward = add_arrays(program, sparse->forward);
  nodes.backward = add_arrays(program, sparse->backward);
  nodes.mask = program.add_array(sparse->mask);
  nodes.mask_gradient = program.add_kernel(sparse->weights, "mask_gradient");
  program.nodes = [nodes, dense = program.nodes](ArrayPlaces at) { return nodes.instead_of(dense(at), at); };
  training.plan =
      SparseTrainingPlan{.forward = sparse->forward.recurrence.plan, .backward = sparse->backward.recurrence.plan};
  training.sparse = std::move(sparse);
  return training;
}

TrainingProgram training_program(const TrainingSize& size, Precision precision, const TrainingPlan& plan,
                                 const SparseMatrix* mask, const Chip& chip, const std::string& architecture) {
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan)) {
    return training_program(size, precision, *dense, architecture);
  }
  const auto* const sparse = std::get_if<SparseTrainingPlan>(&plan);
  if (sparse == nullptr || mask == nullptr) {
    throw InputError("there are no kernels for the plan '" + to_string(plan) + "'" +
                     (sparse == nullptr ? "" : " without a mask"));
  }
  return sparse_training_program(size, precision,
                                 lay_out_sparse_training(size, precision, *mask, chip, *sparse, architecture));
}

}  // namespace onchip
