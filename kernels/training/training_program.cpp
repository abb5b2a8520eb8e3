// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_program.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

constexpr int kKept = 4;  // values of a unit that forward leaves: i f g o, or r z n q
// Steps of a chunk: of so many bytes of gates, and at least so many, for each chunk packs the weights and empties the
// ring anew.
constexpr std::int64_t kChunkBytes = 64 << 20, kChunkSteps = 64;
// Bytes of a lane. Careful ways free four tiles of 16 at most: moving them to shared memory is faster.
constexpr int kMostCarefulStack = 64;

using Arguments = TrainingArguments;

// Throws InputError if cuBLAS counts no so many of `what`.
int of_size(std::int64_t size, const char* what) {
  if (size < 1 || size > std::numeric_limits<int>::max()) {
    throw InputError("a training step needs " + std::string(what) + " of 1 to 2^31 - 1; found " + std::to_string(size));
  }
  return static_cast<int>(size);
}

// A program's size, its plan, and the numbers of its arrays and kernels.
//
// Copies of arrays: where the plan is aligned, of those whose rows are no whole 16 bytes. With lengths products are of
// packed rows, which are copies of x, where the caller's are padded, and of the h before each step, h0 among them.
struct Builder {
  TrainingSize size;
  Precision precision;
  DenseTrainingPlan plan;
  TrainingArrays arrays;
  bool launches = true;  // the dense recurrences
  int packed = 0, packed_transposed = 0, ring = 0, ring_back = 0, bias_sums = 0, status = 0;
  int ranks = 0, ranks_back = 0, first_gradient = 0;
  std::int64_t chunk_steps = 0;                    // of a forward that keeps nothing
  bool takes_carry = false, leaves_carry = false;  // a chunk: from the one before it, to the next
  // Of x, and then of its gradient; of y; of the weights and their gradients.
  int copied_x = 0, copied_y = 0, copied_w_ih = 0, copied_dw_ih = 0, copied_dw_hh = 0;
  int rank_samples = -1, prepare = 0, forward = 0, prepare_back = 0, backward = 0, sum_bias = 0,
      copy_back = 0;  // kernels

  bool has_lengths() const { return size.length_bytes > 0; }
  bool copies_rows() const { return plan.aligned || has_lengths(); }
  // The gradient of x is added to that of the first direction.
  bool adds_dx() const { return size.is_reverse && size.directions == 2; }
  Arguments arguments(ArrayPlaces at, const TrainingRows& rows, bool is_backward) const;
  std::vector<ProgramNode> nodes(ArrayPlaces at, const TrainingRows& rows) const {
    return rows.keeps ? halves(at, rows) : chunks(at, rows);
  }
  std::vector<ProgramNode> halves(ArrayPlaces at, const TrainingRows& rows) const;
  std::vector<ProgramNode> chunks(ArrayPlaces at, const TrainingRows& rows) const;
};

// ---- the products over all steps at once ----------------------------------------------------------------------------

struct Matrix {
  std::byte* data = nullptr;
  std::int64_t leading = 0;  // elements from one row to the next
  Matrix from_row(std::int64_t row) const { return {data + 2 * row * leading, leading}; }
};

constexpr std::int64_t aligned_columns(std::int64_t columns) {
  return (columns + 7) / 8 * 8;
}

struct Products {
  const Builder& p;
  ArrayPlaces at;
  const TrainingRows& given;
  std::int64_t all_rows = p.size.steps * p.size.batch, rows = given.products > 0 ? given.products : all_rows;
  std::int64_t gate_rows = std::int64_t{info(p.size.cell).gates} * p.size.hidden;

  Matrix kept(int array) const { return {at[array], std::int64_t{4} * p.size.hidden}; }
  Matrix gates() const { return kept(p.arrays.gates); }
  bool copies(std::int64_t columns) const { return p.plan.aligned && columns % 8 != 0; }
  bool packs_x() const { return p.has_lengths() && given.packed == 0; }
  bool copies_x() const { return packs_x() || copies(p.size.input); }

