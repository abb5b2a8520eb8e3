// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_program.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/dense/plan.hpp"
#include "model/training/memory.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

using Arguments = TrainingArguments;
static_assert(kMostStacked == kMostLayersAtOnce);
constexpr int kSingleStepThreads = 256;

// Throws InputError if cuBLAS counts no so many of `what`.
int of_size(std::int64_t size, const char* what) {
  if (size < 1 || size > std::numeric_limits<int>::max()) {
    throw InputError("a training step needs " + std::string(what) + " of 1 to 2^31 - 1; found " + std::to_string(size));
  }
  return static_cast<int>(size);
}

// A program's size, its plan, and the numbers of its arrays and kernels.
//
// Copies of arrays: of a dense layer, of those whose rows are no whole 16 bytes. With lengths products are of packed
// rows, which are copies of x, where the caller's are padded, and of the h before each step, h0 among them.
struct Builder {
  TrainingSize size;
  Precision precision;
  DenseTrainingPlan plan;
  TrainingArrays arrays;
  bool is_dense = true;  // else the recurrences are not launched yet
  int packed = 0, packed_transposed = 0, ring = 0, ring_back = 0, bias_sums = 0, status = 0;
  int ranks = 0, ranks_back = 0, gates = 0, cells = 0;
  int carry = 0;  // between chunks: fp32, and what is exchanged of the state
  std::int64_t chunk_steps = 0;
  // Of x, and then of its gradient; of y; of the weights and their gradients, which chunks add up there, in fp32.
  int copied_x = 0, copied_y = 0, copied_w_ih = 0, copied_w_hh = 0, copied_dw_ih = 0, copied_dw_hh = 0;
  int rank_samples = -1, prepare = 0, forward = 0, recompute = 0, prepare_back = 0, backward = 0, sum_bias = 0,
      copy_back = 0;         // kernels
  int forward_below = 0;     // of a stack's groups but the last, whose outputs have rows of whole 16 bytes
  bool is_replayed = false;  // others may have used the packed weights since the chunk before
  // Of layers that are on the SMs at once, from the first on, where no backward follows; else none.
  std::vector<TrainingArrays> stacked = {};
  int progress = 0;
  bool has_aligned_x = false;               // rows of x, which layers below have written, are whole 16 bytes
  std::vector<RowCopy> weight_copies = {};  // of a stack's first chunk, of all its layers
  RowCopy state_before = {};                // of a chunk that is replayed, to the row before its outputs
  // A chunk: whether there are steps before and after it, in the order of the recurrence; the state's carry there.
  bool has_before = false, has_after = false;
  float *carry_before = nullptr, *carry_after = nullptr;

  bool has_lengths() const { return size.length_bytes > 0; }
  bool recomputes() const { return plan.stash == Stash::cells; }
  bool copies(std::int64_t columns) const { return is_dense && columns != aligned_columns(columns); }
  std::int64_t multiplied(std::int64_t columns) const { return copies(columns) ? aligned_columns(columns) : columns; }
  bool copies_rows() const { return copies(size.input) || copies(size.hidden) || has_lengths(); }
  bool sums_chunks() const { return is_replayed || has_before || has_after; }
  // The gradient of x is added to that of the first direction; of chunks, which go the other way there, to zeros.
  bool adds_dx() const { return size.directions == 2 && (size.is_reverse || sums_chunks()); }
  Arguments arguments(ArrayPlaces at, const TrainingRows& rows, bool is_backward) const;
  ProgramNode launch(const std::string& label, int kernel, int blocks, int threads, std::size_t shared_bytes,
                     const Arguments& of, ArrayPlaces at) const;
  std::vector<ProgramNode> nodes(ArrayPlaces at, const TrainingRows& rows) const;
  std::vector<ProgramNode> halves(ArrayPlaces at, const TrainingRows& rows) const;
  void add_chunks(std::vector<ProgramNode>& all, ArrayPlaces at, const TrainingRows& rows, TrainingHalf half) const;
};

// ---- the products over all steps at once ----------------------------------------------------------------------------

struct Matrix {
  std::byte* data = nullptr;
  std::int64_t leading = 0;  // elements from one row to the next
  int element_bytes = 2;     // 4: fp32
  Matrix from_row(std::int64_t row) const { return {data + element_bytes * row * leading, leading, element_bytes}; }
};

struct Products {
  const Builder& p;
  ArrayPlaces at;
  const TrainingRows& given;
  std::int64_t all_rows = p.size.steps * p.size.batch, rows = given.products > 0 ? given.products : all_rows;
  std::int64_t gate_columns = p.multiplied(p.size.hidden), gate_rows = info(p.size.cell).gates * gate_columns;

