// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_program.hpp"

#include "kernels/runtime/defines.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace onchip {
namespace {

// As shape.cuh has them.
struct Arguments {
  const void* weights;
  std::uint32_t* packed;
  std::byte* ring;
  void *gates, *cells, *states;
  const void *initial, *initial_cell, *input_bias, *recurrent_bias, *states_gradient, *final_gradient,
      *final_cell_gradient;
  void *initial_gradient, *initial_cell_gradient;
  float* bias_sums;
  void* bias_gradient;
  long long steps;
  std::uint32_t* status;
};

struct SparseArguments : Arguments {
  const std::int32_t* tables;
  int turn;
};

CompileRequest request_of(const TrainingSize& size, Precision precision, const RecurrencePlan& plan, bool is_backward,
                          const std::string& architecture) {
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  CompileRequest request{"training_recurrence", kTrainingRecurrenceSource, architecture, {}};
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"precision", static_cast<int>(precision)},
           {"backward", is_backward},
           {"hidden", size.hidden},
           {"batch", size.batch},
           {"sms", shape.sms},
           {"batch_groups", plan.batch_groups},
           {"turns", plan.turns},
           {"samples", shape.samples},
           {"split", plan.split},
           {"threads", shape.threads},
           {"shared_tiles", plan.shared_tiles},
           {"loads_in_flight", plan.loads_in_flight},
           {"poll_delay", plan.poll_delay},
           {"ahead", plan.ahead},
           {"ragged", shape.ragged},
           {"bank_words", 0},
           {"exchange", 0},
           {"shared_bytes", static_cast<std::int64_t>(shape.shared_bytes)}}) {
    define(request.defines, name, value);
  }
  return request;
}

CompileRequest without_spill(const TrainingSize& size, Precision precision, RecurrencePlan& plan, bool is_backward,
                             const std::string& architecture) {
  constexpr int kMore = 2;
  const int tiles = recurrence_shape(size, plan, is_backward).tiles;
  while (true) {
    CompileRequest request = request_of(size, precision, plan, is_backward, architecture);
    if (plan.shared_tiles == tiles || !compile(request).resources.spills()) {
      return request;
    }
    plan.shared_tiles = std::min(tiles, plan.shared_tiles + kMore);
  }
}

int of_size(std::int64_t size, const char* what) {
  if (size < 1 || size > std::numeric_limits<int>::max()) {
    throw InputError("a training step needs " + std::string(what) + " of 1 to 2^31 - 1; found " + std::to_string(size));
  }
  return static_cast<int>(size);
}

struct Builder {
  TrainingSize size;
  Precision precision;
  TrainingPlan plan;
  TrainingArrays arrays;
  int gates = 0, packed = 0, packed_transposed = 0, ring = 0, ring_back = 0, bias_sums = 0, status = 0;
  int prepare = 0, forward = 0, prepare_back = 0, backward = 0, sum_bias = 0;  // kernels
  std::shared_ptr<const SparseTraining> sparse = {};
  SparseArrays sparse_forward = {}, sparse_backward = {};
  int mask = 0, mask_gradient = 0;

  // Row-major C [rows, columns] = op(A) op(B), which is column-major the product of the transposed in the other order.
  // `a`, `b`: stored transposed.
  ProgramNode product(const char* label, ArrayPlaces at, int c, std::int64_t rows, std::int64_t columns,
                      std::int64_t depth, int a, bool a_transposed, int b, bool b_transposed) const {
    ProgramNode node{.label = label};
    node.product = DenseProduct{.rows = of_size(columns, "columns"),
                                .columns = of_size(rows, "rows"),
                                .depth = of_size(depth, "a depth"),
                                .precision = precision,
                                .transposed = b_transposed,
                                .transposed_b = a_transposed,
                                .a = at[b],
                                .leading_a = static_cast<int>(b_transposed ? depth : columns),
                                .b = at[a],
                                .leading_b = static_cast<int>(a_transposed ? rows : depth),
                                .c = at[c],
                                .leading_c = static_cast<int>(columns)};
    return node;
  }

  Arguments arguments(ArrayPlaces at, bool is_backward) const {
    const auto words = [&](int array) { return array_at<std::uint32_t>(at, array); };
    return {.weights = at[arrays.w_hh],
            .packed = words(is_backward ? packed_transposed : packed),
            .ring = at[is_backward ? ring_back : ring],
            .gates = at[gates],
            .cells = at[arrays.cells],
            .states = at[arrays.states],
            .initial = at[arrays.h0],
            .initial_cell = at[arrays.c0],
            .input_bias = at[arrays.b_ih],
            .recurrent_bias = at[arrays.b_hh],
            .states_gradient = at[arrays.dy],
            .final_gradient = at[arrays.dhn],
            .final_cell_gradient = at[arrays.dcn],
            .initial_gradient = at[arrays.dh0],
            .initial_cell_gradient = at[arrays.dc0],
            .bias_sums = array_at<float>(at, bias_sums),
            .bias_gradient = at[arrays.db],
            .steps = size.steps,
            .status = words(status)};
  }