  // Row-major C [rows, columns] = op(A) op(B) + keep C, which is column-major the product of the transposed in the
  // other order. `a`, `b`: stored transposed.
  ProgramNode multiply(const char* label, Matrix c, std::int64_t c_rows, std::int64_t columns, std::int64_t depth,
                       Matrix a, bool a_transposed, Matrix b, bool b_transposed, bool keep) const {
    ProgramNode node{.label = label};
    node.product = DenseProduct{.rows = of_size(columns, "columns"),
                                .columns = of_size(c_rows, "rows"),
                                .depth = of_size(depth, "a depth"),
                                .precision = p.precision,
                                .transposed = b_transposed,
                                .transposed_b = a_transposed,
                                .a = b.data,
                                .leading_a = of_size(b.leading, "columns"),
                                .b = a.data,
                                .leading_b = of_size(a.leading, "columns"),
                                .c = c.data,
                                .leading_c = of_size(c.leading, "columns"),
                                .keep = keep ? 1.0F : 0.0F};
    return node;
  }

  // The matrix, or where its copy is.
  Matrix aligned(Matrix of, std::int64_t columns, int array) const {
    return copies(columns) ? Matrix{at[array], multiplied(columns)} : of;
  }
  Matrix x(int array) const {
    const std::int64_t input = p.size.input;
    return copies_x() ? Matrix{at[p.copied_x], multiplied(input)} : Matrix{at[array], input};
  }
  // is_needed: for other reasons than that the rows are not aligned.
  RowCopy copy(const std::byte* from, std::int64_t stride, int to, std::int64_t copied_rows, std::int64_t columns,
               bool is_needed = false) const {
    if (!copies(columns) && !is_needed) {
      return {};
    }
    const auto written = static_cast<int>(multiplied(columns));
    return {from, at[to], copied_rows, static_cast<int>(stride), written, static_cast<int>(columns), written, 0};
  }
  RowCopy copy_back(int from, std::byte* to, std::int64_t copied_rows, std::int64_t columns, bool adds,
                    bool is_needed = false) const {
    if ((!copies(columns) && !is_needed) || to == nullptr) {
      return {};
    }
    const auto count = static_cast<int>(columns);
    return {at[from], to, copied_rows, static_cast<int>(multiplied(columns)), count, count, count, adds ? 1 : 0};
  }
  // Of all positions of all samples, to their packed rows or from them.
  RowCopy mapped(RowCopy copy, RowMap map) const {
    copy.rows = copy.to == nullptr ? 0 : all_rows;
    copy.map = map;
    return copy;
  }
  RowCopy copy_x() const {
    const RowCopy made = copy(at[p.arrays.x], p.size.input, p.copied_x, rows, p.size.input, packs_x());
    return packs_x() ? mapped(made, RowMap::to_packed) : made;
  }
  RowCopy copy_dx() const {
    const RowCopy made = copy_back(p.copied_x, at[p.arrays.dx], rows, p.size.input, p.adds_dx(), packs_x());
    return packs_x() ? mapped(made, RowMap::from_packed) : made;
  }
  RowCopy copy_y() const {
    const std::int64_t hidden = p.size.hidden;
    const RowCopy made = copy(at[p.arrays.y], p.size.directions * hidden, p.copied_y, rows, hidden, p.has_lengths());
    return p.has_lengths() ? mapped(made, RowMap::to_later) : made;
  }
  std::int64_t multiplied(std::int64_t columns) const { return copies(columns) ? aligned_columns(columns) : columns; }

