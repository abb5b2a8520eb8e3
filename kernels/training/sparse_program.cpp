// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/sparse_program.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "kernels/sparse/program.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/sparse/layout/layout.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace onchip {
namespace {

// ---- what the SMs load ----------------------------------------------------------------------------------------------

constexpr int kUnitGates = 4;

// Of an SM: its rows of W, or its columns' part of its cluster's rows of W transposed. An element's value is its number
// in `sources`, from 1 on.
struct Block {
  SparseMatrix matrix;
  std::vector<std::int32_t> sources;  // where it is in W
};

std::vector<Block> blocks_of(const TrainingSize& size, const SparseMatrix& w, int units, int blocks, int split,
                             bool is_backward) {
  // Of each row of W, unit by unit, or of W transposed: columns, and where in W they are.
  const std::int64_t hidden = size.hidden;
  std::vector<std::vector<std::pair<std::int32_t, std::int64_t>>> of_row(
      static_cast<std::size_t>(is_backward ? hidden : hidden * kUnitGates));
  for (int unit = 0; unit < size.hidden; ++unit) {
    for (int gate = 0; gate < kUnitGates; ++gate) {
      const std::int64_t row = gate * hidden + unit;
      const int number = unit * kUnitGates + gate;
      for (std::int64_t e = w.row_begin[row]; e < w.row_begin[row + 1]; ++e) {
        of_row[is_backward ? w.column[e] : number].emplace_back(is_backward ? number : w.column[e],
                                                                row * hidden + w.column[e]);
      }
    }
  }
  const int rows = is_backward ? units * split : units * kUnitGates;
  const int columns = units * blocks / split * (is_backward ? kUnitGates : 1);
  std::vector<Block> all(static_cast<std::size_t>(blocks));
  for (int sm = 0; sm < blocks; ++sm) {
    Block& block = all[static_cast<std::size_t>(sm)];
    block.matrix.rows = rows;
    block.matrix.columns = columns;
    block.matrix.row_begin.push_back(0);
    const std::size_t first_row = static_cast<std::size_t>(is_backward ? sm / split : sm) * rows;
    const int first_column = is_backward ? sm % split * columns : 0;
    for (std::size_t row = first_row; row < first_row + rows; ++row) {
      for (std::size_t i = 0; row < of_row.size() && i < of_row[row].size(); ++i) {
        const auto [column, source] = of_row[row][i];
        if (column >= first_column && column < first_column + columns) {
          block.matrix.column.push_back(column - first_column);
          block.sources.push_back(static_cast<std::int32_t>(source));
          block.matrix.value.push_back(static_cast<float>(block.sources.size()));
        }
      }
      block.matrix.row_begin.push_back(block.matrix.nnz());
    }
  }
  return all;
}

}  // namespace

int weight_scale(Precision precision, bool is_backward) {
  constexpr int kOfSmallGradients = 64;
  return is_backward && precision == Precision::fp16 ? kOfSmallGradients : 1;
}

CompileRequest compile_request(const SparseRecurrence& recurrence, const TrainingSize& size, Precision precision,
                               bool is_backward, const std::string& architecture) {
  const SparseGeometry& geometry = recurrence.geometry;
  CompileRequest request{"sparse_training", kSparseRecurrenceSource, architecture, {}};
  define_gather(request.defines, geometry);
  // As those of plans with producer warps, passes come one after another.
  std::ranges::replace(request.defines, "ONCHIP_PRODUCER_WARPS=0", "ONCHIP_PRODUCER_WARPS=1");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"precision", static_cast<int>(precision)},
           {"backward", is_backward},
           {"hidden", size.hidden},
           {"blocks", recurrence.blocks},
           {"sub_batches", recurrence.sub_batches},
           {"samples", recurrence.plan.samples},
           {"batch_padded", geometry.batch_padded},
           {"split", recurrence.plan.split},
           {"units", recurrence.units},
           {"ahead", recurrence.plan.ahead},
           {"weight_scale", weight_scale(precision, is_backward)},
           {"buffers", recurrence.plan.buffers},
           {"chunks_from", geometry.bytes_without_weights()},
           {"shared_bytes", static_cast<std::int64_t>(recurrence.shared_bytes)}}) {
    define(request.defines, name, value);
  }
  return request;
}