  Matrix gates() const { return {at[p.gates], kKeptValues * gate_columns}; }
  bool packs_x() const { return p.has_lengths() && given.packed == 0; }
  bool copies_x() const { return packs_x() || (p.copies(p.size.input) && !p.has_aligned_x); }
  bool copies_weights(std::int64_t columns) const { return p.copies(columns) || p.copies(p.size.hidden); }

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
                                .keep = keep ? 1.0F : 0.0F,
                                .sums_in_fp32 = c.element_bytes == 4};
    return node;
  }

  // Weights, or where their copy is.
  Matrix weights(int array, std::int64_t columns, int copied) const {
    return copies_weights(columns) ? Matrix{at[copied], p.multiplied(columns)} : Matrix{at[array], columns};
  }
  Matrix x(int array) const {
    const std::int64_t input = p.size.input;
    return copies_x() ? Matrix{at[p.copied_x], p.multiplied(input)}
                      : Matrix{at[array], p.has_aligned_x ? p.multiplied(input) : input};
  }
  RowCopy copy(bool is_needed, const std::byte* from, std::int64_t stride, int to, std::int64_t copied_rows,
               std::int64_t columns) const {
    if (!is_needed) {
      return {};
    }
    const auto written = static_cast<int>(p.multiplied(columns));
    return {from, at[to], copied_rows, static_cast<int>(stride), written, static_cast<int>(columns), written, 0};
  }
  RowCopy copy_back(bool is_needed, int from, std::byte* to, std::int64_t copied_rows, std::int64_t columns) const {
    if (!is_needed || to == nullptr) {
      return {};
    }
    const auto count = static_cast<int>(columns);
    return {at[from], to, copied_rows, static_cast<int>(p.multiplied(columns)), count, count, count, 0};
  }
  RowCopy copy_weights(int array, std::int64_t columns, int copied) const {
    RowCopy made = copy(copies_weights(columns), at[array], columns, copied, gate_rows, columns);
    made.map = p.copies(p.size.hidden) ? RowMap::to_gates : RowMap::same;
    return made;
  }
  // Of a gradient of weights, behind the last chunk.
  RowCopy copy_sums(int from, std::byte* to, std::int64_t columns) const {
    const bool is_needed = !p.is_replayed && !p.has_before && (copies_weights(columns) || p.sums_chunks());
    RowCopy made = copy_back(is_needed, from, to, std::int64_t{info(p.size.cell).gates} * p.size.hidden, columns);
    made.map = p.copies(p.size.hidden) ? RowMap::from_gates : RowMap::same;
    made.is_fp32 = p.sums_chunks() ? 1 : 0;
    return made;
  }
  // Of all positions of all samples, to their packed rows or from them.
  RowCopy mapped(RowCopy copy, RowMap map) const {
    copy.rows = copy.to == nullptr ? 0 : all_rows;
    copy.map = map;
    return copy;
  }
  RowCopy copy_x() const {
    const RowCopy made = copy(copies_x(), at[p.arrays.x], p.size.input, p.copied_x, rows, p.size.input);
    return packs_x() ? mapped(made, RowMap::to_packed) : made;
  }
  RowCopy copy_dx() const {
    RowCopy made = copy_back(copies_x(), p.copied_x, at[p.arrays.dx], rows, p.size.input);
    made.adds = p.adds_dx() ? 1 : 0;
    return packs_x() ? mapped(made, RowMap::from_packed) : made;
  }
  RowCopy copy_y() const {
    const std::int64_t hidden = p.size.hidden, more = p.has_before ? p.size.batch : 0;
    const Matrix from = y().from_row(p.size.is_reverse ? 0 : -more);
    const bool is_needed = p.copies(hidden) || p.has_lengths();
    const RowCopy made = copy(is_needed, from.data, from.leading, p.copied_y, rows + more, hidden);
    return p.has_lengths() ? mapped(made, RowMap::to_later) : made;
  }
  Matrix y() const { return {at[p.arrays.y], std::int64_t{p.size.directions} * p.size.hidden}; }

  // The gradient of W_hh by some steps. A GRU's last gate has its gradient for W_hh behind that for W_ih.
  void multiply_states(std::vector<ProgramNode>& nodes, const char* label, Matrix c, std::int64_t columns,
                       std::int64_t depth, Matrix of_gates, Matrix states, bool keep) const {
    const std::int64_t apart = p.size.cell == Cell::gru ? gate_columns : 0, first = gate_rows - apart;
    nodes.push_back(multiply(label, c, first, columns, depth, of_gates, true, states, false, keep));
    if (apart > 0) {
      of_gates.data += 2 * gate_rows;
      nodes.push_back(multiply(label, c.from_row(first), apart, columns, depth, of_gates, true, states, false, keep));
    }
  }

  // The states before steps, from row `first_row` of the gates on: of all steps, or of all but the very first.
  struct Before {
    Matrix states;
    std::int64_t rows, first_row;
  };
  Before before_steps() const {
    if (p.has_lengths()) {
      return {{at[p.copied_y], p.multiplied(p.size.hidden)}, rows, 0};
    }
    const std::int64_t missing = p.has_before ? 0 : p.size.batch;
    const Matrix all = p.copies(p.size.hidden) ? Matrix{at[p.copied_y], gate_columns}
                                               : y().from_row(p.size.is_reverse || missing > 0 ? 0 : -p.size.batch);
    return {all.from_row(p.size.is_reverse ? p.size.batch : 0), rows - missing, p.size.is_reverse ? 0 : missing};
  }
  // Those of the very first step, where there is h0.
  bool has_first() const { return at[p.arrays.h0] != nullptr && !p.has_lengths() && !p.has_before; }
  Matrix first_gates() const { return gates().from_row(p.size.is_reverse ? rows - p.size.batch : 0); }
  Matrix h0() const { return {at[p.arrays.h0], p.size.hidden}; }

  // What is added up over chunks, or over all steps at once.
  Matrix sums(int array, std::int64_t columns, int copied) const {
    return p.sums_chunks() ? Matrix{at[copied], p.multiplied(columns), 4} : weights(array, columns, copied);
  }

  // dW_hh: of all steps but the first, and that of the first, where its state is not zero.
  void add_recurrent_gradient(std::vector<ProgramNode>& nodes) const {
    const std::int64_t hidden = p.size.hidden;
    const Before before = before_steps();
    const Matrix to = sums(p.arrays.dw_hh, hidden, p.copied_dw_hh);
    if (before.rows > 0) {
      multiply_states(nodes, "dW_hh", to, p.multiplied(hidden), before.rows, gates().from_row(before.first_row),
                      before.states, p.has_after);
    } else if (!has_first() && !p.has_after) {
      nodes.push_back(fill_node("dW_hh", to.data, static_cast<std::size_t>(to.element_bytes * gate_rows * to.leading)));
    }
    if (has_first()) {
      multiply_states(nodes, "dW_hh of h0", to, hidden, p.size.batch, first_gates(), h0(),
                      p.has_after || before.rows > 0);
    }
  }

  // W_ih x + W_hh h; of a GRU's last gate the second apart, where q is.
  std::vector<ProgramNode> gates_anew() const {
    const std::int64_t hidden = p.size.hidden, apart = p.size.cell == Cell::gru ? gate_columns : 0;
    const std::int64_t first = gate_rows - apart;
    std::vector<ProgramNode> nodes{forward()};
    nodes[0].label = "gates W_ih x";
    const Matrix w_hh = weights(p.arrays.w_hh, hidden, p.copied_w_hh);
    const auto add = [&](Matrix to, std::int64_t of_rows, Matrix states, std::int64_t depth) {
      nodes.push_back(multiply("gates W_hh h", to, of_rows, first, depth, states, false, w_hh, true, true));
      if (apart > 0) {
        to.data += 2 * gate_rows;
        nodes.push_back(
            multiply("gates W_hh h", to, of_rows, apart, depth, states, false, w_hh.from_row(first), true, false));
      }
    };
    if (const Before before = before_steps(); before.rows > 0) {
      add(gates().from_row(before.first_row), before.rows, before.states, p.multiplied(hidden));
    }
    if (has_first()) {
      add(first_gates(), p.size.batch, h0(), hidden);
    }
    return nodes;
  }

  Matrix w_ih() const { return weights(p.arrays.w_ih, p.size.input, p.copied_w_ih); }

  ProgramNode forward() const {
    return multiply("W_ih x", gates(), rows, gate_rows, p.multiplied(p.size.input), x(p.arrays.x), false, w_ih(), true,
                    false);
  }

  std::vector<ProgramNode> backward() const {
    const TrainingArrays& a = p.arrays;
    const std::int64_t columns = p.multiplied(p.size.input);
    std::vector<ProgramNode> nodes;
    if (at[a.dw_ih] != nullptr) {
      nodes.push_back(multiply("dW_ih", sums(a.dw_ih, p.size.input, p.copied_dw_ih), gate_rows, columns, rows, gates(),
                               true, x(a.x), false, p.has_after));
    }
    if (at[a.dw_hh] != nullptr) {
      add_recurrent_gradient(nodes);
    }
    if (at[a.dx] != nullptr) {
      nodes.push_back(
          multiply("dx", x(a.dx), rows, columns, gate_rows, gates(), false, w_ih(), false, p.adds_dx() && !copies_x()));
    }
    return nodes;
  }

  // Whether a chunk before this one has the weights ready.
  bool is_packed(bool is_backward) const { return !p.is_replayed && (is_backward ? p.has_after : p.has_before); }
  // Before each of them, and behind the last.
  RowCopies before(bool is_backward) const {
    RowCopies copies{copy_x(), {}, is_backward ? RowCopy{} : p.state_before};
    if (!is_packed(is_backward)) {
      copies[1] = copy_weights(p.arrays.w_ih, p.size.input, p.copied_w_ih);
    }
    if (is_backward) {
      copies[2] = copy_y();
    }
    if (is_backward && p.recomputes() && !is_packed(true)) {
      copies[3] = copy_weights(p.arrays.w_hh, p.size.hidden, p.copied_w_hh);
    }
    return copies;
  }
  RowCopies behind_backward() const {
    return {copy_dx(), copy_sums(p.copied_dw_ih, at[p.arrays.dw_ih], p.size.input),
            copy_sums(p.copied_dw_hh, at[p.arrays.dw_hh], p.size.hidden)};
  }
};