  // The gradient of W_hh by some steps. A GRU's last gate has its gradient for W_hh behind that for W_ih.
  void multiply_states(std::vector<ProgramNode>& nodes, const char* label, Matrix c, std::int64_t columns,
                       std::int64_t depth, Matrix of_gates, Matrix states, bool keep) const {
    const std::int64_t apart = p.size.cell == Cell::gru ? p.size.hidden : 0, first = gate_rows - apart;
    nodes.push_back(multiply(label, c, first, columns, depth, of_gates, true, states, false, keep));
    if (apart > 0) {
      of_gates.data += 2 * gate_rows;
      nodes.push_back(multiply(label, c.from_row(first), apart, columns, depth, of_gates, true, states, false, keep));
    }
  }

  // Of a step's gates and the state before it: of all steps but the first; and that of the first, where its state is
  // not zero.
  void add_recurrent_gradient(std::vector<ProgramNode>& nodes) const {
    const TrainingArrays& a = p.arrays;
    const TrainingSize& size = p.size;
    const Matrix to{at[a.dw_hh], size.hidden};
    const std::int64_t outputs = std::int64_t{size.directions} * size.hidden;
    if (p.has_lengths()) {
      const std::int64_t columns = multiplied(size.hidden);
      multiply_states(nodes, "dW_hh", aligned(to, size.hidden, p.copied_dw_hh), columns, rows, gates(),
                      {at[p.copied_y], columns}, false);
      return;
    }
    if (size.steps > 1) {
      const Matrix y = aligned({at[a.y], outputs}, size.hidden, p.copied_y);
      multiply_states(nodes, "dW_hh", aligned(to, size.hidden, p.copied_dw_hh), multiplied(size.hidden),
                      rows - size.batch, gates().from_row(size.is_reverse ? 0 : size.batch),
                      y.from_row(size.is_reverse ? size.batch : 0), false);
    } else if (at[a.h0] == nullptr) {
      nodes.push_back(fill_node("dW_hh", to.data, static_cast<std::size_t>(2 * gate_rows * size.hidden)));
    }
    if (at[a.h0] != nullptr) {
      multiply_states(nodes, "dW_hh of h0", to, size.hidden, size.batch, kept(p.first_gradient),
                      {at[a.h0], size.hidden}, size.steps > 1 && !copies(size.hidden));
    }
  }

  Matrix w_ih(int array) const {
    return aligned({at[array], p.size.input}, p.size.input, array == p.arrays.w_ih ? p.copied_w_ih : p.copied_dw_ih);
  }

  ProgramNode forward() const {
    return multiply("W_ih x", gates(), rows, gate_rows, multiplied(p.size.input), x(p.arrays.x), false,
                    w_ih(p.arrays.w_ih), true, false);
  }

  std::vector<ProgramNode> backward() const {
    const TrainingArrays& a = p.arrays;
    const std::int64_t columns = multiplied(p.size.input);
    std::vector<ProgramNode> nodes;
    if (at[a.dw_ih] != nullptr) {
      nodes.push_back(multiply("dW_ih", w_ih(a.dw_ih), gate_rows, columns, rows, gates(), true, x(a.x), false, false));
    }
    if (at[a.dw_hh] != nullptr) {
      add_recurrent_gradient(nodes);
    }
    if (at[a.dx] != nullptr) {
      nodes.push_back(multiply("dx", x(a.dx), rows, columns, gate_rows, gates(), false, w_ih(a.w_ih), false,
                               p.adds_dx() && !copies_x()));
    }
    return nodes;
  }

  // Before each of them, and behind the last.
  RowCopies before(bool is_backward) const {
    return {copy_x(), copy(at[p.arrays.w_ih], p.size.input, p.copied_w_ih, gate_rows, p.size.input),
            is_backward ? copy_y() : RowCopy{}};
  }
  RowCopies behind_backward() const {
    const bool adds = at[p.arrays.h0] != nullptr && !p.has_lengths();
    return {copy_dx(), copy_back(p.copied_dw_ih, at[p.arrays.dw_ih], gate_rows, p.size.input, false),
            p.size.steps > 1 || p.has_lengths()
                ? copy_back(p.copied_dw_hh, at[p.arrays.dw_hh], gate_rows, p.size.hidden, adds)
                : RowCopy{}};
  }
};

