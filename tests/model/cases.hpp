// SPDX-License-Identifier: Apache-2.0
// Networks, matrices and plans for the tests of row assignment, layout and encoding: everything that these depend on,
// on sizes that divide nothing.
#pragma once

#include "model/families/layout.hpp"
#include "model/plan/plan_text.hpp"
#include "model/sparse/family.hpp"
#include "model/workload/row_profile.hpp"
#include "tests/matrices.hpp"
#include "tests/overflow.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {

enum class Rows {
  uniform,
  power_law,
  gates,  // each gate of another density
  holes,  // a third of the rows empty
};

struct Case {
  Cell cell;
  Precision precision;
  int hidden, batch;
  double density;
  Storage storage;
  RowOrder order;
  int sms, lanes, rows_per_group;
  Rows rows = Rows::uniform;
  double kept = 1;  // share of the slots that stay in registers
  int load_bytes = kWidestLoad;

  Recurrent network() const { return {cell, precision, hidden, batch, 16, density}; }
};

inline Case relu_case(int hidden, int batch, double density, int sms, int lanes, int rows_per_group,
                      RowOrder order = RowOrder::bank_aware) {
  return {Cell::relu, Precision::fp16, hidden, batch, density, Storage::packed_pair, order, sms, lanes, rows_per_group};
}

inline std::vector<Case> awkward_cases() {
  constexpr auto fp16 = Precision::fp16, bf16 = Precision::bf16, fp32 = Precision::fp32, fp8 = Precision::fp8;
  constexpr auto packed = Storage::packed_pair, dense = Storage::dense, delta = Storage::packed_delta;
  constexpr auto natural = RowOrder::natural, aware = RowOrder::bank_aware;
  return {
      {Cell::relu, fp16, 257, 4, 0.3, packed, aware, 7, 32, 1},
      {Cell::relu, fp16, 257, 4, 0.3, packed, natural, 7, 32, 1, Rows::uniform, 0.5},
      {Cell::relu, fp16, 512, 1, 0.1, packed, aware, 132, 16, 2},
      {Cell::relu, fp16, 331, 3, 0.5, packed, aware, 13, 8, 3, Rows::uniform, 0},
      {Cell::tanh, fp16, 97, 32, 0.2, packed, aware, 5, 4, 4},
      {Cell::relu, fp16, 1009, 2, 0.05, packed, aware, 16, 2, 8, Rows::uniform, 0.3},
      {Cell::relu, fp16, 211, 2, 0.05, packed, natural, 3, 1, 5},
      {Cell::relu, fp16, 300, 8, 1.0, dense, natural, 11, 32, 2},
      {Cell::relu, fp16, 301, 4, 0.4, dense, natural, 11, 16, 3, Rows::uniform, 0.4},
      {Cell::relu, fp16, 640, 4, 0.1, packed, aware, 16, 8, 5, Rows::power_law},
      {Cell::relu, fp16, 641, 4, 0.1, packed, aware, 16, 8, 5, Rows::power_law, 0.4},
      {Cell::relu, fp16, 643, 4, 0.2, packed, natural, 3, 16, 32, Rows::power_law, 0.6},
      {Cell::relu, fp32, 33, 4, 1.0, packed, aware, 3, 32, 1},
      {Cell::tanh, fp32, 211, 17, 0.2, packed, aware, 3, 8, 2, Rows::holes, 0.5},
      {Cell::tanh, fp32, 149, 1, 0.6, dense, natural, 7, 8, 2, Rows::uniform, 0.7},
      {Cell::tanh, bf16, 283, 5, 0.2, packed, aware, 5, 16, 3, Rows::uniform, 1, 2},
      {Cell::tanh, bf16, 127, 5, 0.9, dense, natural, 4, 32, 3},
      {Cell::tanh, fp8, 283, 5, 0.2, packed, aware, 5, 16, 3, Rows::power_law, 0.5},
      {Cell::tanh, fp8, 131, 3, 0.8, dense, natural, 5, 8, 3, Rows::uniform, 0.3},
      {Cell::relu, fp16, 1, 1, 1.0, packed, aware, 1, 32, 1},
      {Cell::lstm, fp16, 127, 4, 0.2, packed, aware, 7, 16, 4},
      {Cell::lstm, fp16, 257, 1, 0.1, packed, natural, 5, 8, 12, Rows::gates},
      {Cell::lstm, bf16, 131, 17, 0.2, packed, aware, 3, 4, 8, Rows::power_law, 0.5},
      {Cell::lstm, fp32, 101, 3, 0.3, packed, aware, 4, 32, 8, Rows::gates, 0.3},
      {Cell::lstm, fp8, 211, 5, 0.2, packed, aware, 13, 8, 4, Rows::holes, 0.5},
      {Cell::lstm, fp8, 61, 2, 0.9, dense, natural, 3, 8, 8},
      {Cell::lstm, fp16, 61, 8, 0.9, dense, natural, 3, 16, 4, Rows::gates, 0},
      {Cell::gru, fp16, 127, 3, 0.2, packed, aware, 7, 16, 3, Rows::gates},
      {Cell::gru, fp16, 313, 4, 0.1, packed, aware, 5, 4, 9, Rows::power_law, 0.5},
      {Cell::gru, bf16, 131, 32, 0.2, packed, natural, 3, 8, 30, Rows::holes},
      {Cell::gru, fp32, 101, 1, 0.3, packed, aware, 4, 32, 6, Rows::power_law, 0},
      {Cell::gru, fp8, 211, 1, 0.2, packed, aware, 13, 32, 3, Rows::gates, 0.5, 2},
      {Cell::gru, fp32, 67, 5, 0.9, dense, natural, 3, 4, 9, Rows::holes},
      {Cell::gru, fp16, 2, 1, 1.0, packed, aware, 3, 4, 3},
      {Cell::relu, fp16, 257, 4, 0.3, delta, aware, 7, 32, 1},
      {Cell::relu, fp16, 1009, 2, 0.01, delta, aware, 16, 2, 8, Rows::uniform, 0.3},
      {Cell::relu, fp16, 643, 1, 0.02, delta, natural, 3, 4, 32, Rows::power_law, 0.6},
      {Cell::tanh, fp8, 2003, 4, 0.005, delta, aware, 9, 4, 4, Rows::uniform, 0.5},
      {Cell::tanh, bf16, 283, 17, 0.2, delta, aware, 5, 16, 3, Rows::holes, 0.5},
      {Cell::relu, fp8, 1, 1, 1.0, delta, aware, 1, 32, 1},
      {Cell::lstm, fp8, 211, 5, 0.2, delta, aware, 13, 8, 4, Rows::gates, 0.5},
      {Cell::lstm, fp16, 127, 8, 0.4, delta, natural, 7, 8, 8},
      {Cell::gru, fp16, 313, 4, 0.1, delta, aware, 5, 4, 9, Rows::power_law, 0},
      {Cell::gru, fp8, 131, 32, 0.9, delta, aware, 3, 16, 6, Rows::uniform, 0.7, 2},
  };
}

