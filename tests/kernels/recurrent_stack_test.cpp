// SPDX-License-Identifier: Apache-2.0
// What needs no GPU, then (tag [gpu]) what does: every result of a stack against reference_stack.
#include "kernels/recurrent/recurrent_stack.hpp"

#include "kernels/baselines/random_fill.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip.hpp"
#include "model/plan/planner.hpp"
#include "model/workload/reference.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace onchip {
namespace {

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

template <typename Error, typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Shape {
  Cell cell;
  Precision precision;
  int hidden, input_size, layers, directions, batch, steps;
  double density;
};

Layout planned(const Shape& shape, const SparseMatrix& matrix) {
  Recurrent network;
  network.cell = shape.cell;
  network.precision = shape.precision;
  network.hidden = shape.hidden;
  network.batch = shape.batch;
  network.steps = shape.steps;
  network.density = matrix.density();
  Chip chip = find_chip("h200").chip;
  if (has_device()) {
    chip.sm_count.value = std::min<double>(chip.sm_count, device_info().sm_count);
  }
  const PlannedNetwork chosen = choose_plan(chip, network, RowProfile::from_matrix(matrix));
  return make_layout(network, chosen.plan, matrix);
}

// Weights of variance 1 / row length and biases as PyTorch begins with, for the device and the reference.
struct Weights {
  explicit Weights(const Shape& shape) {
    const int rows = info(shape.cell).gates * shape.hidden, places = shape.layers * shape.directions;
    const float limit = 1 / std::sqrt(static_cast<float>(shape.hidden));
    for (int place = 0; place < places; ++place) {
      const int columns = place < shape.directions ? shape.input_size : shape.directions * shape.hidden;
      const unsigned seed = 100 + place;
      // Values that the stack is to round.
      input.push_back(to_dense(generate_mask(rows, columns, place % 2 == 0 ? 1 : 0.5, seed, Precision::fp32)));
      recurrent.push_back(generate_mask(rows, shape.hidden, shape.density, seed + 100, shape.precision));
      layouts.push_back(planned(shape, recurrent.back()));
      for (const unsigned which : {0u, 1u}) {
        biases.push_back(random_pattern(rows, Precision::fp32, limit, seed + 200 + 100 * which));
      }
    }
  }

  std::vector<StackWeights> for_device() const {
    std::vector<StackWeights> all;
    for (std::size_t place = 0; place < input.size(); ++place) {
      all.push_back({input[place], &layouts[place], {biases[2 * place], biases[2 * place + 1]}});
    }
    return all;
  }

  std::vector<ReferenceLayer> for_reference() const {
    std::vector<ReferenceLayer> all;
    for (std::size_t place = 0; place < input.size(); ++place) {
      all.push_back({input[place], recurrent[place], biases[2 * place], biases[2 * place + 1]});
    }
    return all;
  }

