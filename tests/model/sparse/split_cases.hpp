// SPDX-License-Identifier: Apache-2.0
// Networks with uneven rows, of whose plans the long rows are split.
#pragma once

#include "tests/model/cases.hpp"
#include "tests/row_splits.hpp"

#include <vector>

namespace onchip {

struct SplitCase {
  Recurrent network;
  SparseMatrix matrix;
  SparsePlan plan;

  SparseGeometry geometry() const { return {network, plan}; }
  SparseLayout layout() const { return make_layout(geometry(), matrix); }
};

inline SplitCase uneven_case(Cell cell, Precision precision, int hidden, int batch, int sms, int lanes,
                             int units_per_group = 2, double density = 0.25, Storage storage = Storage::packed_pair) {
  SplitCase c;
  c.network = {cell, precision, hidden, batch, 16, density};
  c.matrix = generate_mask(c.network.rows(), hidden, density, 5, precision, MaskKind::power_law);
  c.plan = shape_sparse_plan(c.network, RowProfile::from_matrix(c.matrix), storage, sms, lanes,
                             units_per_group * info(cell).gates);
  return c;
}

// Cells and types with 1, 2 and 4 splits a group; in registers, in chunks of splits, of rows and of both; as distances.
inline std::vector<SplitCase> every_split() {
  const auto split = [](Cell cell, Precision precision, int batch, int lanes, int row_splits, int units_per_group = 2,
                        Storage storage = Storage::packed_pair) {
    return in_splits(uneven_case(cell, precision, 127, batch, 5, lanes, units_per_group, 0.25, storage), row_splits);
  };
  constexpr auto delta = Storage::packed_delta;
  std::vector<SplitCase> cases{
      split(Cell::relu, Precision::fp16, 4, 8, 1),           split(Cell::tanh, Precision::fp32, 3, 16, 2),
      split(Cell::lstm, Precision::bf16, 5, 16, 1),          split(Cell::gru, Precision::fp8, 16, 8, 2, 1),
      split(Cell::lstm, Precision::fp16, 30, 32, 4),         split(Cell::relu, Precision::fp16, 1, 4, 2, 3),
      split(Cell::relu, Precision::fp16, 4, 8, 1, 2, delta), split(Cell::gru, Precision::fp8, 5, 16, 2, 2, delta)};
  cases[0].plan.order = RowOrder::natural;
  cases[4].plan.order = RowOrder::bank_merged;
  const std::vector<SplitCase> in_registers = cases;
  cases.push_back(in_chunks(in_registers[0], 0, 9, Tiers::shared));
  cases.push_back(in_chunks(in_registers[1], 1, 1, Tiers::mixed, 2));
  cases.push_back(in_chunks(in_registers[2], 1, 0, Tiers::shared));
  cases.push_back(in_chunks(in_registers[3], 1, 1, Tiers::mixed, 4));
  cases.push_back(in_chunks(in_registers[6], 1, 1, Tiers::shared));
  return cases;
}

}  // namespace onchip