inline SparseMatrix stack(const std::vector<SparseMatrix>& parts) {
  SparseMatrix whole{0, parts[0].columns, {0}, {}, {}};
  for (const SparseMatrix& part : parts) {
    whole.rows += part.rows;
    for (int row = 0; row < part.rows; ++row) {
      whole.row_begin.push_back(whole.row_begin.back() + part.row_begin[row + 1] - part.row_begin[row]);
    }
    whole.column.insert(whole.column.end(), part.column.begin(), part.column.end());
    whole.value.insert(whole.value.end(), part.value.begin(), part.value.end());
  }
  return whole;
}

inline SparseMatrix matrix_of(const Case& c) {
  const int rows = c.network().rows();
  switch (c.rows) {
    case Rows::uniform:
      return generate_mask(rows, c.hidden, c.density, 7, c.precision);
    case Rows::power_law:
      return generate_mask(rows, c.hidden, c.density, 7, c.precision, MaskKind::power_law);
    case Rows::gates: {
      std::vector<SparseMatrix> parts;
      for (int gate = 0; gate < info(c.cell).gates; ++gate) {
        parts.push_back(generate_mask(c.hidden, c.hidden, c.density * (gate + 1) / 4, 7 + gate, c.precision,
                                      gate == 1 ? MaskKind::power_law : MaskKind::uniform));
      }
      return stack(parts);
    }
    case Rows::holes:
      return kept_elements(generate_mask(rows, c.hidden, c.density, 7, c.precision),
                           [](int row, std::int64_t) { return row % 3 != 0; });
  }
  return {};
}

// Its overflow, if there is any, wholly in shared memory.
inline SparsePlan plan_of(const Case& c, const SparseMatrix& matrix) {
  const RowProfile rows = RowProfile::from_matrix(matrix);
  SparsePlan plan = shape_sparse_plan(c.network(), rows, c.storage, c.sms, c.lanes, c.rows_per_group);
  plan.order = c.order;
  plan.load_bytes = std::max(c.load_bytes, info(c.precision).bytes);
  return c.kept < 1 ? with_overflow(c.network(), plan, rows, c.kept) : plan;
}

inline std::string to_string(const SparsePlan& plan) {
  return plan_text(plan);
}

inline SparseGeometry geometry_of(const Case& c, const SparseMatrix& matrix) {
  return {c.network(), plan_of(c, matrix)};
}

inline SparseLayout layout_of(const Case& c, const SparseMatrix& matrix) {
  return make_layout(geometry_of(c, matrix), matrix);
}

inline int length(const SparseMatrix& matrix, int row) {
  return static_cast<int>(matrix.row_begin[row + 1] - matrix.row_begin[row]);
}

// The longest of the r-th rows of a warp's groups.
inline int longest_row(const SparseLayout& layout, const SparseMatrix& matrix, int sm, int r, int warp) {
  int longest = 0;
  for (int thread = 32 * warp; thread < 32 * (warp + 1); ++thread) {
    const std::int32_t row = layout.row(sm, r, layout.geometry.group_lane_of(thread).group);
    longest = row < 0 ? longest : std::max(longest, length(matrix, row));
  }
  return longest;
}

inline SparseLayout layout_of(const Recurrent& network, const SparsePlan& plan, const SparseMatrix& matrix) {
  return make_layout(SparseGeometry(network, plan), matrix);
}

// Calls `visit` with the SM, the row of its groups and the warp of every warp's row.
template <typename Visit>
void for_each_warp_row(const SparsePlan& plan, Visit&& visit) {
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0; r < plan.rows_per_group; ++r) {
      for (int warp = 0; warp < plan.warps(); ++warp) {
        visit(sm, r, warp);
      }
    }
  }
}

}  // namespace onchip
