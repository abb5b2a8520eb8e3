// SPDX-License-Identifier: Apache-2.0
// A training step of an LSTM or GRU layer, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted_inference.hpp"
#include "model/base/error.hpp"
#include "tests/kernels/training_cases.hpp"

#include <algorithm>
#include <array>
#include <span>
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
  INFO(info(c.size.cell).name << " of input " << c.size.input << " hidden " << c.size.hidden << " batch "
                              << c.size.batch << " steps " << c.size.steps << ", " << info(c.precision).name << ", '"
                              << c.forward << "', '" << c.backward << "'");
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

TEST_CASE("an interpreted training step of a GRU has the gradients of the reference", "[fast]") {
  const Precision fp16 = Precision::fp16, bf16 = Precision::bf16;
  for (const Case& c :
       {Case{{24, 32, 4, 5, Cell::gru}, fp16, true, true, "", ""},
        Case{{5, 24, 1, 1, Cell::gru}, fp16, false, false, "", ""},
        Case{{16, 40, 3, 35, Cell::gru}, bf16, true, false, "ahead=4", "split=2 ahead=4"},  // half a span of each gate
        Case{{7, 33, 9, 4, Cell::gru}, fp16, false, true, "groups=1 shared_tiles=1", "groups=1 split=2"},
        Case{{8, 17, 10, 20, Cell::gru},
             bf16,
             true,
             true,
             "groups=2 turns=2 ahead=4",
             "groups=2 turns=3 warps=1 ahead=4"},
        Case{{8, 64, 20, 4, Cell::gru},
             fp16,
             true,
             true,
             "groups=1 turns=2 shared_tiles=3 warps=8",
             "groups=1 turns=2 split=4 shared_tiles=2 warps=8"}}) {
    check_interpreted(c);
  }
}

namespace {

struct Change {
  std::string_view from, to;
};

double largest_error(const InferenceProgram& program, const TrainingArrays& arrays, const TrainingSize& size,
                     const TrainingInput& in) {
  InterpretedInference interpreted(program);
  double largest = 0;
  for (const auto& [name, error] : training_errors(interpreted, arrays, size, Precision::fp16, in)) {
    largest = std::max(largest, error);
  }
  return largest;
}

// Each change of the kernels' source is found by a gradient or an output that is wrong.
void check_changes_are_found(Cell cell, std::span<const Change> changes) {
  const TrainingSize size{6, 16, 2, 3, cell};
  const TrainingInput in = random_training(size, Precision::fp16, true, true, 4);
  const TrainingProgram training =
      training_program(size, Precision::fp16, choose_training_plan(size, 2, 227 * 1024), "sm_90");
  CHECK(largest_error(training.program, training.arrays, size, in) <= most_error(Precision::fp16));
  for (const Change& change : changes) {
    INFO(change.to);
    InferenceProgram program = training.program;
    std::string source(program.kernels.front().request.source);  // of all
    const std::size_t place = source.find(
        change.from, source.find(cell == Cell::lstm ? "The derivative of the LSTM's" : "The derivative of the GRU's"));
    REQUIRE(place != std::string::npos);
    source.replace(place, change.from.size(), change.to);
    for (ProgramKernel& kernel : program.kernels) {
      kernel.request.source = source;
    }
    CHECK(largest_error(program, training.arrays, size, in) > most_error(Precision::fp16));
  }
}

}  // namespace

TEST_CASE("a wrong sign in any term of an LSTM's cell or its derivative is found", "[fast]") {
  check_changes_are_found(
      Cell::lstm,
      std::array<Change, 15>{{{"constants.bias[g]), g == 2)", "constants.bias[g]), g == 3)"},
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
                              {"constants.bias[k] +=", "constants.bias[k] -="}}});
}

TEST_CASE("a wrong sign in any term of a GRU's cell or its derivative is found", "[fast]") {
  check_changes_are_found(
      Cell::gru,
      std::array<Change, 21>{
          {{"constants.bias[g] = load_or_zero", "constants.bias[g] = -load_or_zero"},
           {"+= load_or_zero(a.recurrent_bias", "-= load_or_zero(a.recurrent_bias"},
           {"sums[0] + (to_float", "sums[0] - (to_float"},
           {"sums[1] + (to_float", "sums[1] - (to_float"},
           {"sums[2] + constants", "sums[2] - constants"},
           {"fmaf(r, q, to_float", "fmaf(-r, q, to_float"},
           {"to_float(fetched.input[2]) + constants", "to_float(fetched.input[2]) - constants"},
           {"load_shared_float(item.carry_of(turn)) - n, n);", "load_shared_float(item.carry_of(turn)) + n, n);"},
           {"- n, n);", "- n, -n);"},
           {"sums[0] + load_shared_float", "sums[0] - load_shared_float"},
           {"dh += to_float(fetched.gradient)", "dh -= to_float(fetched.gradient)"},
           {"dh += load_or_zero(a.final_gradient", "dh -= load_or_zero(a.final_gradient"},
           {"dh * (1.0f - z)", "dh * (1.0f + z)"},
           {"fmaf(-n, n, 1.0f)", "fmaf(n, n, 1.0f)"},
           {"to_float(fetched.last_state) - n)", "to_float(fetched.last_state) + n)"},
           {"(z * (1.0f - z))", "(z * (1.0f + z))"},
           {"{dn * q *", "{-dn * q *"},
           {"(r * (1.0f - r))", "(r * (1.0f + r))"},
           {"dn, dn * r}", "dn, -dn * r}"},
           {"item.carry_of(turn), dh * z)", "item.carry_of(turn), -dh * z)"},
           {"constants.bias[k] +=", "constants.bias[k] -="}}});
}

TEST_CASE("a training step refuses what it cannot do", "[fast]") {
  const TrainingSize size{8, 16, 2, 3};
  const TrainingPlan plan = choose_training_plan(size, 8, 227 * 1024);
  CHECK_THROWS_WITH(training_program(size, Precision::fp32, plan, "sm_90"),
                    "layers are trained on the chip in 'fp16' or 'bf16', not in 'fp32'");
  CHECK_THROWS_WITH(training_program({8, 16, 2, 3, Cell::tanh}, Precision::fp16, plan, "sm_90"),
                    "the cell 'tanh' has no training kernels; 'lstm' and 'gru' have");
  CHECK_THROWS_AS(training_program({8, 16, 2, 0}, Precision::fp16, plan, "sm_90"), InputError);
  CHECK_THROWS_WITH(choose_training_plan({8, 4096, 1, 1}, 132, 227 * 1024),
                    Catch::Matchers::Contains("an LSTM of 4096 units takes 256 SMs to train on the chip"));
  CHECK_THROWS_AS(changed(plan.forward, "turn=2"), InputError);
  CHECK_THROWS_AS(recurrence_shape(size, changed(plan.forward, "split=2"), false), InputError);
}

}  // namespace onchip