// ---- the program ----------------------------------------------------------------------------------------------------

}  // namespace

TrainingHalf half_of(std::string_view label) {
  constexpr std::array<std::string_view, 4> kForward{"ranks forward", "prepare forward", "W_ih x", "forward"};
  const bool is_forward = std::ranges::any_of(kForward, [&](std::string_view name) { return label.starts_with(name); });
  return is_forward ? TrainingHalf::forward : TrainingHalf::backward;
}

CompileRequest compile_request(const TrainingSize& size, Precision precision, const RecurrencePlan& plan,
                               bool is_backward, const std::string& architecture, std::int64_t output_stride) {
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  CompileRequest request{"training_recurrence", kTrainingRecurrenceSource, architecture, {}};
  // Else tiles go to shared memory, where more of them have room: the most that any chip gives a block.
  constexpr std::size_t kSharedBytes = 227 << 10, kFewTiles = 4;
  request.may_be_careful =
      plan.shared_tiles == shape.tiles || shape.shared_bytes + kFewTiles * plan.warps * kTileBytes > kSharedBytes;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"precision", static_cast<int>(precision)},
           {"cell", static_cast<int>(size.cell)},
           {"backward", is_backward},
           {"hidden", size.hidden},
           {"gate_columns", aligned_columns(size.hidden)},
           {"output_stride", output_stride > 0 ? output_stride : std::int64_t{size.directions} * size.hidden},
           {"length_bytes", size.length_bytes},
           {"sms", shape.sms},
           {"units", plan.units},
           {"batch_groups", plan.batch_groups},
           {"sub_batches", plan.sub_batches},
           {"samples", shape.samples},
           {"split", plan.split},
           {"threads", shape.threads / plan.warp_groups},
           {"warp_groups", plan.warp_groups},
           {"launches", plan.launches},
           {"layers", plan.layers},
           {"interleaved", plan.interleaved},
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
  std::byte* const first_cells = at[cells];
  std::byte* const other_cells = has_lengths() || first_cells == nullptr
                                     ? first_cells
                                     : first_cells + std::ptrdiff_t{2} * size.batch * size.hidden;
  return {.weights = at[arrays.w_hh],
          .packed = words(is_backward ? packed_transposed : packed),
          .ring = array_at<char>(at, is_backward ? ring_back : ring),
          .gates = at[gates],
          .cells = size.is_reverse ? first_cells : other_cells,
          .last_cells = size.is_reverse ? other_cells : first_cells,
          .output = at[arrays.y],
          .initial = at[arrays.h0],
          .initial_cell = at[arrays.c0],
          .final_state = at[arrays.hn],
          .final_cell = at[arrays.cn],
          .initial_carry = is_backward ? (has_after ? array_at<float>(at, carry) : nullptr) : carry_before,
          .final_carry = is_backward ? (has_before ? array_at<float>(at, carry) : nullptr) : carry_after,
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
          .lengths = has_lengths() ? at[arrays.lengths] : nullptr,
          .ranks = array_at<Ranked>(at, is_backward ? ranks_back : ranks),
          .steps = size.steps,
          .batch = size.batch,
          .keeps = rows.keeps && !recomputes(),
          .continues = has_before,
          .descends = is_backward != size.is_reverse,
          .packed_rows = static_cast<int>(rows.packed > 0 ? rows.packed
                                          : rows.unit > 0 ? -rows.unit
                                                          : -size.steps * size.batch),
          .first_sample = 0,
          .status = words(status),
          .copies = {}};
}

ProgramNode Builder::launch(const std::string& label, int kernel, int blocks, int threads, std::size_t shared_bytes,
                            const Arguments& of, ArrayPlaces at) const {
  if (plan.forward.layers == 1) {
    return launch_node(label, kernel, blocks, threads, shared_bytes, of);
  }
  StackArguments of_stack{of, static_cast<int>(stacked.size()), array_at<std::uint32_t>(at, progress), {}};
  for (std::size_t layer = 0; layer < stacked.size(); ++layer) {
    const TrainingArrays& a = stacked[layer];
    of_stack.stacked[layer] = {.w_ih = layer > 0 ? at[a.w_ih] : nullptr,
                               .w_hh = at[a.w_hh],
                               .input_bias = at[a.b_ih],
                               .recurrent_bias = at[a.b_hh],
                               .initial = at[a.h0],
                               .initial_cell = at[a.c0],
                               .final_state = at[a.hn],
                               .final_cell = at[a.cn]};
  }
  return launch_node(label, kernel, blocks, threads, shared_bytes, of_stack);
}

