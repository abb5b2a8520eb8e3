// SPDX-License-Identifier: Apache-2.0
// A training step of an LSTM layer, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted_inference.hpp"
#include "model/base/error.hpp"
#include "tests/kernels/training_cases.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace onchip {
namespace {

struct Case {
  TrainingSize size;
  Precision precision;
  bool initial, last;
  std::string forward, backward;  // what differs from the chosen plan
};

void check_interpreted(const Case& c) {
  INFO("input " << c.size.input << " hidden " << c.size.hidden << " batch " << c.size.batch << " steps " << c.size.steps
                << ", " << info(c.precision).name << ", '" << c.forward << "', '" << c.backward << "'");
  TrainingPlan plan = choose_training_plan(c.size, 8, 227 * 1024);
  plan.forward = changed(plan.forward, c.forward);
  plan.backward = changed(plan.backward, c.backward);
  const TrainingProgram training = training_program(c.size, c.precision, plan, "sm_90");
  InterpretedInference interpreted(training.program);
  check_training(interpreted, training.arrays, c.size, c.precision,
                 random_training(c.size, c.precision, c.initial, c.last, 3));
}

}  // namespace

TEST_CASE("an interpreted training step of an LSTM has the gradients of the reference", "[fast]") {
  const Precision fp16 = Precision::fp16, bf16 = Precision::bf16;
  for (const Case& c :
       {Case{{24, 32, 4, 5}, fp16, true, true, "", ""}, Case{{5, 24, 1, 1}, fp16, false, false, "", ""},
        Case{{16, 40, 3, 35}, bf16, true, false, "ahead=4", "split=2 ahead=4"},
        Case{{7, 33, 9, 4}, fp16, false, true, "groups=1 shared_tiles=1", "groups=1 split=2"},
        Case{{8, 24, 18, 5},
             fp16,
             true,
             true,
             "groups=1 turns=1 warps=4 loads_in_flight=12",
             "groups=1 turns=1 warps=2 split=2 loads_in_flight=12"},
        Case{{8, 17, 10, 20}, bf16, true, true, "groups=2 turns=2 ahead=4", "groups=2 turns=3 warps=1 ahead=4"},
        Case{{8, 64, 20, 4},
             fp16,
             true,
             true,
             "groups=1 turns=2 shared_tiles=4 warps=8",
             "groups=1 turns=2 split=4 shared_tiles=2 warps=8"}}) {
    check_interpreted(c);
  }
}

TEST_CASE("a wrong sign in any term of an LSTM's cell or its derivative is found", "[fast]") {
  struct Change {
    std::string_view from, to;
  };
  const TrainingSize size{6, 16, 2, 3};
  const TrainingInput in = random_training(size, Precision::fp16, true, true, 4);
  const TrainingProgram training =
      training_program(size, Precision::fp16, choose_training_plan(size, 2, 227 * 1024), "sm_90");
  const auto largest_error = [&](const InferenceProgram& program) {
    InterpretedInference interpreted(program);
    double largest = 0;
    for (const auto& [name, error] : training_errors(interpreted, training.arrays, size, Precision::fp16, in)) {
      largest = std::max(largest, error);
    }
    return largest;
  };
  CHECK(largest_error(training.program) <= most_error(Precision::fp16));
  for (const Change& change : {Change{"constants.bias[g]), g == 2)", "constants.bias[g]), g == 3)"},
                               {"load_or_zero(a.input_bias, row) +", "load_or_zero(a.input_bias, row) -"},
                               {"gates[0] * gates[2]);", "-gates[0] * gates[2]);"},
                               {"dh += to_float(fetched.gradient)", "dh -= to_float(fetched.gradient)"},
                               {"dh += load_or_zero(a.final_gradient", "dh -= load_or_zero(a.final_gradient"},
                               {"fmaf(dh * o, fmaf(-squashed", "fmaf(-dh * o, fmaf(-squashed"},
                               {"fmaf(-squashed, squashed, 1.0f), carry)", "fmaf(squashed, squashed, 1.0f), carry)"},
                               {"1.0f), carry)", "1.0f), -carry)"},
                               {"dc * g * (i * (1.0f - i))", "dc * g * (i * (1.0f + i))"},
                               {"(f * (1.0f - f))", "(f * (1.0f + f))"},
                               {"dc * to_float(fetched.last_cell)", "-dc * to_float(fetched.last_cell)"},
                               {"dc * i * fmaf(-g, g, 1.0f)", "dc * i * fmaf(g, g, 1.0f)"},
                               {"dh * squashed * (o * (1.0f - o))", "dh * squashed * (o * (1.0f + o))"},
                               {"item.carry_of(turn), dc * f)", "item.carry_of(turn), -dc * f)"},
                               {"constants.bias[k] +=", "constants.bias[k] -="}}) {
    INFO(change.to);
    InferenceProgram program = training.program;
    std::string source(program.kernels.front().request.source);  // of both
    REQUIRE(source.find(change.from) != std::string::npos);
    source.replace(source.find(change.from), change.from.size(), change.to);
    for (ProgramKernel& kernel : program.kernels) {
      kernel.request.source = source;
    }
    CHECK(largest_error(program) > most_error(Precision::fp16));
  }
}

TEST_CASE("a training step refuses what it cannot do", "[fast]") {
  const TrainingSize size{8, 16, 2, 3};
  const TrainingPlan plan = choose_training_plan(size, 8, 227 * 1024);
  CHECK_THROWS_WITH(training_program(size, Precision::fp32, plan, "sm_90"),
                    "an LSTM is trained on the chip in 'fp16' or 'bf16', not in 'fp32'");
  CHECK_THROWS_AS(training_program({8, 16, 2, 0}, Precision::fp16, plan, "sm_90"), InputError);
  CHECK_THROWS_WITH(choose_training_plan({8, 4096, 1, 1}, 132, 227 * 1024),
                    Catch::Matchers::Contains("an LSTM of 4096 units takes 256 SMs to train on the chip"));
  CHECK_THROWS_AS(changed(plan.forward, "turn=2"), InputError);
  CHECK_THROWS_AS(recurrence_shape(size, changed(plan.forward, "split=2"), false), InputError);
}

}  // namespace onchip
