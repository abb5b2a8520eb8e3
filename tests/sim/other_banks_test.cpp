// SPDX-License-Identifier: Apache-2.0
// Model and simulator on chips with other banks of shared memory than any that was measured.
#include "model/families/plan.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/plans.hpp"

#include <array>
#include <cmath>

using namespace onchip;

TEST_CASE("with other banks the model takes about as long as the simulator, or its interval says so", "[fast][long]") {
  const std::array<Recurrent, 10> networks{{{Cell::lstm, Precision::fp16, 1536, 4, 16, 0.1},
                                            {Cell::relu, Precision::fp16, 2048, 4, 16, 0.1},
                                            {Cell::relu, Precision::fp16, 1536, 8, 16, 0.2},
                                            {Cell::gru, Precision::bf16, 1024, 2, 16, 0.2},
                                            {Cell::tanh, Precision::fp32, 1024, 4, 16, 0.1},
                                            {Cell::lstm, Precision::fp16, 768, 8, 16, 0.2},
                                            {Cell::relu, Precision::fp8, 2304, 4, 16, 0.1},
                                            {Cell::gru, Precision::fp16, 1536, 4, 16, 0.1},
                                            {Cell::tanh, Precision::bf16, 2048, 2, 16, 0.2},
                                            {Cell::relu, Precision::fp16, 3072, 1, 16, 0.1}}};
  double sum = 0, largest = 0;
  int cases = 0, near = 0;
  for (const Recurrent& network : networks) {
    const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, network.density, 3, network.precision);
    for (const char* change :
         {"shared_memory.banks=8", "shared_memory.banks=16", "shared_memory.banks=64", "shared_memory.bank_width=8B"}) {
      ChipFile file = find_chip("h200");
      set_chip_key(file, change);
      Constraints constraints;
      constraints.family = SparsePlan::kName;
      const PlannedNetwork planned = choose_plan(file.chip, network, RowProfile::from_matrix(matrix), constraints);
      const auto& plan = std::get<SparsePlan>(planned.plan);
      const double simulated =
          simulate(file.chip, *plan_trace(file.chip, sparse_layout(network, plan, matrix))).step_us;
      const Prediction& predicted = planned.prediction;
      const double apart = std::abs(predicted.step_us / simulated - 1);
      CAPTURE(describe(network), change, predicted.step_us, simulated);
      CHECK((predicted.low_us <= simulated && simulated <= predicted.high_us));
      sum += apart;
      near += apart <= 0.1 ? 1 : 0;
      largest = std::max(largest, apart);
      ++cases;
    }
  }
  CAPTURE(largest, near);
  CHECK(cases == 40);
  CHECK(sum / cases <= 0.11);
  CHECK(near >= 20);
}