std::vector<ProgramNode> Builder::nodes(ArrayPlaces at, const TrainingRows& rows) const {
  if (rows.keeps && !recomputes()) {
    return halves(at, rows);
  }
  std::vector<ProgramNode> all{fill_node("status", at[status], 4)};
  add_chunks(all, at, rows, TrainingHalf::forward);
  if (rows.keeps) {
    add_chunks(all, at, rows, TrainingHalf::backward);
  }
  return all;
}

// A half, chunk by chunk: each is a layer of fewer steps, whose first and last states are those of its neighbours.
void Builder::add_chunks(std::vector<ProgramNode>& all, ArrayPlaces at, const TrainingRows& rows,
                         TrainingHalf half) const {
  const bool is_backward = half == TrainingHalf::backward;
  const std::int64_t state = std::int64_t{size.batch} * size.hidden;
  const std::int64_t count = chunk_count(size, plan);
  std::byte* const exchanged = at[carry] == nullptr ? nullptr : at[carry] + 4 * state;
  const bool has_kept = recomputes() && size.cell == Cell::lstm && at[arrays.kept] != nullptr;
  if (is_backward && count > 1 && size.directions == 2 && !size.is_reverse && at[arrays.dx] != nullptr) {
    all.push_back(fill_node("dx", at[arrays.dx], static_cast<std::size_t>(2 * size.steps * size.batch * size.input)));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = is_backward ? count - 1 - i : i;
    const std::int64_t first = number * chunk_steps, steps = std::min(chunk_steps, size.steps - first);
    const std::int64_t begin = size.is_reverse ? size.steps - first - steps : first;
    Builder chunk = *this;
    chunk.size.steps = steps;
    chunk.has_before = number > 0;
    chunk.has_after = number + 1 < count;
    std::vector<std::byte*> places(at.begin(), at.end());
    for (const auto& [array, columns] : {std::pair{arrays.x, size.input},
                                         {arrays.dx, size.input},
                                         {arrays.y, size.directions * size.hidden},
                                         {arrays.dy, size.directions * size.hidden}}) {
      places[array] += places[array] == nullptr ? 0 : 2 * begin * size.batch * columns;
    }
    // The state's fp32 and what is exchanged of it; c stays for backward.
    const auto carry_at = [&](std::int64_t of) {
      return has_kept ? array_at<float>(at, arrays.kept) + of * state : array_at<float>(at, carry);
    };
    if (chunk.has_before) {
      chunk.carry_before = carry_at(number - 1);
      places[arrays.h0] = exchanged;
      places[arrays.dh0] = places[arrays.dc0] = nullptr;
    }
    if (chunk.has_after) {
      chunk.carry_after = carry_at(number);
      places[arrays.hn] = exchanged;
      places[arrays.cn] = nullptr;
    }
    for (ProgramNode& node : chunk.halves(places, rows)) {
      if (node.label != "status" && half_of(node.label) == half) {
        node.stream = 0;
        node.after = {};
        all.push_back(std::move(node));
      }
    }
  }
}

// Null where there is no array.
std::byte* behind(std::byte* place, std::int64_t bytes) {
  return place == nullptr ? nullptr : place + bytes;
}

// A stack that is replayed: layers with arrays of their own, and kernels, packed weights, ring and status in common.
struct ReplayBuilder {
  std::vector<Builder> layers;
  std::vector<int> chunk_y, chunk_dy;  // of all layers but the last: [chunk_steps + 1, batch, hidden], without the + 1

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    std::vector<ProgramNode> all{fill_node("status", at[layers[0].status], 4)};
    const std::int64_t count = chunk_count(layers[0].size, layers[0].plan);
    const std::size_t last = layers.size() - 1;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::size_t layer = 0; layer <= last; ++layer) {
        add_chunk(all, at, layer, i, TrainingHalf::forward, false);
      }
    }
    for (std::int64_t i = count; i-- > 0;) {
      for (std::size_t layer = 0; layer <= last; ++layer) {
        add_chunk(all, at, layer, i, TrainingHalf::forward, true);
      }
      for (std::size_t layer = layers.size(); layer-- > 0;) {
        add_chunk(all, at, layer, i, TrainingHalf::backward, true);
      }
    }
    return all;
  }

  // `keeps`: it belongs to the backward half, and the state behind the chunk is there already.
  void add_chunk(std::vector<ProgramNode>& all, ArrayPlaces at, std::size_t layer, std::int64_t number,
                 TrainingHalf half, bool keeps) const {
    Builder chunk = layers[layer];
    const TrainingArrays& a = chunk.arrays;
    const bool is_last = layer + 1 == layers.size();
    const std::int64_t state = std::int64_t{chunk.size.batch} * chunk.size.hidden;
    const std::int64_t count = chunk_count(chunk.size, chunk.plan), begin = number * chunk.chunk_steps;
    chunk.size.steps = std::min(chunk.chunk_steps, chunk.size.steps - begin);
    chunk.has_before = number > 0;
    chunk.has_after = number + 1 < count;
    std::vector<std::byte*> places(at.begin(), at.end());
    const auto from_step = [&](int array, std::int64_t columns) {
      places[array] += places[array] == nullptr ? 0 : 2 * begin * chunk.size.batch * columns;
    };
    from_step(a.x, chunk.size.input);
    from_step(a.dx, chunk.size.input);
    from_step(a.y, chunk.size.hidden);
    from_step(a.dy, chunk.size.hidden);
    if (layer > 0) {
      places[a.x] = behind(at[chunk_y[layer - 1]], 2 * state);
      places[a.dx] = at[chunk_dy[layer - 1]];
    }
    if (!is_last) {
      places[a.y] = behind(at[chunk_y[layer]], 2 * state);
      places[a.dy] = at[chunk_dy[layer]];
    }
    // What is kept of the states behind chunks: [layers][count - 1] in fp32, then h of all layers but the last, whose h
    // is in y.
    std::byte* const kept = at[layers[0].arrays.kept];
    const auto number_of_state = [&](std::int64_t of) { return static_cast<std::int64_t>(layer) * (count - 1) + of; };
    const auto carry_behind = [&](std::int64_t of) {
      return reinterpret_cast<float*>(behind(kept, 4 * number_of_state(of) * state));
    };
    const auto h_behind = [&](std::int64_t of) {
      const auto carries = static_cast<std::int64_t>(layers.size()) * (count - 1);
      return is_last ? behind(places[a.y], -2 * state) : behind(kept, (4 * carries + 2 * number_of_state(of)) * state);
    };
    if (chunk.has_before) {
      chunk.carry_before = carry_behind(number - 1);
      places[a.h0] = h_behind(number - 1);
      places[a.dh0] = places[a.dc0] = nullptr;
      if (!is_last && keeps) {
        const auto hidden = static_cast<int>(chunk.size.hidden);
        chunk.state_before = {places[a.h0], at[chunk_y[layer]], chunk.size.batch, hidden, hidden, hidden, hidden, 0};
      }
    }
    if (keeps) {
      places[a.hn] = places[a.cn] = nullptr;
    } else if (chunk.has_after) {
      chunk.carry_after = carry_behind(number);
      places[a.hn] = is_last ? nullptr : h_behind(number);
      places[a.cn] = nullptr;
    }
    for (ProgramNode& node : chunk.halves(places, {.keeps = keeps})) {
      if (node.label != "status" && half_of(node.label) == half) {
        node.label = keeps && half == TrainingHalf::forward ? "again " + node.label : node.label;
        node.stream = 0;
        node.after = {};
        all.push_back(std::move(node));
      }
    }
  }
};

