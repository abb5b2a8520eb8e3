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
  const TrainingRows& given;
  std::vector<ProgramNode> nodes = {};
  std::int64_t all_rows = p.size.steps * p.size.batch, rows = given.products > 0 ? given.products : all_rows;
  std::int64_t gate_rows = std::int64_t{info(p.size.cell).gates} * p.size.hidden;

  Matrix kept(int array) const { return {at[array], std::int64_t{4} * p.size.hidden}; }
  Matrix gates() const { return kept(p.gates); }
  bool copies(std::int64_t columns) const { return p.aligned && columns % 8 != 0; }
  bool packs_x() const { return p.has_lengths() && given.packed == 0; }
  bool copies_x() const { return packs_x() || copies(p.size.input); }

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
    return copies(columns) ? Matrix{at[array], multiplied(columns)} : of;
  }
  Matrix x(int array) const {
    const std::int64_t input = p.size.input;
    return copies_x() ? Matrix{at[p.copied_x], multiplied(input)} : Matrix{at[array], input};
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
  // Of all positions of all samples, to their packed rows or from them.
  RowCopy mapped(RowCopy copy, RowMap map) const {
    copy.rows = copy.to == nullptr ? 0 : all_rows;
    copy.map = map;
    return copy;
  }
  RowCopy copy_x() const {
    const auto input = static_cast<int>(p.size.input), written = static_cast<int>(multiplied(input));
    const RowCopy made{at[p.arrays.x], at[p.copied_x], rows, input, written, input, written, 0};
    return !copies_x() ? RowCopy{} : packs_x() ? mapped(made, RowMap::to_packed) : made;
  }
  RowCopy copy_dx() const {
    const auto input = static_cast<int>(p.size.input);
    const RowCopy made{at[p.copied_x], at[p.arrays.dx], rows,  static_cast<int>(multiplied(input)),
                       input,          input,           input, p.adds_dx() ? 1 : 0};
    return !copies_x() || made.to == nullptr ? RowCopy{} : packs_x() ? mapped(made, RowMap::from_packed) : made;
  }
  RowCopy copy_y() const {
    const auto hidden = static_cast<int>(p.size.hidden), written = static_cast<int>(multiplied(hidden));
    const RowCopy made{at[p.arrays.y], at[p.copied_y], rows,    static_cast<int>(p.size.directions) * hidden,
                       written,        hidden,         written, 0};
    return p.has_lengths() ? mapped(made, RowMap::to_later) : copies(hidden) ? made : RowCopy{};
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
    if (p.has_lengths()) {
      const std::int64_t columns = multiplied(size.hidden);
      multiply_states("dW_hh", aligned(to, size.hidden, p.copied_dw_hh), columns, rows, gates(),
                      {at[p.copied_y], columns}, false);
      return;
    }
    if (size.steps > 1) {
      const Matrix y = aligned({at[a.y], outputs}, size.hidden, p.copied_y);
      multiply_states("dW_hh", aligned(to, size.hidden, p.copied_dw_hh), multiplied(size.hidden), rows - size.batch,
                      gates().from_row(size.is_reverse ? 0 : size.batch), y.from_row(size.is_reverse ? size.batch : 0),
                      false);
    } else if (at[a.h0] == nullptr) {
      nodes.push_back(fill_node("dW_hh", to.data, static_cast<std::size_t>(2 * gate_rows * size.hidden)));
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
  const std::int64_t rows = size.steps * size.batch, gate_rows = std::int64_t{info(size.cell).gates} * size.hidden;
  if (aligned || has_lengths()) {
    copied_x = elements(rows, size.input);
    copied_y = elements(rows, size.hidden);
  }
  if (aligned) {
    copied_w_ih = elements(gate_rows, size.input);
    copied_dw_ih = elements(gate_rows, size.input);
    copied_dw_hh = elements(gate_rows, size.hidden);
  }
}

std::vector<ProgramNode> TrainingProducts::forward(ArrayPlaces at, const TrainingRows& rows) const {
  ProductBuilder b{*this, at, rows};
  const std::int64_t input = size.input;
  b.multiply("W_ih x", b.gates(), b.rows, b.gate_rows, b.multiplied(input), b.x(arrays.x), false,
             b.aligned({at[arrays.w_ih], input}, input, copied_w_ih), true, false);
  return b.nodes;
}

std::vector<ProgramNode> TrainingProducts::backward(ArrayPlaces at, const TrainingRows& rows) const {
  ProductBuilder b{*this, at, rows};
  const std::int64_t input = size.input, columns = b.multiplied(input);
  if (at[arrays.dw_ih] != nullptr) {
    b.multiply("dW_ih", b.aligned({at[arrays.dw_ih], input}, input, copied_dw_ih), b.gate_rows, columns, b.rows,
               b.gates(), true, b.x(arrays.x), false, false);
  }
  if (at[arrays.dw_hh] != nullptr) {
    b.add_recurrent_gradient();
  }
  if (at[arrays.dx] != nullptr) {
    b.multiply("dx", b.x(arrays.dx), b.rows, columns, b.gate_rows, b.gates(), false,
               b.aligned({at[arrays.w_ih], input}, input, copied_w_ih), false, adds_dx() && !b.copies_x());
  }
  return b.nodes;
}

RowCopies TrainingProducts::before_forward(ArrayPlaces at, const TrainingRows& rows) const {
  const ProductBuilder b{*this, at, rows};
  return {b.copy_x(), b.copy(at[arrays.w_ih], size.input, copied_w_ih, b.gate_rows, size.input), RowCopy{}};
}

RowCopies TrainingProducts::before_backward(ArrayPlaces at, const TrainingRows& rows) const {
  RowCopies copies = before_forward(at, rows);
  copies[2] = ProductBuilder{*this, at, rows}.copy_y();
  return copies;
}

RowCopies TrainingProducts::behind_backward(ArrayPlaces at, const TrainingRows& rows) const {
  const ProductBuilder b{*this, at, rows};
  return {b.copy_dx(), b.copy_back(copied_dw_ih, at[arrays.dw_ih], b.gate_rows, size.input, false),
          size.steps > 1 || has_lengths() ? b.copy_back(copied_dw_hh, at[arrays.dw_hh], b.gate_rows, size.hidden,
                                                        at[arrays.h0] != nullptr && !has_lengths())
                                          : RowCopy{}};
}

}  // namespace onchip
