// SPDX-License-Identifier: Apache-2.0
// Several layers and both directions: against PyTorch's formulas, one sample after another, with dense matrices.
#include "model/base/numeric.hpp"
#include "model/workload/reference.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/model/workload/dense_step.hpp"

#include <algorithm>
#include <limits>
#include <vector>

using namespace onchip;

namespace {

using Eigen::ArrayXd;
using Eigen::MatrixXd;

// Weights, and what a stack of them is run on.
struct Case {
  Cell cell = Cell::tanh;
  Precision precision = Precision::fp32;
  int hidden = 7, layers = 2;
  std::vector<std::vector<float>> input_weights, input_bias, recurrent_bias;
  std::vector<ReferenceLayer> weights;
  std::vector<float> input, initial, initial_cell;
  std::vector<int> lengths;
  ReferenceStackInput in;

  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Case(Cell cell_, Precision precision_, int hidden_, int layers_, const ReferenceStackInput& sizes, bool optional)
      : cell(cell_), precision(precision_), hidden(hidden_), layers(layers_), in(sizes) {
    const int rows = info(cell).gates * hidden;
    const int places = layers * in.directions;
    input_weights.resize(places), input_bias.resize(places), recurrent_bias.resize(places);
    for (int place = 0; place < places; ++place) {
      const unsigned seed = 100 + place;
      const int columns = place < in.directions ? in.input_size : in.directions * hidden;
      input_weights[place] = to_dense(generate_mask(rows, columns, 0.7, seed, Precision::fp32));
      input_bias[place] = random_floats(optional ? rows : 0, seed + 100);
      recurrent_bias[place] = random_floats(optional ? rows : 0, seed + 200);
      weights.push_back({input_weights[place], generate_mask(rows, hidden, 0.4, seed + 300, Precision::fp32),
                         input_bias[place], recurrent_bias[place]});
    }
    input = random_floats(static_cast<std::size_t>(in.steps) * in.batch * in.input_size, 1);
    in.input = input;
    if (optional) {
      initial = random_floats(static_cast<std::size_t>(places) * in.batch * hidden, 2);
      initial_cell = random_floats(cell == Cell::lstm ? initial.size() : 0, 3);
      for (int sample = 0; sample < in.batch; ++sample) {
        lengths.push_back(in.steps - sample * 2 % (in.steps + 1));
      }
      in.initial = initial, in.initial_cell = initial_cell, in.lengths = lengths;
    }
  }