// A stack without a stash: of each chunk of steps one group of layers after another.
struct StackBuilder {
  std::vector<Builder> groups;
  std::vector<int> chunk_y;  // of all groups but the last: [chunk_steps, batch, hidden], rows of whole 16 bytes

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    std::vector<ProgramNode> all{fill_node("status", at[groups[0].status], 4)};
    const std::int64_t steps = groups[0].size.steps, chunk = groups[0].chunk_steps;
    for (std::size_t group = 1; group < groups.size() && groups[0].copies(groups[0].size.hidden); ++group) {
      const std::int64_t row = 2 * groups[0].multiplied(groups[0].size.hidden);
      const auto bytes = static_cast<std::size_t>(chunk * groups[0].size.batch * row);
      add_node(all, fill_node("prepare forward zeros", at[chunk_y[group - 1]], bytes), 1, {});
    }
    for (std::int64_t first = 0; first < steps; first += chunk) {
      for (std::size_t group = 0; group < groups.size(); ++group) {
        add_chunk(all, at, group, first, std::min(chunk, steps - first));
      }
    }
    return all;
  }

  void add_chunk(std::vector<ProgramNode>& all, ArrayPlaces at, std::size_t group, std::int64_t first,
                 std::int64_t steps) const {
    Builder chunk = groups[group];
    const TrainingArrays& a = chunk.arrays;
    const std::int64_t begin = chunk.size.is_reverse ? chunk.size.steps - first - steps : first;
    const std::int64_t samples = begin * chunk.size.batch, state = std::int64_t{chunk.size.batch} * chunk.size.hidden;
    for (std::size_t of = 0; first == 0 && group == 0 && of < groups.size(); ++of) {
      const TrainingRows all_rows;
      const Builder& own = groups[of];
      chunk.weight_copies.push_back(
          Products{own, at, all_rows}.copy_weights(own.arrays.w_ih, own.size.input, own.copied_w_ih));
    }
    chunk.has_before = first > 0;
    chunk.has_after = first + steps < chunk.size.steps;
    chunk.size.steps = steps;
    std::vector<std::byte*> places(at.begin(), at.end());
    places[a.x] = group > 0 ? at[chunk_y[group - 1]] : behind(at[a.x], 2 * samples * chunk.size.input);
    places[a.y] = group + 1 < groups.size() ? at[chunk_y[group]] : behind(at[a.y], 2 * samples * chunk.size.hidden);
    // Of all its layers, the carry in fp32; then h.
    const auto layers = static_cast<std::int64_t>(chunk.stacked.size());
    float* const carry = array_at<float>(at, chunk.carry);
    chunk.carry_before = chunk.has_before ? carry : nullptr;
    chunk.carry_after = chunk.has_after ? carry : nullptr;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      TrainingArrays& own = chunk.stacked[static_cast<std::size_t>(layer)];
      std::byte* const h = behind(at[chunk.carry], (4 * layers + 2 * layer) * state);
      if (chunk.has_before) {
        places[own.h0] = h;
      }
      if (chunk.has_after) {
        places[own.hn] = h;
        places[own.cn] = nullptr;
      }
    }
    const int before = static_cast<int>(all.size()) - 1;  // in the place of this chunk's status
    for (ProgramNode& node : chunk.halves(places, {.keeps = false})) {
      if (node.label != "status") {
        for (int& after : node.after) {
          after += before;
        }
        all.push_back(std::move(node));
      }
    }
  }
};