  const SparseRecurrence& pass(bool is_backward) const {
    return is_backward ? sparse->backward.recurrence : sparse->forward.recurrence;
  }

  // A launch for each turn.
  void add_sparse(std::vector<ProgramNode>& all, ArrayPlaces at, const std::string& label, int kernel, bool is_backward,
                  std::vector<int> after) const {
    const SparseRecurrence& recurrence = pass(is_backward);
    const SparseArrays& of_pass = is_backward ? sparse_backward : sparse_forward;
    SparseArguments all_turns{arguments(at, is_backward), array_at<std::int32_t>(at, of_pass.tables), 0};
    all_turns.packed = array_at<std::uint32_t>(at, of_pass.packed);
    all_turns.ring = at[of_pass.ring];
    for (int turn = 0; turn < recurrence.turns; ++turn) {
      SparseArguments of_turn = all_turns;
      of_turn.turn = turn;
      of_turn.bias_sums += sparse->backward.recurrence.bias_bytes / sizeof(float) / recurrence.turns * turn;
      ProgramNode node = launch_node(turn == 0 ? label : label + " of turn " + std::to_string(turn), kernel,
                                     recurrence.blocks, recurrence.geometry.threads, recurrence.shared_bytes, of_turn);
      node.cooperative = true;
      node.after = after;
      all.push_back(std::move(node));
      if (turn + 1 < recurrence.turns) {
        ProgramNode empty =
            launch_node(label + " ring", is_backward ? prepare_back : prepare, 132, 256, 0,
                        SparseWeightsArguments{.ring = at[of_pass.ring],
                                               .ring_words = static_cast<long long>(recurrence.ring_bytes / 16)});
        all.push_back(std::move(empty));
      }
    }
  }

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    constexpr int kPrepareThreads = 256, kPrepareBlocks = 528;
    const std::int64_t gate_rows = std::int64_t{4} * size.hidden, samples = size.steps * size.batch;
    std::vector<ProgramNode> all;
    const auto recurrence = [&](const char* label, int kernel, bool is_backward, std::vector<int> after) {
      if (sparse) {
        return add_sparse(all, at, label, kernel, is_backward, std::move(after));
      }
      const RecurrenceShape shape = recurrence_shape(size, is_backward ? plan.backward : plan.forward, is_backward);
      ProgramNode node =
          launch_node(label, kernel, shape.blocks, shape.threads, shape.shared_bytes, arguments(at, is_backward));
      node.cooperative = true;
      node.after = std::move(after);
      all.push_back(node);
    };
    const auto preparation = [&](const char* label, int kernel, bool is_backward) {
      const SparseArrays& of_pass = is_backward ? sparse_backward : sparse_forward;
      ProgramNode node =
          sparse ? launch_node(label, kernel, kPrepareBlocks, kPrepareThreads, 0,
                               pack_arguments(at, of_pass, pass(is_backward), precision, is_backward, arrays.w_hh))
                 : launch_node(label, kernel, kPrepareBlocks, kPrepareThreads, 0, arguments(at, is_backward));
      node.stream = 1;
      return node;
    };
    ProgramNode clear{.label = "status"};
    clear.zeros = {at[status], 4};
    all.push_back(clear);
    ProgramNode prepare_forward = preparation("prepare forward", prepare, false);
    prepare_forward.after = {0};
    all.push_back(prepare_forward);
    all.push_back(preparation("prepare backward", prepare_back, true));
    all.push_back(product("W_ih x", at, gates, samples, gate_rows, size.input, arrays.x, false, arrays.w_ih, true));
    recurrence("forward", forward, false, {1});
    recurrence("backward", backward, true, {2});
    all.push_back(product("dx", at, arrays.dx, samples, size.input, gate_rows, gates, false, arrays.w_ih, false));
    all.push_back(product("dW_ih", at, arrays.dw_ih, gate_rows, size.input, samples, gates, true, arrays.x, false));
    all.push_back(
        product("dW_hh", at, arrays.dw_hh, gate_rows, size.hidden, samples, gates, true, arrays.states, false));
    if (sparse) {
      constexpr int kOfWord = 4, kMaskThreads = 256;
      const std::int64_t words = gate_rows * size.hidden / kOfWord;
      all.push_back(launch_node(
          "dW_hh mask", mask_gradient, of_size((words + kMaskThreads - 1) / kMaskThreads, "weights"), kMaskThreads, 0,
          SparseWeightsArguments{.gradient = at[arrays.dw_hh], .mask = at[mask], .gradient_words = words}));
    }
    const int bias_blocks = static_cast<int>((gate_rows + 127) / 128);
    all.push_back(
        sparse ? launch_node("db", sum_bias, bias_blocks, 128, 0, SparseArguments{arguments(at, true), nullptr, 0})
               : launch_node("db", sum_bias, bias_blocks, 128, 0, arguments(at, true)));
    return all;
  }
};