  ReferenceStack run() const { return reference_stack(weights, cell, precision, in); }
};

MatrixXd rounded_dense(const std::vector<float>& values, int columns, Precision precision) {
  MatrixXd matrix(static_cast<int>(values.size()) / columns, columns);
  for (int i = 0; i < static_cast<int>(values.size()); ++i) {
    matrix(i / columns, i % columns) = round_to(precision, values[i]);
  }
  return matrix;
}

ArrayXd array_of(std::span<const float> values) {
  ArrayXd result(static_cast<int>(values.size()));
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

ReferenceStack dense_stack(const Case& k) {
  const ReferenceStackInput& in = k.in;
  const int rows = info(k.cell).gates * k.hidden, width = in.directions * k.hidden;
  ReferenceStack result;
  result.output.resize(static_cast<std::size_t>(in.steps) * in.batch * width);
  result.final_state.resize(k.weights.size() * in.batch * k.hidden);
  result.final_cell.resize(k.cell == Cell::lstm ? result.final_state.size() : 0);
  for (int sample = 0; sample < in.batch; ++sample) {
    const int length = in.lengths.empty() ? in.steps : in.lengths[sample];
    std::vector<ArrayXd> inputs;
    for (int t = 0; t < length; ++t) {
      inputs.push_back(array_of(in.input.subspan(std::size_t(t * in.batch + sample) * in.input_size, in.input_size)));
    }
    for (int layer = 0; layer < k.layers; ++layer) {
      std::vector<ArrayXd> outputs(length, ArrayXd(width));
      for (int direction = 0; direction < in.directions; ++direction) {
        const std::size_t place = layer * in.directions + direction;
        const MatrixXd w_ih = rounded_dense(k.input_weights[place], layer == 0 ? in.input_size : width, k.precision);
        SparseMatrix recurrent = k.weights[place].recurrent_weights;
        round_weights(recurrent, k.precision);
        const MatrixXd w_hh = rounded_dense(to_dense(recurrent), k.hidden, Precision::fp32);
        const ArrayXd b_ih = k.input_bias[place].empty() ? ArrayXd::Zero(rows) : array_of(k.input_bias[place]);
        const ArrayXd b_hh = k.recurrent_bias[place].empty() ? ArrayXd::Zero(rows) : array_of(k.recurrent_bias[place]);
        const std::size_t own = (place * in.batch + sample) * k.hidden;
        ArrayXd h = in.initial.empty() ? ArrayXd::Zero(k.hidden) : array_of(in.initial.subspan(own, k.hidden));
        ArrayXd c =
            in.initial_cell.empty() ? ArrayXd::Zero(k.hidden) : array_of(in.initial_cell.subspan(own, k.hidden));
        for (int i = 0; i < length; ++i) {
          const int t = direction == 0 ? i : length - 1 - i;
          dense_step(k.cell, (w_ih * inputs[t].matrix()).array() + b_ih, (w_hh * h.matrix()).array() + b_hh, h, c);
          outputs[t].segment(direction * k.hidden, k.hidden) = h;
        }
        std::copy(h.begin(), h.end(), result.final_state.begin() + static_cast<std::ptrdiff_t>(own));
        if (k.cell == Cell::lstm) {
          std::copy(c.begin(), c.end(), result.final_cell.begin() + static_cast<std::ptrdiff_t>(own));
        }
      }
      inputs = outputs;
    }
    for (int t = 0; t < length; ++t) {
      std::copy(inputs[t].begin(), inputs[t].end(),
                result.output.begin() + std::ptrdiff_t{t * in.batch + sample} * width);
    }
  }
  return result;
}

constexpr ReferenceStackInput kAwkward{.input_size = 19, .directions = 2, .batch = 3, .steps = 5};

}  // namespace

TEST_CASE("a stack of layers agrees with PyTorch's formulas on awkward shapes", "[reference][fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int hidden : {1, 13, 37}) {
    for (const int layers : {1, 3}) {
      for (const int directions : {1, 2}) {
        for (const int batch : {1, 3, 8}) {
          for (const bool optional : {false, true}) {
            const int input_size = hidden == 1 ? 1 : 19;
            const Case k(cell, precision, hidden, layers,
                         {.input_size = input_size, .directions = directions, .batch = batch, .steps = 5}, optional);
            const ReferenceStack got = k.run();
            const ReferenceStack expected = dense_stack(k);
            CAPTURE(info(cell).name, info(precision).name, hidden, layers, directions, batch, optional);
            CHECK(largest_difference(got.output, expected.output) < 1e-12);
            CHECK(largest_difference(got.final_state, expected.final_state) < 1e-12);
            CHECK(largest_difference(got.final_cell, expected.final_cell) < 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("input beyond a sample's length does not matter to a stack, and its output there is zero",
          "[reference][fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru, Cell::relu);
  Case k(cell, Precision::fp16, 13, 2, kAwkward, true);
  k.lengths = {2, 5, 0};
  const ReferenceStack before = k.run();
  for (std::size_t i = 0; i < k.input.size(); ++i) {
    const std::size_t row = i / k.in.input_size;
    if (static_cast<int>(row) / k.in.batch >= k.lengths[row % k.in.batch]) {
      k.input[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  const ReferenceStack after = k.run();
  CHECK(after.output == before.output);
  CHECK(after.final_state == before.final_state);
  CHECK(after.final_cell == before.final_cell);
  int wrong = 0;
  for (std::size_t i = 0; i < after.output.size(); ++i) {
    const std::size_t row = i / (2 * 13);
    wrong += static_cast<int>(row) / k.in.batch >= k.lengths[row % k.in.batch] && after.output[i] != 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a stack rounds what its kernels hand over only when asked to", "[reference][fast]") {
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    Case k(Cell::lstm, precision, 13, 2, kAwkward, true);
    const ReferenceStack exact = k.run();
    k.in.round_state = true;
    const ReferenceStack rounded = k.run();
    const auto is_rounded = [&](double x) { return round_to(precision, static_cast<float>(x)) == x; };
    CHECK(std::all_of(rounded.output.begin(), rounded.output.end(), is_rounded));
    CHECK(std::all_of(rounded.final_state.begin(), rounded.final_state.end(), is_rounded));
    CHECK_FALSE(std::all_of(exact.output.begin(), exact.output.end(), is_rounded));
    const double difference = largest_difference(exact.output, rounded.output);
    CHECK(difference > info(precision).unit_roundoff / 8);
    CHECK(difference < info(precision).unit_roundoff * 8);
  }
}

TEST_CASE("a stack refuses what it cannot compute", "[reference][fast]") {
  Case k(Cell::gru, Precision::fp16, 7, 2, kAwkward, true);
  const auto error = [&] { return error_of([&] { k.run(); }); };
  REQUIRE(error() == "no error");
  const ReferenceStackInput good = k.in;
  k.in.input = good.input.first(284);
  CHECK(error() == "the input of the stack has 284 elements; expected 285");
  k.in = good;
  k.in.initial = good.initial.first(1);
  CHECK(error() == "the initial state of the stack has 1 elements; expected 84");
  k.in = good;
  k.in.initial_cell = good.initial;
  CHECK(error() == "the initial cell state has 21 elements; expected 0");
  k.in = good;
  k.in.directions = 3;
  CHECK(error() == "there are weights for 4 directions of layers with 3 each; expected 1 or 2, and whole layers");
  k.in = good;
  const std::vector<int> long_one{5, 6, 5};
  k.in.lengths = long_one;
  CHECK(error() == "a sample has 6 steps; expected 0 to 5");
  k.in = good;
  k.in.batch = 0;
  CHECK(error() ==
        "a stack needs an input size and a batch of at least 1 and no negative number of steps; found 19, 0 "
        "and 5");
  k.in = good;
  k.weights[2].input_weights = k.input_weights[0];
  CHECK(error() == "the matrix of input weights has 399 elements; expected 294");
  k.weights[2].input_weights = k.input_weights[2];
  k.weights[3].input_bias = k.weights[3].input_bias.first(20);
  CHECK(error() == "the input bias has 20 elements; expected 21");
  k.weights[3].input_bias = {};
  k.weights[3].recurrent_weights = generate_mask(18, 6, 1, 1, Precision::fp16);
  CHECK(error() == "a recurrent matrix has 6 columns; that of the first layer has 7");
  k.weights[3].recurrent_weights = generate_mask(7, 7, 1, 1, Precision::fp16);
  CHECK(error() == "the recurrent matrix of the cell 'gru' must have 3 rows per column; found 7 x 7");
  k.weights.pop_back();
  CHECK(error() == "there are weights for 3 directions of layers with 2 each; expected 1 or 2, and whole layers");
}