// In as many parts of at most `most` as there must be, the size of the largest.
constexpr std::int64_t balanced(std::int64_t whole, std::int64_t most) {
  const std::int64_t parts = (whole + most - 1) / most;
  return (whole + parts - 1) / parts;
}

// ---- the program ----------------------------------------------------------------------------------------------------

}  // namespace

TrainingHalf half_of(std::string_view label) {
  constexpr std::array<std::string_view, 4> kForward{"ranks forward", "prepare forward", "W_ih x", "forward"};
  const bool is_forward = std::ranges::any_of(kForward, [&](std::string_view name) { return label.starts_with(name); });
  return is_forward ? TrainingHalf::forward : TrainingHalf::backward;
}

CompileRequest compile_request(const TrainingSize& size, Precision precision, const RecurrencePlan& plan,
                               bool is_backward, const std::string& architecture) {
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  CompileRequest request{"training_recurrence", kTrainingRecurrenceSource, architecture, {}};
  request.most_careful_stack = kMostCarefulStack;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"precision", static_cast<int>(precision)},
           {"cell", static_cast<int>(size.cell)},
           {"backward", is_backward},
           {"hidden", size.hidden},
           {"batch", size.batch},
           {"directions", size.directions},
           {"length_bytes", size.length_bytes},
           {"sms", shape.sms},
           {"units", plan.units},
           {"batch_groups", plan.batch_groups},
           {"sub_batches", plan.sub_batches},
           {"samples", shape.samples},
           {"split", plan.split},
           {"threads", shape.threads / plan.warp_groups},
           {"warp_groups", plan.warp_groups},
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