void check_training(const TrainingSize& size, Precision precision) {
  if (precision != Precision::fp16 && precision != Precision::bf16) {
    throw InputError("an LSTM is trained on the chip in 'fp16' or 'bf16', not in '" +
                     std::string(info(precision).name) + "'");
  }
  of_size(size.input, "an input size");
  of_size(size.hidden, "a hidden size");
  of_size(size.batch, "a batch");
  of_size(size.steps * size.batch, "samples of all steps");
}

// Those of the layer, and of either program.
void add_layer(InferenceProgram& program, Builder& b, std::size_t bias_bytes) {
  const TrainingSize& size = b.size;
  const auto elements = [&](std::int64_t count) { return program.add_array(2 * static_cast<std::size_t>(count)); };
  const std::int64_t gate_rows = std::int64_t{4} * size.hidden, state = std::int64_t{size.batch} * size.hidden;
  const std::int64_t inputs = size.steps * size.batch * size.input;
  TrainingArrays& a = b.arrays;
  a.x = elements(inputs);
  a.w_ih = elements(gate_rows * size.input);
  a.w_hh = elements(gate_rows * size.hidden);
  a.b_ih = elements(gate_rows);
  a.b_hh = elements(gate_rows);
  a.h0 = elements(state);
  a.c0 = elements(state);
  a.dy = elements(size.steps * state);
  a.dhn = elements(state);
  a.dcn = elements(state);
  a.states = elements((size.steps + 1) * state);
  a.cells = elements((size.steps + 1) * state);
  a.dx = elements(inputs);
  a.dw_ih = elements(gate_rows * size.input);
  a.dw_hh = elements(gate_rows * size.hidden);
  a.db = elements(gate_rows);
  a.dh0 = elements(state);
  a.dc0 = elements(state);
  a.gates = b.gates = elements(size.steps * 4 * state);
  b.bias_sums = program.add_array(bias_bytes);
  b.status = program.add_array(4);
  program.results = b.status;
}

}  // namespace

TrainingProgram training_program(const TrainingSize& size, Precision precision, TrainingPlan plan,
                                 const std::string& architecture) {
  check_training(size, precision);
  const CompileRequest forward = without_spill(size, precision, plan.forward, false, architecture);
  const CompileRequest backward = without_spill(size, precision, plan.backward, true, architecture);
  Builder b{size, precision, plan, {}};
  InferenceProgram program;
  b.prepare = program.add_kernel(forward, "prepare");
  b.forward = program.add_kernel(forward, "recurrence");
  b.prepare_back = program.add_kernel(backward, "prepare");
  b.backward = program.add_kernel(backward, "recurrence");
  b.sum_bias = program.add_kernel(backward, "sum_bias");

  const RecurrenceShape shape = recurrence_shape(size, plan.forward, false);
  const RecurrenceShape back = recurrence_shape(size, plan.backward, true);
  add_layer(program, b, back.bias_bytes);
  b.packed = program.add_array(shape.packed_bytes);
  b.packed_transposed = program.add_array(back.packed_bytes);
  b.ring = program.add_array(shape.ring_bytes);
  b.ring_back = program.add_array(back.ring_bytes);
  program.nodes = [b](ArrayPlaces at) { return b.nodes(at); };
  return {std::move(program), b.arrays, plan};
}

TrainingProgram sparse_training_program(const TrainingSize& size, Precision precision,
                                        std::shared_ptr<const SparseTraining> sparse) {
  check_training(size, precision);
  InferenceProgram program;
  Builder b{.size = size, .precision = precision, .plan = {}, .arrays = {}, .sparse = sparse};
  b.prepare = b.prepare_back = program.add_kernel(sparse->weights, "pack");
  b.forward = program.add_kernel(sparse->forward.request, "recurrence");
  b.backward = program.add_kernel(sparse->backward.request, "recurrence");
  b.sum_bias = program.add_kernel(sparse->backward.request, "sum_bias");
  b.mask_gradient = program.add_kernel(sparse->weights, "mask_gradient");
  add_layer(program, b, sparse->backward.recurrence.bias_bytes);
  b.sparse_forward = add_arrays(program, sparse->forward.recurrence);
  b.sparse_backward = add_arrays(program, sparse->backward.recurrence);
  b.mask = program.add_array(sparse->mask);
  program.nodes = [b](ArrayPlaces at) { return b.nodes(at); };
  return {std::move(program), b.arrays, {}, std::move(sparse)};
}

}  // namespace onchip