  std::vector<std::vector<float>> input;  // [layers, directions]
  std::vector<SparseMatrix> recurrent;
  std::vector<Layout> layouts;
  std::vector<std::vector<float>> biases;  // [layers, directions, 2]: of the input, recurrent
};

constexpr Shape kAwkward{Cell::gru, Precision::fp16, 37, 19, 2, 2, 3, 5, 0.3};

TEST_CASE("a stack says what is wrong with its sizes") {
  const Weights weights(kAwkward);
  std::vector<StackWeights> all = weights.for_device();
  const auto error = [&](int input_size = 19, int directions = 2, std::int64_t most_steps = 5) {
    return error_of<InputError>([&] {
      try {
        RecurrentStack(input_size, directions, all, most_steps);
      } catch (const CudaError&) {  // nothing wrong, but no device
      }
    });
  };
  CHECK(error() == "no error");
  CHECK(error(18) == "layer 0, forward: the matrix of input weights has 2109 elements; expected 1998");
  CHECK(error(0) == "the input size 0 is out of range: expected 1 to 2147483647");
  CHECK(error(19, 3) == "the number of directions 3 is out of range: expected 1 to 2");
  CHECK(error(19, 1) == "layer 1, forward: the matrix of input weights has 2109 elements; expected 4107");
  CHECK(error(19, 2, 0) == "the largest number of steps 0 is out of range: expected 1 to 715827882");
  CHECK(error(19, 2, 715827883) == "the largest number of steps 715827883 is out of range: expected 1 to 715827882");

  all[3].biases.recurrent = all[3].biases.recurrent.first(110);
  CHECK(error() == "layer 1, backward: a bias has 110 elements; expected 111");
  all[3].biases = {};
  CHECK(error() == "no error");
  Layout other = weights.layouts[1];
  std::visit([](auto& of_family) { of_family.geometry.network.batch = 4; }, other);
  all[1].recurrent = &other;
  CHECK(error().starts_with("layer 0, backward: the network is gru H=37 B=4"));
  all[1].recurrent = nullptr;
  CHECK(error() == "layer 0, backward: there are no recurrent weights");
  all.pop_back();
  CHECK(error() == "there are weights for 3 directions of layers; expected a multiple of 2, at least one");
  all.clear();
  CHECK(error() == "there are weights for 0 directions of layers; expected a multiple of 2, at least one");
}

TEST_CASE("a stack says in a plain sentence that there is no GPU") {
  if (!has_device()) {
    const Weights weights(kAwkward);
    CHECK(error_of<CudaError>([&] { RecurrentStack(19, 2, weights.for_device(), 5); }).starts_with("no CUDA device: "));
  }
}

// ---- on a GPU -------------------------------------------------------------------------------------------------------

// What a stack is run on: values that the type of the state has.
struct Inputs {
  std::vector<float> input, initial, initial_cell;  // empty: not given
  std::vector<int> lengths;
};

struct Results {
  std::vector<float> output, final_state, final_cell;
};

DeviceBuffer<std::byte> poisoned(std::size_t elements, Precision precision) {
  DeviceBuffer<std::byte> buffer(elements * info(precision).bytes);
  poison(buffer);
  return buffer;
}

Results run(RecurrentStack& stack, const Shape& shape, int steps, const Inputs& in) {
  const Precision precision = shape.precision;
  const std::size_t sample = static_cast<std::size_t>(shape.directions) * shape.hidden;
  const std::size_t states = sample * shape.layers * shape.batch;
  const DeviceBuffer<std::byte> input(to_elements(in.input, precision));
  const DeviceBuffer<std::byte> initial(to_elements(in.initial, precision));
  const DeviceBuffer<std::byte> initial_cell(to_elements(in.initial_cell, precision));
  const auto output = poisoned(sample * steps * shape.batch, precision);
  const auto final_state = poisoned(states, precision);
  const auto final_cell = poisoned(shape.cell == Cell::lstm ? states : 0, precision);

  StackSequences sequences;
  sequences.steps = steps;
  sequences.input = input.data();
  sequences.initial = in.initial.empty() ? nullptr : initial.data();
  sequences.initial_cell = in.initial_cell.empty() ? nullptr : initial_cell.data();
  sequences.output = output.data();
  sequences.final_state = final_state.data();
  sequences.final_cell = shape.cell == Cell::lstm ? final_cell.data() : nullptr;
  sequences.lengths = in.lengths;
  const Stream stream;
  stack.enqueue(stream.get(), sequences);
  stream.synchronize();
  stack.check_status();
  const auto floats = [&](const auto& buffer) { return from_elements(buffer.download(), precision); };
  return {floats(output), floats(final_state), floats(final_cell)};
}

ReferenceStack expected(const Weights& weights, const Shape& shape, int steps, const Inputs& in) {
  return reference_stack(weights.for_reference(), shape.cell, shape.precision,
                         {.input_size = shape.input_size,
                          .directions = shape.directions,
                          .batch = shape.batch,
                          .steps = steps,
                          .input = in.input,
                          .initial = in.initial,
                          .initial_cell = in.initial_cell,
                          .lengths = in.lengths});
}

// A few roundings of x and h in each of two layers; fp32: of sums, and the chip's own exp and tanh.
double tolerance_of(Precision precision) {
  return std::max(4 * info(precision).unit_roundoff, 1e-5);
}

void check_against_reference(RecurrentStack& stack, const Weights& weights, const Shape& shape, int steps,
                             const Inputs& in) {
  CAPTURE(info(shape.cell).name, info(shape.precision).name, shape.directions, steps, in.lengths.size());
  const Results got = run(stack, shape, steps, in);
  const ReferenceStack wanted = expected(weights, shape, steps, in);
  const double tolerance = tolerance_of(shape.precision);
  CHECK(relative_error(wanted.output, got.output) < tolerance);
  CHECK(relative_error(wanted.final_state, got.final_state) < tolerance);
  CHECK(relative_error(wanted.final_cell, got.final_cell) < tolerance);
  // A norm over all does not see a few small elements that should be zero.
  int not_zero = 0;
  for (std::size_t i = 0; i < got.output.size() && !in.lengths.empty(); ++i) {
    const std::size_t row = i / (static_cast<std::size_t>(shape.directions) * shape.hidden);
    const bool beyond = static_cast<int>(row) / shape.batch >= in.lengths[row % shape.batch];
    not_zero += beyond && got.output[i] != 0;
  }
  CHECK(not_zero == 0);
}

TEST_CASE("stacks of layers and directions compute what PyTorch's do", "[gpu]") {
  constexpr int kSteps = 11;
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::tanh}) {
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
      for (const int directions : {1, 2}) {
        const Shape shape{cell, precision, 37, 19, 2, directions, 3, kSteps, 0.3};
        const Weights weights(shape);
        RecurrentStack stack(shape.input_size, directions, weights.for_device(), kSteps);
        const auto values = [&](std::size_t count, unsigned seed) {
          return random_pattern(count, precision, 1.0f, seed);
        };
        const std::size_t states = static_cast<std::size_t>(shape.layers) * directions * shape.batch * shape.hidden;
        Inputs all{values(std::size_t{kSteps} * shape.batch * shape.input_size, 1), values(states, 2), {}, {7, 11, 1}};
        if (cell == Cell::lstm) {
          all.initial_cell = values(states, 3);
        }
        check_against_reference(stack, weights, shape, kSteps, all);
        // The same object again: shorter, and with nothing given but the input.
        const Inputs least{values(std::size_t{4} * shape.batch * shape.input_size, 4), {}, {}, {}};
        check_against_reference(stack, weights, shape, 4, least);
        check_against_reference(stack, weights, shape, kSteps, all);
      }
    }
  }
}