namespace {

Arguments Builder::arguments(ArrayPlaces at, const TrainingRows& rows, bool is_backward) const {
  const auto words = [&](int array) { return array_at<std::uint32_t>(at, array); };
  std::byte* const first_cells = at[arrays.cells];
  std::byte* const other_cells = has_lengths() || first_cells == nullptr
                                     ? first_cells
                                     : first_cells + std::ptrdiff_t{2} * size.batch * size.hidden;
  return {.weights = at[arrays.w_hh],
          .packed = words(is_backward ? packed_transposed : packed),
          .ring = array_at<char>(at, is_backward ? ring_back : ring),
          .gates = at[arrays.gates],
          .cells = size.is_reverse ? first_cells : other_cells,
          .last_cells = size.is_reverse ? other_cells : first_cells,
          .output = at[arrays.y],
          .initial = at[arrays.h0],
          .initial_cell = at[arrays.c0],
          .final_state = at[arrays.hn],
          .final_cell = at[arrays.cn],
          .initial_carry = takes_carry ? array_at<float>(at, first_gradient) : nullptr,
          .final_carry = leaves_carry ? array_at<float>(at, first_gradient) : nullptr,
          .input_bias = at[arrays.b_ih],
          .recurrent_bias = at[arrays.b_hh],
          .output_gradient = at[arrays.dy],
          .final_gradient = at[arrays.dhn],
          .final_cell_gradient = at[arrays.dcn],
          .initial_gradient = at[arrays.dh0],
          .initial_cell_gradient = at[arrays.dc0],
          .bias_sums = array_at<float>(at, bias_sums),
          .input_bias_gradient = at[arrays.db],
          .recurrent_bias_gradient = at[arrays.db_hh],
          .first_gradient = at[arrays.h0] == nullptr || has_lengths() ? nullptr : at[first_gradient],
          .lengths = has_lengths() ? at[arrays.lengths] : nullptr,
          .ranks = array_at<Ranked>(at, is_backward ? ranks_back : ranks),
          .steps = size.steps,
          .keeps = rows.keeps ? 1 : 0,
          .descends = is_backward != size.is_reverse,
          .packed_rows = static_cast<int>(rows.packed > 0 ? rows.packed
                                          : rows.unit > 0 ? -rows.unit
                                                          : -size.steps * size.batch),
          .status = words(status),
          .copies = {}};
}

// The state goes from chunk to chunk where a backward has the gradient of the first gates: fp32, then as exchanged.
std::vector<ProgramNode> Builder::chunks(ArrayPlaces at, const TrainingRows& rows) const {
  const std::int64_t state = std::int64_t{size.batch} * size.hidden;
  const bool is_given = rows.chunk_steps > 0 && !has_lengths();
  const std::int64_t most_steps = is_given ? std::min(rows.chunk_steps, chunk_steps) : chunk_steps;
  std::vector<ProgramNode> all{fill_node("status", at[status], 4)};
  for (std::int64_t first = 0; first < size.steps; first += most_steps) {
    Builder chunk = *this;
    const std::int64_t steps = std::min(most_steps, size.steps - first);
    const std::int64_t begin = size.is_reverse ? size.steps - first - steps : first;
    chunk.size.steps = steps;
    chunk.takes_carry = first > 0;
    chunk.leaves_carry = first + steps < size.steps;
    std::vector<std::byte*> places(at.begin(), at.end());
    places[arrays.x] += 2 * begin * size.batch * size.input;
    places[arrays.y] += 2 * begin * size.directions * state;
    if (chunk.takes_carry) {
      places[arrays.h0] = at[first_gradient] + 4 * state;
    }
    if (chunk.leaves_carry) {
      places[arrays.hn] = at[first_gradient] + 4 * state;
      places[arrays.cn] = nullptr;
    }
    for (ProgramNode& node : chunk.halves(places, rows)) {
      if (half_of(node.label) == TrainingHalf::forward) {
        node.stream = 0;
        node.after = {};
        all.push_back(std::move(node));
      }
    }
  }
  return all;
}

std::vector<ProgramNode> Builder::halves(ArrayPlaces at, const TrainingRows& rows) const {
  const Products products{*this, at, rows};
  constexpr int kPrepareThreads = 256, kPrepareBlocks = 528;
  const auto arguments = [&](bool is_backward) { return this->arguments(at, rows, is_backward); };
  const auto recurrence = [&](const char* label, int kernel, bool is_backward) {
    const RecurrenceShape shape =
        launches ? recurrence_shape(size, is_backward ? plan.backward : plan.forward, is_backward) : RecurrenceShape{};
    ProgramNode node =
        launch_node(label, kernel, shape.blocks, shape.threads, shape.shared_bytes, arguments(is_backward));
    node.cooperative = true;
    return node;
  };
  const auto with_copies = [&](const char* label, int kernel, bool is_backward, const RowCopies& copies) {
    Arguments of_kernel = arguments(is_backward);
    std::ranges::copy(copies, of_kernel.copies);
    return launch_node(label, kernel, kPrepareBlocks, kPrepareThreads, 0, of_kernel);
  };
  std::vector<ProgramNode> all{fill_node("status", at[status], 4)};
  const auto push = [&](ProgramNode node, int stream, std::vector<int> after) {
    return add_node(all, std::move(node), stream, std::move(after));
  };
  // Preparations are beside what they do not copy for.
  const auto prepare_half = [&](bool is_backward, int after) {
    if (has_lengths()) {
      constexpr int kRankThreads = 128;
      const auto blocks = static_cast<int>((size.batch + size.steps + kRankThreads) / kRankThreads);
      push(launch_node(is_backward ? "ranks backward" : "ranks forward", rank_samples, blocks, kRankThreads, 0,
                       arguments(is_backward)),
           1, {after});
    }
    return push(with_copies(is_backward ? "prepare backward" : "prepare forward", is_backward ? prepare_back : prepare,
                            is_backward, products.before(is_backward)),
                1, {after});
  };
  const int prepared = prepare_half(false, 0);
  const int last = push(products.forward(), 0, copies_rows() ? std::vector{prepared} : std::vector<int>());
  int prepared_back = copies_rows() ? 0 : prepare_half(true, last);
  const int forwarded = push(recurrence("forward", forward, false), 0, {prepared});
  if (copies_rows()) {
    prepared_back = prepare_half(true, forwarded);
  }
  push(recurrence("backward", backward, true), 0, {prepared_back});
  for (ProgramNode& node : products.backward()) {
    push(std::move(node), 0, {});
  }
  if (at[arrays.db] != nullptr || at[arrays.db_hh] != nullptr) {
    push(launch_node("db", sum_bias, (kKept * size.hidden + 127) / 128, 128, 0, arguments(true)), 0, {});
  }
  const RowCopies behind = products.behind_backward();
  if (std::ranges::any_of(behind, [](const RowCopy& copy) { return copy.rows > 0; })) {
    push(with_copies("copies back", copy_back, true, behind), 0, {});
  }
  return all;
}

void check_trainable(const TrainingSize& size, Precision precision) {
  if (precision != Precision::fp16 && precision != Precision::bf16) {
    throw InputError("layers are trained on the chip in 'fp16' or 'bf16', not in '" +
                     std::string(info(precision).name) + "'");
  }
  if (size.cell != Cell::lstm && size.cell != Cell::gru) {
    throw InputError("the cell '" + std::string(info(size.cell).name) +
                     "' has no training kernels; 'lstm' and 'gru' have");
  }
  of_size(size.input, "an input size");
  of_size(size.hidden, "a hidden size");
  of_size(size.batch, "a batch");
  of_size(size.steps * size.batch, "samples of all steps");
}

// What goes in and comes out, and what is kept between the passes.
TrainingArrays add_arrays(KernelProgram& program, const TrainingSize& size, bool has_lengths) {
  const auto elements = [&](std::int64_t count) { return program.add_array(2 * static_cast<std::size_t>(count)); };
  const std::int64_t gate_rows = std::int64_t{info(size.cell).gates} * size.hidden;
  const std::int64_t state = std::int64_t{size.batch} * size.hidden, cell = size.cell == Cell::lstm ? state : 0;
  const std::int64_t inputs = size.steps * size.batch * size.input;
  TrainingArrays a;
  a.x = elements(inputs);
  a.w_ih = elements(gate_rows * size.input);
  a.w_hh = elements(gate_rows * size.hidden);
  a.b_ih = elements(gate_rows);
  a.b_hh = elements(gate_rows);
  a.h0 = elements(state);
  a.c0 = elements(cell);
  a.dhn = elements(state);
  a.dcn = elements(cell);
  a.lengths = program.add_array(static_cast<std::size_t>(size.batch) * std::max(size.length_bytes, 1));
  a.y = elements(size.steps * size.directions * state);
  a.dy = elements(size.steps * size.directions * state);
  a.hn = elements(state);
  a.cn = elements(cell);
  a.cells = elements((size.steps + (has_lengths ? 0 : 1)) * cell);
  a.dx = elements(inputs);
  a.dw_ih = elements(gate_rows * size.input);
  a.dw_hh = elements(gate_rows * size.hidden);
  a.db = elements(gate_rows);
  a.db_hh = elements(gate_rows);
  a.dh0 = elements(state);
  a.dc0 = elements(cell);
  a.gates = elements(size.steps * kKept * state);
  return a;
}

}  // namespace

