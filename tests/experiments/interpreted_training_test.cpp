// SPDX-License-Identifier: Apache-2.0
// A training step of an LSTM layer, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted_inference.hpp"
#include "model/base/error.hpp"
#include "tests/kernels/lstm_cases.hpp"

#include <string>

namespace onchip {
namespace {

struct Case {
  LstmSize size;
  Precision precision;
  bool initial, last;
  std::string forward, backward;  // what differs from the chosen plan
};

void check_interpreted(const Case& c) {
  INFO("input " << c.size.input << " hidden " << c.size.hidden << " batch " << c.size.batch << " steps " << c.size.steps
                << ", " << info(c.precision).name << ", '" << c.forward << "', '" << c.backward << "'");
  LstmPlan plan = choose_lstm_plan(c.size, 8, 227 * 1024);
  plan.forward = changed(plan.forward, c.forward);
  plan.backward = changed(plan.backward, c.backward);
  const LstmProgram training = lstm_training_program(c.size, c.precision, plan, "sm_90");
  InterpretedInference interpreted(training.program);
  check_lstm(interpreted, training.arrays, c.size, c.precision, random_lstm(c.size, c.precision, c.initial, c.last, 3));
}

}  // namespace

TEST_CASE("an interpreted training step of an LSTM has the gradients of the reference", "[fast]") {
  const Precision fp16 = Precision::fp16, bf16 = Precision::bf16;
  for (const Case& c : {Case{{24, 32, 4, 5}, fp16, true, true, "", ""}, Case{{5, 24, 1, 1}, fp16, false, false, "", ""},
                        Case{{16, 40, 3, 35}, bf16, true, false, "", "split=2"},
                        Case{{7, 33, 9, 4}, fp16, false, true, "groups=1 shared_tiles=1", "groups=1 split=2"},
                        Case{{8, 17, 10, 6}, bf16, true, true, "groups=2 turns=2", "groups=2 turns=3"},
                        Case{{8, 64, 20, 4},
                             fp16,
                             true,
                             true,
                             "groups=1 turns=2 shared_tiles=4 warps=8",
                             "groups=1 turns=2 split=4 shared_tiles=2 warps=8"}}) {
    check_interpreted(c);
  }
}

TEST_CASE("a training step refuses what it cannot do", "[fast]") {
  const LstmSize size{8, 16, 2, 3};
  const LstmPlan plan = choose_lstm_plan(size, 8, 227 * 1024);
  CHECK_THROWS_WITH(lstm_training_program(size, Precision::fp32, plan, "sm_90"),
                    "an LSTM is trained on the chip in 'fp16' or 'bf16', not in 'fp32'");
  CHECK_THROWS_AS(lstm_training_program({8, 16, 2, 0}, Precision::fp16, plan, "sm_90"), InputError);
  CHECK_THROWS_WITH(choose_lstm_plan({8, 4096, 1, 1}, 132, 227 * 1024),
                    "an LSTM of 4096 units takes 256 SMs to train on the chip; there are 132");
  CHECK_THROWS_AS(changed(plan.forward, "turn=2"), InputError);
  CHECK_THROWS_AS(recurrence_shape(size, changed(plan.forward, "split=2"), false), InputError);
}

}  // namespace onchip
