// SPDX-License-Identifier: Apache-2.0
// Networks with their layouts for the simulator's tests: as the planner maps them, and with overflow wherever there can
// be.
#pragma once

#include "model/families/planner.hpp"
#include "model/plan/plan_text.hpp"
#include "model/sparse/layout/layout.hpp"
#include "tests/model/cases.hpp"

#include <vector>

namespace onchip {

struct Made {
  Recurrent network;
  SparseLayout layout;
};

inline const SparsePlan& plan_of(const Made& made) {
  return made.layout.geometry;
}

inline SparseLayout sparse_layout(const Recurrent& network, const SparsePlan& plan, const SparseMatrix& matrix) {
  return make_layout(SparseGeometry(network, plan), matrix);
}

// The simulator replays the sparse family.
inline SparsePlan sparse_plan(const Recurrent& network, const SparseMatrix& matrix, Constraints constraints = {}) {
  constraints.family = SparsePlan::kName;
  return std::get<SparsePlan>(
      choose_plan(find_chip("h200").chip, network, RowProfile::from_matrix(matrix), constraints).plan);
}

inline Made make(Cell cell, Precision precision, int hidden, int batch, double density,
                 const Constraints& constraints = {}, MaskKind kind = MaskKind::uniform) {
  const Recurrent network{cell, precision, hidden, batch, 256, density};
  const SparseMatrix matrix = generate_mask(network.rows(), hidden, density, 3, precision, kind);
  return {network, sparse_layout(network, sparse_plan(network, matrix, constraints), matrix)};
}

// Small networks by hand, with their overflow in shared memory, half streamed, and all streamed; those of several
// planes also with producer warps.
inline std::vector<Made> plans_with_overflow() {
  constexpr auto packed = Storage::packed_pair, dense = Storage::dense, delta = Storage::packed_delta;
  constexpr auto natural = RowOrder::natural, aware = RowOrder::bank_aware;
  const std::vector<Case> cases{
      {Cell::relu, Precision::fp16, 641, 4, 0.1, packed, aware, 16, 8, 5, Rows::power_law, 0.4},
      {Cell::relu, Precision::fp16, 257, 2, 0.3, packed, natural, 7, 32, 1, Rows::uniform, 0},
      {Cell::relu, Precision::fp16, 301, 4, 0.4, dense, natural, 11, 16, 3, Rows::uniform, 0.4},
      {Cell::tanh, Precision::fp32, 149, 1, 0.6, dense, natural, 7, 8, 2, Rows::uniform, 0.7},
      {Cell::tanh, Precision::bf16, 131, 32, 0.2, packed, aware, 3, 8, 2, Rows::holes, 0.3},
      {Cell::lstm, Precision::fp8, 211, 5, 0.2, packed, aware, 13, 8, 4, Rows::power_law, 0.5},
      {Cell::lstm, Precision::fp8, 61, 2, 0.9, dense, natural, 3, 8, 8, Rows::uniform, 0.4},
      {Cell::lstm, Precision::fp16, 127, 16, 0.3, packed, aware, 5, 16, 8, Rows::gates, 0.5},
      {Cell::gru, Precision::fp32, 101, 3, 0.3, packed, aware, 4, 32, 6, Rows::power_law, 0.2},
      {Cell::relu, Precision::fp16, 641, 16, 0.1, delta, aware, 16, 8, 5, Rows::power_law, 0.4},
      {Cell::gru, Precision::fp8, 211, 5, 0.2, delta, natural, 13, 8, 3, Rows::uniform, 0},
  };
  std::vector<Made> plans;
  int number = 0;
  for (const Case& c : cases) {
    const SparseMatrix matrix = matrix_of(c);
    const SparsePlan whole = plan_of(c, matrix);
    for (const int streamed : {0, 1, 2}) {  // halves
      SparsePlan plan = whole;
      const int planes = SparseGeometry(c.network(), plan).planes;
      plan.chunks_in_flight = 1 << number++ % 3;
      plan.pass_planes = planes > 1 ? 2 : 1;
      plan.shared_chunks = whole.shared_chunks * (2 - streamed) / 2;
      plan.ring_chunks = streamed > 0 ? 1 + streamed : 0;
      plans.push_back({c.network(), sparse_layout(c.network(), plan, matrix)});
      if (streamed == 0 && planes > 1) {
        plan.pass_planes = planes / 2;
        plan.producer_warps = 3;
        plans.push_back({c.network(), sparse_layout(c.network(), plan, matrix)});
      }
    }
  }
  return plans;
}

inline std::vector<Made> some_plans() {
  Constraints natural, dense, in_registers;
  fix<&SparsePlan::order>(natural, RowOrder::natural);
  fix<&SparsePlan::storage>(dense, Storage::dense);
  in_registers.tier = Tier::registers;
  std::vector<Made> plans = plans_with_overflow();
  plans.push_back(make(Cell::relu, Precision::fp16, 300, 1, 0.2));
  plans.push_back(make(Cell::relu, Precision::fp16, 300, 2, 0.1, natural));
  plans.push_back(make(Cell::tanh, Precision::bf16, 257, 4, 0.3));
  plans.push_back(make(Cell::relu, Precision::fp16, 512, 8, 0.1, {}, MaskKind::power_law));
  plans.push_back(make(Cell::relu, Precision::fp16, 512, 8, 0.1, in_registers, MaskKind::power_law));
  plans.push_back(make(Cell::lstm, Precision::fp16, 200, 3, 0.2, natural));
  plans.push_back(make(Cell::gru, Precision::fp32, 130, 4, 0.3));
  plans.push_back(make(Cell::lstm, Precision::fp8, 256, 16, 0.1));
  plans.push_back(make(Cell::relu, Precision::fp32, 256, 8, 0.2));
  plans.push_back(make(Cell::relu, Precision::fp16, 320, 4, 1, dense));
  return plans;
}

}  // namespace onchip