SparseWords lay_out(const SparseRecurrence& recurrence, const TrainingSize& size, const SparseMatrix& w_hh,
                    bool is_backward, int threads) {
  const SparseGeometry& geometry = recurrence.geometry;
  const std::vector<Block> blocks =
      blocks_of(size, w_hh, recurrence.units, recurrence.blocks, recurrence.plan.split, is_backward);
  std::vector<Encoded> words(blocks.size());
  std::vector<std::vector<std::int32_t>> sources(blocks.size()), rows(blocks.size());
  parallel_for(recurrence.blocks, threads, [&](int sm) {
    const Block& block = blocks[static_cast<std::size_t>(sm)];
    SparseLayout layout = make_block_layout(geometry, block.matrix);
    // An element's number goes where its value would, in two digits that fp16 has; padding has 0.
    constexpr int kDigits = 2048;
    const std::vector<float> numbers = std::move(layout.value);
    const auto encoded = [&](auto digit) {
      layout.value.resize(numbers.size());
      std::ranges::transform(numbers, layout.value.begin(),
                             [&](float number) { return static_cast<float>(digit(static_cast<int>(number))); });
      return encode(layout);
    };
    Encoded& of_block = words[static_cast<std::size_t>(sm)];
    of_block = encoded([](int) { return 0; });
    const Encoded low = encoded([](int number) { return number % kDigits; });
    const Encoded high = encoded([](int number) { return number / kDigits; });
    std::vector<std::int32_t>& of_halves = sources[static_cast<std::size_t>(sm)];
    for (std::size_t i = 0; i < low.weights.size(); ++i) {
      for (const int shift : {0, 16}) {
        const auto digit = [&](const Encoded& encoding) {
          const std::uint32_t bits = (encoding.weights[i] ^ of_block.weights[i]) >> shift & 0xffff;
          return static_cast<int>(from_bits(Precision::fp16, bits));
        };
        const int number = digit(low) + kDigits * digit(high);
        of_halves.push_back(number == 0 ? -1 : block.sources[static_cast<std::size_t>(number) - 1]);
      }
    }
    rows[static_cast<std::size_t>(sm)] = std::move(layout.rows);
  });
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  SparseWords all;
  for (std::size_t sm = 0; sm < blocks.size(); ++sm) {
    append(all.words, words[sm].weights);
    append(all.sources, sources[sm]);
    append(all.tables, words[sm].overflow);
    append(all.tables, rows[sm]);
  }
  return all;
}

// ---- the program ----------------------------------------------------------------------------------------------------

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

  // A launch for each sub-batch, and between them one that empties the ring.
  void add_sub_batches(std::vector<ProgramNode>& all, const ProgramNode& dense, const ProgramNode& prepare,
                       ArrayPlaces at, bool is_backward) const {
    const SparseArrays& of_pass = is_backward ? backward : forward;
    const SparseRecurrence& recurrence = (is_backward ? sparse->backward : sparse->forward).recurrence;
    SparseTrainingArguments arguments = arguments_of(dense);
    arguments.packed = array_at<std::uint32_t>(at, of_pass.packed);
    arguments.ring = array_at<char>(at, of_pass.ring);
    arguments.tables = array_at<std::int32_t>(at, of_pass.tables);
    for (arguments.sub_batch = 0; arguments.sub_batch < recurrence.sub_batches; ++arguments.sub_batch) {
      if (arguments.sub_batch > 0) {
        ProgramNode empty = with(prepare, prepared(at, is_backward, true));
        empty.label = dense.label + " ring";
        empty.stream = dense.stream;
        empty.after = {};
        all.push_back(std::move(empty));
        arguments.bias_sums += sparse->backward.recurrence.bias_bytes / sizeof(float) / recurrence.sub_batches;
      }
      ProgramNode node = with(dense, arguments);
      node.label += arguments.sub_batch == 0 ? "" : " of sub-batch " + std::to_string(arguments.sub_batch);
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
        add_sub_batches(all, node, ProgramNode(*prepare), at, is_backward);
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
