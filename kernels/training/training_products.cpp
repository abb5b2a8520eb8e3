// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_products.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace onchip {
namespace {

struct Matrix {
  std::byte* data = nullptr;
  std::int64_t leading = 0;  // elements from one row to the next
  Matrix from_row(std::int64_t row) const { return {data + 2 * row * leading, leading}; }
};

constexpr std::int64_t aligned_columns(std::int64_t columns) {
  return (columns + 7) / 8 * 8;
}

struct ProductBuilder {
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
                bool a_transposed, Matrix b, bool b_transposed, bool keep) {
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

  // The matrix, or where its copy is.
  Matrix aligned(Matrix of, std::int64_t columns, int array) const {
    return copies(columns) ? Matrix{at[array], aligned_columns(columns)} : of;
  }
  RowCopy copy(const std::byte* from, std::int64_t stride, int to, std::int64_t copied_rows,
               std::int64_t columns) const {
    if (!copies(columns)) {
      return {};
    }
    const auto written = static_cast<int>(aligned_columns(columns));
    return {from, at[to], copied_rows, static_cast<int>(stride), written, static_cast<int>(columns), written, 0};
  }
  RowCopy copy_back(int from, std::byte* to, std::int64_t copied_rows, std::int64_t columns, bool adds) const {
    if (!copies(columns) || to == nullptr) {
      return {};
    }
    const auto count = static_cast<int>(columns);
    return {at[from], to, copied_rows, static_cast<int>(aligned_columns(columns)), count, count, count, adds ? 1 : 0};
  }
  std::int64_t multiplied(std::int64_t columns) const { return copies(columns) ? aligned_columns(columns) : columns; }

  // The gradient of W_hh by some steps. A GRU's last gate has its gradient for W_hh behind that for W_ih.
  void multiply_states(const char* label, Matrix c, std::int64_t columns, std::int64_t depth, Matrix of_gates,
                       Matrix states, bool keep) {
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
      const Matrix y = aligned({at[a.y], outputs}, size.hidden, p.copied_y);
      multiply_states("dW_hh", aligned(to, size.hidden, p.copied_dw_hh), multiplied(size.hidden), rows - size.batch,
                      gates().from_row(size.is_reverse ? 0 : size.batch), y.from_row(size.is_reverse ? size.batch : 0),
                      false);
    } else if (at[a.h0] == nullptr) {
      nodes.push_back({.label = "dW_hh"});
      nodes.back().zeros = {to.data, static_cast<std::size_t>(2 * gate_rows * size.hidden)};
    }
    if (at[a.h0] != nullptr) {
      multiply_states("dW_hh of h0", to, size.hidden, size.batch, kept(p.first_gradient), {at[a.h0], size.hidden},
                      size.steps > 1 && !copies(size.hidden));
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

void TrainingProducts::add_arrays(KernelProgram& program) {
  const auto elements = [&](std::int64_t rows, std::int64_t columns) {
    return program.add_array(2 * static_cast<std::size_t>(rows * aligned_columns(columns)));
  };
  if (aligned) {
    const std::int64_t rows = size.steps * size.batch, gate_rows = std::int64_t{info(size.cell).gates} * size.hidden;
    copied_x = elements(rows, size.input);
    copied_y = elements(rows, size.hidden);
    copied_w_ih = elements(gate_rows, size.input);
    copied_dw_ih = elements(gate_rows, size.input);
    copied_dw_hh = elements(gate_rows, size.hidden);
  }
}

std::vector<ProgramNode> TrainingProducts::forward(ArrayPlaces at) const {
  ProductBuilder b{*this, at};
  const std::int64_t input = size.input;
  b.multiply("W_ih x", b.gates(), b.rows, b.gate_rows, b.multiplied(input),
             b.aligned({at[arrays.x], input}, input, copied_x), false,
             b.aligned({at[arrays.w_ih], input}, input, copied_w_ih), true, false);
  return b.nodes;
}

std::vector<ProgramNode> TrainingProducts::backward(ArrayPlaces at) const {
  ProductBuilder b{*this, at};
  const std::int64_t input = size.input, columns = b.multiplied(input);
  if (at[arrays.dw_ih] != nullptr) {
    b.multiply("dW_ih", b.aligned({at[arrays.dw_ih], input}, input, copied_dw_ih), b.gate_rows, columns, b.rows,
               b.gates(), true, b.aligned({at[arrays.x], input}, input, copied_x), false, false);
  }
  if (at[arrays.dw_hh] != nullptr) {
    b.add_recurrent_gradient();
  }
  if (at[arrays.dx] != nullptr) {
    b.multiply("dx", b.aligned({at[arrays.dx], input}, input, copied_x), b.rows, columns, b.gate_rows, b.gates(), false,
               b.aligned({at[arrays.w_ih], input}, input, copied_w_ih), false, adds_dx() && !b.copies(input));
  }
  return b.nodes;
}

RowCopies TrainingProducts::before_forward(ArrayPlaces at) const {
  const ProductBuilder b{*this, at};
  return {b.copy(at[arrays.x], size.input, copied_x, b.rows, size.input),
          b.copy(at[arrays.w_ih], size.input, copied_w_ih, b.gate_rows, size.input), RowCopy{}};
}

RowCopies TrainingProducts::before_backward(ArrayPlaces at) const {
  const ProductBuilder b{*this, at};
  RowCopies copies = before_forward(at);
  copies[2] = b.copy(at[arrays.y], std::int64_t{size.directions} * size.hidden, copied_y, b.rows, size.hidden);
  return copies;
}

RowCopies TrainingProducts::behind_backward(ArrayPlaces at) const {
  const ProductBuilder b{*this, at};
  return {b.copy_back(copied_x, at[arrays.dx], b.rows, size.input, adds_dx()),
          b.copy_back(copied_dw_ih, at[arrays.dw_ih], b.gate_rows, size.input, false),
          size.steps > 1
              ? b.copy_back(copied_dw_hh, at[arrays.dw_hh], b.gate_rows, size.hidden, at[arrays.h0] != nullptr)
              : RowCopy{}};
}

}  // namespace onchip