TEST_CASE("a stack runs sequences of several launches in both directions", "[gpu]") {
  constexpr int kSteps = 2100;  // a launch has 2048
  const Shape shape{Cell::lstm, Precision::fp16, 37, 19, 1, 2, 3, kSteps, 0.3};
  const Weights weights(shape);
  RecurrentStack stack(shape.input_size, 2, weights.for_device(), kSteps);
  const Inputs in{random_pattern(std::size_t{kSteps} * shape.batch * shape.input_size, shape.precision, 1.0f, 1),
                  {},
                  {},
                  {2048, 2100, 2049}};
  check_against_reference(stack, weights, shape, kSteps, in);
}

TEST_CASE("input beyond a sample's length does not matter to a stack on the device", "[gpu]") {
  const Shape& shape = kAwkward;
  const Weights weights(shape);
  RecurrentStack stack(shape.input_size, shape.directions, weights.for_device(), shape.steps);
  Inputs in{random_pattern(std::size_t(shape.steps) * shape.batch * shape.input_size, shape.precision, 1.0f, 1),
            {},
            {},
            {2, 5, 1}};
  const Results before = run(stack, shape, shape.steps, in);
  for (std::size_t i = 0; i < in.input.size(); ++i) {
    const std::size_t row = i / shape.input_size;
    if (static_cast<int>(row) / shape.batch >= in.lengths[row % shape.batch]) {
      in.input[i] = NAN;
    }
  }
  const Results after = run(stack, shape, shape.steps, in);
  CHECK(after.output == before.output);
  CHECK(after.final_state == before.final_state);
}

TEST_CASE("a stack refuses sequences that it has no room for", "[gpu]") {
  const Shape& shape = kAwkward;
  const Weights weights(shape);
  RecurrentStack stack(shape.input_size, shape.directions, weights.for_device(), shape.steps);
  const auto input = poisoned(std::size_t{6} * shape.batch * shape.input_size, shape.precision);
  const Stream stream;
  const auto error = [&](const StackSequences& sequences) {
    const std::string message = error_of<InputError>([&] { stack.enqueue(stream.get(), sequences); });
    stream.synchronize();
    return message;
  };
  StackSequences sequences;
  sequences.steps = 5;
  CHECK(error(sequences) == "the stack has no input");
  sequences.input = input.data();
  CHECK(error(sequences) == "no error");
  for (const int steps : {0, 6}) {
    sequences.steps = steps;
    CHECK(error(sequences) == "the number of steps " + std::to_string(steps) + " is out of range: expected 1 to 5");
  }
  sequences.steps = 5;
  sequences.initial_cell = input.data();
  CHECK(error(sequences) == "the cell 'gru' has no cell state");
  sequences.initial_cell = nullptr;
  const std::vector<int> two{5, 5}, none{5, 0, 5};
  sequences.lengths = two;
  CHECK(error(sequences).starts_with("there are 2 lengths"));
  sequences.lengths = none;
  CHECK(error(sequences).starts_with("the length 0 of sample 1 is out of range"));
}

// Against double precision throughout: only the weights and the input are rounded beforehand.
TEST_CASE("256 steps of a gated network stay near double precision", "[gpu]") {
  constexpr int kSteps = 256;
  for (const Cell cell : {Cell::lstm, Cell::gru}) {
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      const Shape shape{cell, precision, 512, 256, 1, 1, 4, kSteps, 0.1};
      Weights weights(shape);
      if (cell == Cell::lstm) {  // the forget gate's, so that the network remembers
        for (int unit = 0; unit < shape.hidden; ++unit) {
          weights.biases[0][shape.hidden + unit] += 1;
        }
      }
      RecurrentStack stack(shape.input_size, 1, weights.for_device(), kSteps);
      const Inputs in{random_pattern(std::size_t{kSteps} * shape.batch * shape.input_size, precision, std::sqrt(3.0f),
                                     1),  // variance 1
                      {},
                      {},
                      {}};
      const Results got = run(stack, shape, kSteps, in);
      const ReferenceStack wanted = expected(weights, shape, kSteps, in);
      const double most = precision == Precision::fp16 ? 2e-3 : 1e-2;
      CAPTURE(info(cell).name, info(precision).name);
      CHECK(relative_error(wanted.output, got.output) < most);
      CHECK(relative_error(wanted.final_state, got.final_state) < most);  // the last step's output
      const std::size_t last = wanted.output.size() - wanted.final_state.size();
      CHECK(relative_error(std::span(wanted.output).subspan(last), std::span(got.output).subspan(last)) < most);
    }
  }
}

}  // namespace
}  // namespace onchip