TrainingProgram training_program(const TrainingSize& size, Precision precision, const DenseTrainingPlan& plan,
                                 const std::string& architecture, const RecurrenceKernels* instead) {
  check_trainable(size, precision);
  const CompileRequest forward =
      instead ? instead->forward : compile_request(size, precision, plan.forward, false, architecture);
  const CompileRequest backward =
      instead ? instead->backward : compile_request(size, precision, plan.backward, true, architecture);
  Builder b{size, precision, plan, {}, instead == nullptr};
  KernelProgram program;
  b.prepare = program.add_kernel(instead ? instead->prepare : forward, "prepare");
  b.forward = program.add_kernel(forward, "recurrence");
  b.prepare_back = program.add_kernel(instead ? instead->prepare : backward, "prepare");
  b.backward = program.add_kernel(backward, "recurrence");
  b.sum_bias = program.add_kernel(backward, "sum_bias");
  b.rank_samples = b.has_lengths() ? program.add_kernel(forward, "rank_samples") : -1;
  b.copy_back = b.copies_rows() ? program.add_kernel(backward, "copy_back") : -1;

  const std::int64_t state = std::int64_t{size.batch} * size.hidden;
  b.arrays = add_arrays(program, size, b.has_lengths());
  const RecurrenceShape shape = instead ? RecurrenceShape{} : recurrence_shape(size, plan.forward, false);
  const RecurrenceShape back = instead ? RecurrenceShape{} : recurrence_shape(size, plan.backward, true);
  b.packed = program.add_array(shape.packed_bytes);
  b.packed_transposed = program.add_array(back.packed_bytes);
  b.ring = program.add_array(shape.ring_bytes);
  b.ring_back = program.add_array(back.ring_bytes);
  b.bias_sums = program.add_array(instead ? instead->bias_bytes : back.bias_bytes);
  const std::size_t ranks_bytes = b.has_lengths() ? 8 * size.batch + sizeof(int) * (size.steps + 1) : 0;
  b.ranks = program.add_array(ranks_bytes);
  b.ranks_back = program.add_array(ranks_bytes);
  b.first_gradient = program.add_array(2 * static_cast<std::size_t>(4 * state));
  const auto copied = [&](bool is_copied, std::int64_t rows, std::int64_t columns) {
    return is_copied ? program.add_array(2 * static_cast<std::size_t>(rows * aligned_columns(columns))) : 0;
  };
  const std::int64_t all_rows = size.steps * size.batch, gate_rows = std::int64_t{info(size.cell).gates} * size.hidden;
  b.copied_x = copied(b.copies_rows(), all_rows, size.input);
  b.copied_y = copied(b.copies_rows(), all_rows, size.hidden);
  b.copied_w_ih = copied(plan.aligned, gate_rows, size.input);
  b.copied_dw_ih = copied(plan.aligned, gate_rows, size.input);
  b.copied_dw_hh = copied(plan.aligned, gate_rows, size.hidden);
  b.status = program.add_array(4);
  const std::int64_t most_steps = std::max(kChunkSteps, kChunkBytes / (2 * kKept * state));
  b.chunk_steps = balanced(size.steps, b.has_lengths() ? size.steps : most_steps);
  std::vector<std::pair<int, std::size_t>> forward_arrays;
  for (const int array : {b.packed, b.ring, b.ranks, b.first_gradient}) {
    forward_arrays.emplace_back(array, program.arrays[array].bytes);
  }
  const auto of_chunk = [&](int array) {
    forward_arrays.emplace_back(array, program.arrays[array].bytes / size.steps * b.chunk_steps);
  };
  of_chunk(b.arrays.gates);
  if (b.copies_rows()) {
    of_chunk(b.copied_x);
  }
  if (plan.aligned) {
    forward_arrays.emplace_back(b.copied_w_ih, program.arrays[b.copied_w_ih].bytes);
  }
  program.results = b.status;
  program.nodes = [b](ArrayPlaces at) { return b.nodes(at, {}); };
  return {.program = std::move(program),
          .arrays = b.arrays,
          .plan = plan,
          .ranks = b.ranks,
          .ranks_back = b.ranks_back,
          .nodes_of_rows = [b](ArrayPlaces at, const TrainingRows& rows) { return b.nodes(at, rows); },
          .forward_arrays = std::move(forward_arrays)};
}

}  // namespace onchip