std::vector<ProgramNode> Builder::halves(ArrayPlaces at, const TrainingRows& rows) const {
  const Products products{*this, at, rows};
  constexpr int kPrepareThreads = 256, kPrepareBlocks = 528;
  const auto arguments = [&](bool is_backward) { return this->arguments(at, rows, is_backward); };
  const auto with_copies = [&](const char* label, int kernel, bool is_backward, const RowCopies& copies) {
    Arguments of_kernel = arguments(is_backward);
    std::ranges::copy(copies, of_kernel.copies);
    if (products.is_packed(is_backward)) {
      of_kernel.weights = nullptr;
    }
    return launch(label, kernel, kPrepareBlocks, kPrepareThreads, 0, of_kernel, at);
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
                            is_backward, stacked.empty() ? products.before(is_backward) : RowCopies{}),
                1, {after});
  };
  // A launch for each part of the samples, and between them one that empties the ring.
  const auto push_recurrence = [&](const std::string& label, int kernel, bool is_backward, int after) {
    const RecurrenceShape shape =
        is_dense ? recurrence_shape(size, is_backward ? plan.backward : plan.forward, is_backward) : RecurrenceShape{};
    const int blocks = shape.blocks / plan.forward.layers * static_cast<int>(std::max<std::size_t>(1, stacked.size()));
    Arguments of_part = arguments(is_backward), only_ring = of_part;
    only_ring.weights = nullptr;
    only_ring.keeps = 0;
    only_ring.packed_rows = 1;  // nothing is padded
    int last = after;
    do {
      if (of_part.first_sample > 0) {
        push(launch_node(label + " ring", is_backward ? prepare_back : prepare, kPrepareBlocks, kPrepareThreads, 0,
                         only_ring),
             0, {});
      }
      ProgramNode node = launch(label, kernel, blocks, shape.threads, shape.shared_bytes, of_part, at);
      node.cooperative = true;
      last = push(std::move(node), 0, {last});
      of_part.first_sample += shape.launch_samples;
    } while (is_dense && of_part.first_sample < size.batch);
    return last;
  };
  const int prepared = prepare_half(false, 0);
  if (!stacked.empty()) {  // what the product reads is copied beside that
    std::vector<RowCopy> copies = weight_copies;
    copies.push_back(products.copy_x());
    std::erase_if(copies, [](const RowCopy& copy) { return copy.rows == 0; });
    for (std::size_t i = 0; i < copies.size(); i += kMostCopies) {
      RowCopies some{};
      std::copy_n(copies.begin() + static_cast<std::ptrdiff_t>(i),
                  std::min<std::size_t>(kMostCopies, copies.size() - i), some.begin());
      push(with_copies("prepare forward rows", copy_back, false, some), 0, {});
    }
    push(products.forward(), 0, {});
    push_recurrence("forward", forward, false, prepared);
    return all;
  }
  const int last = push(products.forward(), 0, copies_rows() ? std::vector{prepared} : std::vector<int>());
  int prepared_back = copies_rows() ? 0 : prepare_half(true, last);
  const int forwarded = push_recurrence("forward", forward, false, prepared);
  if (copies_rows()) {
    prepared_back = prepare_half(true, forwarded);
  }
  if (recomputes()) {
    constexpr int kThreads = 128;
    Arguments anew = arguments(false);
    anew.ranks = array_at<Ranked>(at, ranks_back);
    for (ProgramNode& node : products.gates_anew()) {
      push(std::move(node), 0, {});
    }
    const std::int64_t threads = std::int64_t{size.batch} * size.hidden;
    push(launch_node("gates", recompute, static_cast<int>((threads + kThreads - 1) / kThreads), kThreads, 0, anew), 0,
         {});
  }
  push_recurrence("backward", backward, true, prepared_back);
  for (ProgramNode& node : products.backward()) {
    push(std::move(node), 0, {});
  }
  if (!has_before && (at[arrays.db] != nullptr || at[arrays.db_hh] != nullptr)) {
    push(launch_node("db", sum_bias, (kKeptValues * size.hidden + 127) / 128, 128, 0, arguments(true)), 0, {});
  }
  const RowCopies back = products.behind_backward();
  if (std::ranges::any_of(back, [](const RowCopy& copy) { return copy.rows > 0; })) {
    push(with_copies("copies back", copy_back, true, back), 0, {});
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
TrainingArrays add_arrays(KernelProgram& program, const TrainingSize& size, const LayerMemory& memory) {
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
  a.cells = program.add_array(static_cast<std::size_t>(memory.cells));
  a.dx = elements(inputs);
  a.dw_ih = elements(gate_rows * size.input);
  a.dw_hh = elements(gate_rows * size.hidden);
  a.db = elements(gate_rows);
  a.db_hh = elements(gate_rows);
  a.dh0 = elements(state);
  a.dc0 = elements(cell);
  a.kept = program.add_array(static_cast<std::size_t>(memory.kept));
  return a;
}

// A stack's, whose last array is the status; any half may need all of its own.
template <typename OfStack>
TrainingProgram program_of_layers(KernelProgram program, std::vector<TrainingArrays> layers, int own_arrays,
                                  const DenseTrainingPlan& plan, OfStack of_stack) {
  program.results = static_cast<int>(program.arrays.size()) - 1;
  std::vector<std::pair<int, std::size_t>> forward_arrays;
  for (int array = own_arrays; array < program.results; ++array) {
    forward_arrays.emplace_back(array, program.arrays[array].bytes);
  }
  program.nodes = [of_stack](ArrayPlaces at) { return of_stack.nodes(at); };
  return {.program = std::move(program),
          .arrays = layers[0],
          .layers = std::move(layers),
          .own_arrays = own_arrays,
          .plan = plan,
          .nodes_of_rows = [of_stack](ArrayPlaces at, const TrainingRows&) { return of_stack.nodes(at); },
          .forward_arrays = std::move(forward_arrays)};
}

// `of_kernels`: with the kernels' numbers; `program`: with the kernels.
TrainingProgram replay_program(KernelProgram program, const Builder& of_kernels) {
  const TrainingSize& size = of_kernels.size;
  if (size.directions > 1 || size.length_bytes > 0) {
    throw InputError("a stash of replay goes without a second direction and lengths");
  }
  ReplayBuilder replay;
  const auto add = [&](std::int64_t bytes) { return program.add_array(static_cast<std::size_t>(bytes)); };
  std::vector<LayerMemory> memories;
  for (int layer = 0; layer < size.layers; ++layer) {
    const bool is_last = layer + 1 == size.layers;
    Builder& b = replay.layers.emplace_back(of_kernels);
    b.size = layers_of(size, layer);
    b.is_replayed = true;
    b.chunk_steps = chunk_steps(size, b.plan);
    const LayerMemory& memory = memories.emplace_back(layer_memory(b.size, b.plan, true, is_last));
    b.arrays = add_arrays(program, b.size, memory);
    const auto resize = [&](std::initializer_list<int> arrays, std::int64_t bytes) {
      for (const int array : arrays) {
        program.arrays[array].bytes = static_cast<std::size_t>(bytes);
      }
    };
    if (layer > 0) {
      resize({b.arrays.x, b.arrays.dx}, 0);
    }
    if (!is_last) {
      resize({b.arrays.y, b.arrays.dy}, 0);
    }
    resize({b.arrays.kept}, 0);
    program.arrays[replay.layers[0].arrays.kept].bytes += static_cast<std::size_t>(memory.kept);
    resize({b.arrays.dw_ih}, memory.copied_dw_ih);
    resize({b.arrays.dw_hh}, memory.copied_dw_hh);
    b.copied_dw_ih = b.arrays.dw_ih;
    b.copied_dw_hh = b.arrays.dw_hh;
  }
  const auto own_arrays = static_cast<int>(program.arrays.size());
  const int packed = add(std::max(memories[0].packed, memories[0].packed_back));
  const int ring = add(std::max(memories[0].ring, memories[0].ring_back)), none = add(0);
  for (std::size_t layer = 0; layer < replay.layers.size(); ++layer) {
    Builder& b = replay.layers[layer];
    const LayerMemory& memory = memories[layer];
    b.packed = b.packed_transposed = packed;
    b.ring = b.ring_back = ring;
    b.ranks = b.ranks_back = b.copied_w_hh = none;
    b.bias_sums = add(memory.bias_sums);
    b.carry = add(memory.carry);
    b.gates = add(memory.chunk_gates);
    b.cells = add(memory.chunk_cells);
    replay.chunk_y.push_back(add(memory.chunk_y));
    replay.chunk_dy.push_back(add(memory.chunk_dy));
    b.copied_x = add(memory.copied_x);
    b.copied_y = add(memory.copied_y);
    b.copied_w_ih = add(memory.copied_w_ih);
  }
  const int status = program.add_array(4);
  std::vector<TrainingArrays> layers;
  for (Builder& b : replay.layers) {
    b.status = status;
    layers.push_back(b.arrays);
  }
  return program_of_layers(std::move(program), std::move(layers), own_arrays, of_kernels.plan, std::move(replay));
}

// Of each layer of a stack without a stash: of gradients there are none, of all x and y the first and the last.
std::vector<TrainingArrays> add_layers(KernelProgram& program, const TrainingSize& size) {
  std::vector<TrainingArrays> layers;
  for (int layer = 0; layer < size.layers; ++layer) {
    const TrainingArrays& a = layers.emplace_back(add_arrays(program, layers_of(size, layer), {}));
    for (const int array : {a.dy, a.dhn, a.dcn, a.dx, a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0, a.dc0}) {
      program.arrays[array].bytes = 0;
    }
    program.arrays[a.x].bytes *= layer == 0 ? 1 : 0;
    program.arrays[a.y].bytes *= layer + 1 == size.layers ? 1 : 0;
  }
  return layers;
}

// Likewise.
TrainingProgram stack_program(KernelProgram program, const Builder& of_kernels) {
  const TrainingSize& size = of_kernels.size;
  const auto add = [&](std::int64_t bytes) { return program.add_array(static_cast<std::size_t>(bytes)); };
  const std::vector<TrainingArrays> layers = add_layers(program, size);
  const auto own_arrays = static_cast<int>(program.arrays.size());
  StackBuilder stack;
  const int none = add(0);
  int ring = none;
  for (const auto& [first, count] : layer_groups(size.layers, of_kernels.plan)) {
    Builder& b = stack.groups.emplace_back(of_kernels);
    b.size = layers_of(size, first, count);
    const LayerMemory memory = layer_memory(b.size, b.plan, true, first + count == size.layers);
    ring = first == 0 ? add(memory.ring) : ring;
    b.ring = b.ring_back = ring;
    b.stacked.assign(layers.begin() + first, layers.begin() + first + count);
    b.arrays = layers[static_cast<std::size_t>(first)];
    b.arrays.y = b.stacked.back().y;
    b.chunk_steps = chunk_steps(size, b.plan);
    b.packed = b.packed_transposed = add(memory.packed);
    b.progress = add(memory.progress);
    b.carry = add(memory.carry);
    b.gates = add(memory.chunk_gates);
    b.copied_x = first == 0 ? add(memory.copied_x) : none;
    b.has_aligned_x = first > 0;
    b.copied_w_ih = add(memory.copied_w_ih);
    b.forward = first + count == size.layers ? of_kernels.forward : of_kernels.forward_below;
    stack.chunk_y.push_back(add(memory.chunk_y));
    b.bias_sums = b.cells = b.ranks = b.ranks_back = b.copied_y = b.copied_w_hh = none;
    b.copied_dw_ih = b.copied_dw_hh = none;
  }
  const int status = program.add_array(4);
  for (Builder& b : stack.groups) {
    b.status = status;
  }
  return program_of_layers(std::move(program), layers, own_arrays, of_kernels.plan, std::move(stack));
}

CompileRequest single_step_request(const TrainingSize& size, Precision precision, int input,
                                   const std::string& architecture) {
  CompileRequest request{"single_step", kSingleStepSource, architecture, {}};
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"precision", static_cast<int>(precision)},
                                                                   {"cell", static_cast<int>(size.cell)},
                                                                   {"input", input},
                                                                   {"hidden", size.hidden},
                                                                   {"batch", size.batch},
                                                                   {"threads", kSingleStepThreads}}) {
    define(request.defines, name, value);
  }
  return request;
}

