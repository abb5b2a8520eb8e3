// SPDX-License-Identifier: Apache-2.0
// The kernels' own PTX, executed by sim/ptx, against the reference: what they compute, without a GPU.
#include "experiments/interpret.hpp"

#include "tests/kernels/given.hpp"

#include <cstring>

namespace onchip {
namespace {

Got interpret(InterpretedKernel& kernel, const Network& network, const Given& g) {
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden * info(network.precision).bytes;
  const bool has_cell = network.cell == Cell::lstm;
  std::vector<std::byte> input = to_elements(g.input, network.precision);
  std::vector<std::byte> initial = to_elements(g.initial, network.precision);
  std::vector<std::byte> initial_cell = to_elements(g.initial_cell, network.precision);
  const std::byte poison{0xff};  // a NaN until it is written
  Got got{std::vector<std::byte>(static_cast<std::size_t>(g.steps) * state, poison),
          std::vector<std::byte>(state, poison), std::vector<std::byte>(has_cell ? state : 0, poison)};
  const auto pointer = [&](std::vector<std::byte>& bytes) { return bytes.empty() ? nullptr : bytes.data(); };
  std::vector<std::byte>* const all[] = {&input,      &initial,         &initial_cell,
                                         &got.states, &got.final_state, &got.final_cell};
  for (std::vector<std::byte>* const bytes : all) {
    if (!bytes->empty()) {
      kernel.allow(*bytes);
    }
  }
  Sequences sequences;
  sequences.steps = g.steps;
  sequences.input = pointer(input);
  sequences.initial = pointer(initial);
  sequences.initial_cell = pointer(initial_cell);
  sequences.output = got.states.data();
  sequences.final_state = got.final_state.data();
  sequences.final_cell = pointer(got.final_cell);
  sequences.lengths = g.lengths;
  sequences.backward = g.backward;
  kernel.run(sequences);
  for (std::vector<std::byte>* const bytes : all) {
    if (!bytes->empty()) {
      kernel.forget(*bytes);
    }
  }
  return got;
}

Got interpret(const PlannedCase& c, const Given& g, std::int64_t most_steps = 8) {
  InterpretedKernel kernel(c.layout(), g.biases(), most_steps);
  return interpret(kernel, c.network, g);
}

void check_interpreted(const PlannedCase& c, const Given& g, std::int64_t most_steps = 8) {
  CAPTURE(c.text(), g.steps, g.backward);
  check_right(interpret(c, g, most_steps), expected(c, g), c.network.precision);
}

TEST_CASE("sparse kernels of every cell and precision, interpreted, give what the reference gives") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int batch : {1, 3, 8}) {
    const PlannedCase c = planned_case({.cell = cell,
                                        .precision = precision,
                                        .hidden = batch == 1 ? 127 : 61,
                                        .batch = batch,
                                        .sms = batch == 8 ? 2 : 3,
                                        .lanes = batch == 3 ? 32 : 8,
                                        .units_per_group = 2});
    check_interpreted(c, given(c.network, 5), 3);
  }
}

}  // namespace
}  // namespace onchip
