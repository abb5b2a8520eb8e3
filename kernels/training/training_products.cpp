// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_products.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace onchip {
namespace {

// As rows.cuh has it.
struct RowCopy {
  const void* from;
  void* to;
  long long rows;
  int from_stride, to_stride, columns, written_columns, adds;
};

struct Matrix {
  std::byte* data = nullptr;
  std::int64_t leading = 0;  // elements from one row to the next
  Matrix from_row(std::int64_t row) const { return {data + 2 * row * leading, leading}; }
};

constexpr std::int64_t aligned_columns(std::int64_t columns) {
  return (columns + 7) / 8 * 8;
}

struct Builder {
  const TrainingProducts& p;
  ArrayPlaces at;
  std::vector<ProgramNode> nodes = {};
  std::int64_t rows = p.size.steps * p.size.batch, gate_rows = std::int64_t{info(p.size.cell).gates} * p.size.hidden;

  Matrix kept(int array) const { return {at[array], std::int64_t{4} * p.size.hidden}; }
  Matrix gates() const { return kept(p.gates); }
  bool copies(std::int64_t columns) const { return p.aligned && columns % 8 != 0; }

  // Row-major C [rows, columns] = op(A) op(B) + keep C, which is column-major the product of the transposed in the
  // other order. `a`, `b`: stored transposed.
  void multiply(const char* label, Matrix c, std::int64_t c_rows, std::int64_t columns, std::int64_t depth, Matrix a,
                bool a_transposed, Matrix b, bool b_transposed, bool keep = false) {
    nodes.push_back({.label = label});
    nodes.back().product = DenseProduct{.rows = of_size(columns, "columns"),
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
  }

  void copy(const char* label, Matrix from, Matrix to, std::int64_t copied_rows, std::int64_t columns,
            std::int64_t written_columns, bool adds = false) {
    constexpr int kBlocks = 528, kThreads = 256;
    nodes.push_back(launch_node(
        label, p.copy_rows, kBlocks, kThreads, 0,
        RowCopy{from.data, to.data, copied_rows, static_cast<int>(from.leading), static_cast<int>(to.leading),
                static_cast<int>(columns), static_cast<int>(written_columns), adds ? 1 : 0}));
  }

  // The matrix, or its copy at `array`.
  Matrix aligned(const char* label, Matrix of, std::int64_t of_rows, std::int64_t columns, int array) {
    if (!copies(columns)) {
      return of;
    }
    const Matrix to{at[array], aligned_columns(columns)};
    copy(label, of, to, of_rows, columns, to.leading);
    return to;
  }

  // Where a product goes that has `columns`: to its place, or to `array`, from which finish() copies it.
  Matrix target(Matrix to, std::int64_t columns, int array) const {
    return copies(columns) ? Matrix{at[array], aligned_columns(columns)} : to;
  }
  void finish(const char* label, Matrix to, std::int64_t of_rows, std::int64_t columns, int array, bool adds = false) {
    if (copies(columns)) {
      copy(label, {at[array], aligned_columns(columns)}, to, of_rows, columns, columns, adds);
    }
  }
  std::int64_t multiplied(std::int64_t columns) const { return copies(columns) ? aligned_columns(columns) : columns; }

  // The gradient of W_hh by some steps. A GRU's last gate has its gradient for W_hh behind that for W_ih.
  void multiply_states(const char* label, Matrix c, std::int64_t columns, std::int64_t depth, Matrix of_gates,
                       Matrix states, bool keep = false) {
    const std::int64_t apart = p.size.cell == Cell::gru ? p.size.hidden : 0, first = gate_rows - apart;
    multiply(label, c, first, columns, depth, of_gates, true, states, false, keep);
    if (apart > 0) {
      of_gates.data += 2 * gate_rows;
      multiply(label, c.from_row(first), apart, columns, depth, of_gates, true, states, false, keep);
    }
  }

  // Of a step's gates and the state before it: of all steps but the first; and that of the first, where its state is
  // not zero.
  void add_recurrent_gradient() {
    const TrainingArrays& a = p.arrays;
    const TrainingSize& size = p.size;
    const Matrix to{at[a.dw_hh], size.hidden};
    const std::int64_t outputs = std::int64_t{size.directions} * size.hidden;
    if (size.steps > 1) {
      const Matrix y = aligned("align y", {at[a.y], outputs}, rows, size.hidden, p.copied_rows);
      multiply_states("dW_hh", target(to, size.hidden, p.copied_dw), multiplied(size.hidden), rows - size.batch,
                      gates().from_row(size.is_reverse ? 0 : size.batch), y.from_row(size.is_reverse ? size.batch : 0));
      finish("dW_hh back", to, gate_rows, size.hidden, p.copied_dw);
    } else if (at[a.h0] == nullptr) {
      nodes.push_back({.label = "dW_hh"});
      nodes.back().zeros = {to.data, static_cast<std::size_t>(2 * gate_rows * size.hidden)};
    }
    if (at[a.h0] != nullptr) {
      multiply_states("dW_hh of h0", to, size.hidden, size.batch, kept(p.first_gradient), {at[a.h0], size.hidden},
                      size.steps > 1);
    }
  }
};

}  // namespace

int of_size(std::int64_t size, const char* what) {
  if (size < 1 || size > std::numeric_limits<int>::max()) {
    throw InputError("a training step needs " + std::string(what) + " of 1 to 2^31 - 1; found " + std::to_string(size));
  }
  return static_cast<int>(size);
}

void TrainingProducts::add_arrays(InferenceProgram& program) {
  const auto elements = [&](std::int64_t rows, std::int64_t columns) {
    return program.add_array(2 * static_cast<std::size_t>(rows * aligned_columns(columns)));
  };
  if (aligned) {
    const std::int64_t gate_rows = std::int64_t{info(size.cell).gates} * size.hidden;
    copied_rows = elements(size.steps * size.batch, std::max(size.input, size.hidden));
    copied_w = elements(gate_rows, size.input);
    copied_dw = elements(gate_rows, std::max(size.input, size.hidden));
  }
}

std::vector<ProgramNode> TrainingProducts::forward(ArrayPlaces at) const {
  Builder b{*this, at};
  const Matrix x = b.aligned("align x", {at[arrays.x], size.input}, b.rows, size.input, copied_rows);
  const Matrix w = b.aligned("align W_ih", {at[arrays.w_ih], size.input}, b.gate_rows, size.input, copied_w);
  b.multiply("W_ih x", b.gates(), b.rows, b.gate_rows, b.multiplied(size.input), x, false, w, true);
  return b.nodes;
}

std::vector<ProgramNode> TrainingProducts::backward(ArrayPlaces at) const {
  Builder b{*this, at};
  const std::int64_t input = size.input, columns = b.multiplied(input);
  if (const Matrix to{at[arrays.dw_ih], input}; to.data != nullptr) {
    const Matrix x = b.aligned("align x again", {at[arrays.x], input}, b.rows, input, copied_rows);
    b.multiply("dW_ih", b.target(to, input, copied_dw), b.gate_rows, columns, b.rows, b.gates(), true, x, false);
    b.finish("dW_ih back", to, b.gate_rows, input, copied_dw);
  }
  if (at[arrays.dw_hh] != nullptr) {
    b.add_recurrent_gradient();
  }
  if (const Matrix to{at[arrays.dx], input}; to.data != nullptr) {
    const bool adds = size.is_reverse && size.directions == 2;  // to that of the first direction
    const Matrix w = b.aligned("align W_ih again", {at[arrays.w_ih], input}, b.gate_rows, input, copied_w);
    const Matrix target = b.target(to, input, copied_rows);
    b.multiply("dx", target, b.rows, columns, b.gate_rows, b.gates(), false, w, false, adds && target.data == to.data);
    b.finish("dx back", to, b.rows, input, copied_rows, adds);
  }
  return b.nodes;
}

}  // namespace onchip