// A stack without a stash, step by step: each step of a layer is a launch.
struct StepwiseBuilder {
  TrainingSize size;
  std::vector<TrainingArrays> layers;
  int first_kernel = 0, next_kernel = 0;  // of the first layer; of the others
  // [layers, batch, hidden] in fp32; h behind even and odd steps; of all layers but the last.
  int carry = 0, states = 0, between = 0, status = 0;

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    constexpr int kUnits = 4;  // of a block
    const std::int64_t state = std::int64_t{size.batch} * size.hidden;
    std::vector<ProgramNode> all{fill_node("status", at[status], 4)};
    for (std::int64_t step = 0; step < size.steps; ++step) {
      const std::int64_t position = size.is_reverse ? size.steps - 1 - step : step;
      for (int layer = 0; layer < size.layers; ++layer) {
        const TrainingArrays& a = layers[static_cast<std::size_t>(layer)];
        const bool is_first = step == 0, is_last = step + 1 == size.steps, is_top = layer + 1 == size.layers;
        auto* const own_carry = reinterpret_cast<float*>(behind(at[carry], 4 * layer * state));
        const auto state_behind = [&](std::int64_t of_step) {
          return behind(at[states], 2 * (of_step % 2 * size.layers + layer) * state);
        };
        const StepArguments arguments{
            .x = layer == 0 ? behind(at[a.x], 2 * position * size.batch * size.input)
                            : behind(at[between], 2 * (layer - 1) * state),
            .h = is_first ? at[a.h0] : state_behind(step - 1),
            .w_ih = at[a.w_ih],
            .w_hh = at[a.w_hh],
            .b_ih = at[a.b_ih],
            .b_hh = at[a.b_hh],
            .c = at[a.c0],
            .carry = is_first ? nullptr : own_carry,
            .next_carry = is_last ? nullptr : own_carry,
            .y = is_top ? behind(at[a.y], 2 * position * state) : behind(at[between], 2 * layer * state),
            .hn = is_last ? at[a.hn] : state_behind(step),
            .cn = is_last ? at[a.cn] : nullptr};
        all.push_back(launch_node("forward step", layer == 0 ? first_kernel : next_kernel,
                                  (size.hidden + kUnits - 1) / kUnits, kSingleStepThreads, 0, arguments));
      }
    }
    return all;
  }
};

// Likewise.
TrainingProgram stepwise_program(const TrainingSize& size, Precision precision, const DenseTrainingPlan& plan,
                                 const std::string& architecture) {
  KernelProgram program;
  StepwiseBuilder steps{.size = size, .layers = {}};
  steps.first_kernel =
      program.add_kernel(single_step_request(size, precision, size.input, architecture), "single_step");
  steps.next_kernel =
      size.layers == 1
          ? steps.first_kernel
          : program.add_kernel(single_step_request(size, precision, size.hidden, architecture), "single_step");
  steps.layers = add_layers(program, size);
  const auto own_arrays = static_cast<int>(program.arrays.size());
  const std::int64_t state = std::int64_t{size.batch} * size.hidden, between_steps = size.steps > 1 ? size.layers : 0;
  const auto add = [&](std::int64_t bytes) { return program.add_array(static_cast<std::size_t>(bytes)); };
  steps.carry = add(4 * between_steps * state);
  steps.states = add(2 * 2 * between_steps * state);
  steps.between = add(2 * (size.layers - 1) * state);
  steps.status = program.add_array(4);
  return program_of_layers(std::move(program), steps.layers, own_arrays, plan, steps);
}

}  // namespace

TrainingProgram training_program(const TrainingSize& size, Precision precision, const DenseTrainingPlan& plan,
                                 const std::string& architecture, const RecurrenceKernels* instead) {
  check_trainable(size, precision);
  if (size.layers > 1 && plan.stash != Stash::replay && plan.stash != Stash::none) {
    throw InputError("a program of several layers is one with a stash of replay, or without a stash");
  }
  if (plan.stash == Stash::none && (size.directions > 1 || size.length_bytes > 0)) {
    throw InputError("a stack without a stash goes without a second direction and lengths");
  }
  if (plan.stepwise) {
    return stepwise_program(size, precision, plan, architecture);
  }
  const CompileRequest forward =
      instead ? instead->forward : compile_request(size, precision, plan.forward, false, architecture);
  if (plan.stash == Stash::none) {
    Builder b{size, precision, plan, {}};
    KernelProgram program;
    b.prepare = program.add_kernel(forward, "prepare");
    b.forward = b.forward_below = program.add_kernel(forward, "recurrence");
    const std::int64_t hidden = size.hidden;
    if (b.copies(hidden) && size.layers > plan.forward.layers) {
      b.forward_below = program.add_kernel(
          compile_request(size, precision, plan.forward, false, architecture, aligned_columns(hidden)), "recurrence");
    }
    b.copy_back = b.copies(size.input) || b.copies(hidden) ? program.add_kernel(forward, "copy_back") : -1;
    return stack_program(std::move(program), b);
  }
  const CompileRequest backward =
      instead ? instead->backward : compile_request(size, precision, plan.backward, true, architecture);
  Builder b{size, precision, of_layer(plan, 0), {}, instead == nullptr};
  KernelProgram program;
  b.prepare = program.add_kernel(instead ? instead->prepare : forward, "prepare");
  b.forward = program.add_kernel(forward, "recurrence");
  b.recompute = b.recomputes() ? program.add_kernel(forward, "recompute") : -1;
  b.prepare_back = program.add_kernel(instead ? instead->prepare : backward, "prepare");
  b.backward = program.add_kernel(backward, "recurrence");
  b.sum_bias = program.add_kernel(backward, "sum_bias");
  b.rank_samples = b.has_lengths() ? program.add_kernel(forward, "rank_samples") : -1;
  b.copy_back = b.copies_rows() || b.recomputes() ? program.add_kernel(backward, "copy_back") : -1;

  if (plan.stash == Stash::replay) {
    return replay_program(std::move(program), b);
  }
  const LayerMemory memory = layer_memory(size, b.plan, instead == nullptr);
  const auto add = [&](std::int64_t bytes) { return program.add_array(static_cast<std::size_t>(bytes)); };
  b.arrays = add_arrays(program, size, memory);
  const auto own_arrays = static_cast<int>(program.arrays.size());
  b.chunk_steps = chunk_steps(size, plan);
  b.packed = add(memory.packed);
  b.packed_transposed = add(memory.packed_back);
  b.ring = add(memory.ring);
  b.ring_back = add(memory.ring_back);
  b.bias_sums = add(instead ? static_cast<std::int64_t>(instead->bias_bytes) : memory.bias_sums);
  b.ranks = add(memory.ranks);
  b.ranks_back = add(memory.ranks);
  b.carry = add(memory.carry);
  b.copied_x = add(memory.copied_x);
  b.copied_y = add(memory.copied_y);
  b.copied_w_ih = add(memory.copied_w_ih);
  b.copied_w_hh = add(memory.copied_w_hh);
  b.copied_dw_ih = add(memory.copied_dw_ih);
  b.copied_dw_hh = add(memory.copied_dw_hh);
  b.gates = b.recomputes() ? add(memory.chunk_gates) : b.arrays.kept;
  b.cells = b.recomputes() ? add(memory.chunk_cells) : b.arrays.cells;
  b.status = program.add_array(4);
  std::vector<std::pair<int, std::size_t>> forward_arrays;
  for (const int array : {b.packed, b.ring, b.ranks, b.carry}) {
    forward_arrays.emplace_back(array, program.arrays[array].bytes);
  }
  const std::int64_t chunk_rows = b.chunk_steps * size.batch;
  forward_arrays.emplace_back(b.gates, 2 * kKeptValues * chunk_rows * b.multiplied(size.hidden));
  if (b.copies(size.input) || b.has_lengths()) {
    forward_arrays.emplace_back(b.copied_x, 2 * chunk_rows * aligned_columns(size.input));
  }
  forward_arrays.emplace_back(b.copied_w_ih, program.arrays[b.copied_w_ih].bytes);
  program.results = b.status;
  program.nodes = [b](ArrayPlaces at) { return b.nodes(at, {}); };
  return {.program = std::move(program),
          .arrays = b.arrays,
          .layers = {b.arrays},
          .own_arrays = own_arrays,
          .plan = plan,
          .ranks = b.ranks,
          .ranks_back = b.ranks_back,
          .nodes_of_rows = [b](ArrayPlaces at, const TrainingRows& rows) { return b.nodes(at, rows); },
          .forward_arrays = std::move(forward_arrays)};
}

}  // namespace onchip
