// SPDX-License-Identifier: Apache-2.0
#include "model/workload/reference.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/model/workload/dense_step.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNaNf = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinityf = std::numeric_limits<float>::infinity();

// The same recurrences, one sample after another, with dense matrices of Eigen.
ReferenceStates dense_states(SparseMatrix weights, Cell cell, Precision precision, const ReferenceInput& in) {
  using Eigen::ArrayXd;
  const int hidden = weights.columns;
  const int rows = weights.rows;
  round_weights(weights, precision);
  Eigen::MatrixXd dense = Eigen::MatrixXd::Zero(rows, hidden);
  for (int row = 0; row < rows; ++row) {
    for (auto i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      dense(row, weights.column[i]) = weights.value[i];
    }
  }
  const auto rounded = [&](const ArrayXd& h) -> ArrayXd {
    return h.unaryExpr(
        [&](double x) -> double { return in.round_state ? round_to(precision, static_cast<float>(x)) : x; });
  };
  // Column `sample` of the [count, batch] matrix that starts at `from`.
  const auto column = [&](std::span<const float> from, std::size_t start, int count, int sample) {
    ArrayXd result(count);
    for (int i = 0; i < count; ++i) {
      result[i] = from[start + static_cast<std::size_t>(i) * in.batch + sample];
    }
    return result;
  };
  const auto size = static_cast<std::size_t>(hidden) * in.batch;
  ReferenceStates result{std::vector<double>(size * in.steps), std::vector<double>(size), {}};
  result.final_cell.resize(cell == Cell::lstm ? size : 0);
  for (int sample = 0; sample < in.batch; ++sample) {
    ArrayXd h = rounded(column(in.initial, 0, hidden, sample));
    ArrayXd c = in.initial_cell.empty() ? ArrayXd::Zero(hidden) : column(in.initial_cell, 0, hidden, sample);
    const int length = in.lengths.empty() ? in.steps : in.lengths[sample];
    for (int step = 0; step < length; ++step) {
      const ArrayXd x = column(in.input, static_cast<std::size_t>(step) * rows * in.batch, rows, sample);
      ArrayXd a = (dense * rounded(h).matrix()).array();
      for (std::size_t i = 0; i < in.recurrent_bias.size(); ++i) {
        a[static_cast<int>(i)] += in.recurrent_bias[i];
      }
      dense_step(cell, x, a, h, c);
      for (int i = 0; i < hidden; ++i) {
        result.states[size * step + static_cast<std::size_t>(i) * in.batch + sample] = rounded(h)[i];
      }
    }
    for (int i = 0; i < hidden; ++i) {
      result.final_state[static_cast<std::size_t>(i) * in.batch + sample] = rounded(h)[i];
      if (cell == Cell::lstm) {
        result.final_cell[static_cast<std::size_t>(i) * in.batch + sample] = c[i];
      }
    }
  }
  return result;
}

// h after one step of one unit with the recurrent weight 1 in every gate.
ReferenceStates one_unit(Cell cell, const std::vector<float>& input, float h, const std::vector<float>& c = {},
                         const std::vector<float>& bias = {}) {
  const int gates = info(cell).gates;
  SparseMatrix weights{gates, 1, {}, std::vector<std::int32_t>(gates), std::vector<float>(gates, 1.0F)};
  weights.row_begin.resize(gates + 1);
  std::iota(weights.row_begin.begin(), weights.row_begin.end(), 0);
  const std::vector<float> initial{h};
  return reference_states(weights, cell, Precision::fp32,
                          {.steps = 1, .initial = initial, .initial_cell = c, .input = input, .recurrent_bias = bias});
}

}  // namespace

TEST_CASE("one step by hand is what the reference computes", "[reference][fast]") {
  const SparseMatrix weights{2, 2, {0, 2, 3}, {0, 1, 0}, {1, -2, 0.5F}};
  // h0 = [1 2; 3 4], x = [10 1; 0 -3]: W h0 = [-5 -6; 0.5 1]
  const std::vector<float> initial{1, 2, 3, 4};
  const std::vector<float> input{10, 1, 0, -3};
  const ReferenceInput in{.batch = 2, .steps = 1, .initial = initial, .input = input};
  const ReferenceStates relu = reference_states(weights, Cell::relu, Precision::fp16, in);
  CHECK(relu.states == std::vector<double>{5, 0, 0.5, 0});
  CHECK(relu.final_state == relu.states);
  CHECK(relu.final_cell.empty());
  CHECK(reference_states(weights, Cell::tanh, Precision::fp16, in).states ==
        std::vector<double>{std::tanh(5.0), std::tanh(-5.0), std::tanh(0.5), std::tanh(-2.0)});
}

// A gate's input of +-100 makes it 1 or 0, whatever the unit's h is.
TEST_CASE("each gate of an LSTM does what its place says", "[reference][fast]") {
  const auto c_and_h = [](float i, float f, float g, float o) {
    const ReferenceStates got = one_unit(Cell::lstm, {i, f, g, o}, 0.25F, {3});
    CHECK(got.states == got.final_state);
    return std::pair(got.final_cell.at(0), got.states.at(0));
  };
  const auto check = [](std::pair<double, double> got, double c, double o) {
    CHECK_THAT(got.first, WithinAbs(c, 1e-7));  // the inputs are floats
    CHECK_THAT(got.second, WithinAbs(o * std::tanh(c), 1e-7));
  };
  check(c_and_h(-100, 100, 0.5F, 100), 3, 1);                                     // remembers
  check(c_and_h(100, -100, 0.5F, 100), std::tanh(0.75), 1);                       // replaces
  check(c_and_h(100, 100, 0.5F, 100), 3 + std::tanh(0.75), 1);                    // adds
  check(c_and_h(-100, 100, 0.5F, -100), 3, 0);                                    // hides
  check(c_and_h(-0.25F, -100, 100, 100), 0.5, 1);                                 // i = 1/2
  check(c_and_h(-100, std::log(3.0F) - 0.25F, 100, 100), 0.75 * 3, 1);            // f = 3/4
  check(c_and_h(-100, 100, 0, std::log(3.0F) - 0.25F), 3, 0.75);                  // o = 3/4
  CHECK(one_unit(Cell::lstm, {-100, 100, 0, 100}, 0.25F).final_cell[0] < 1e-14);  // c0 is zero if not given
}

TEST_CASE("each gate of a GRU does what its place says", "[reference][fast]") {
  const auto h = [](float r, float z, float n, const std::vector<float>& bias = {}) {
    return one_unit(Cell::gru, {r, z, n}, 0.25F, {}, bias).states.at(0);
  };
  CHECK_THAT(h(0, 100, 7), WithinAbs(0.25, 1e-14));                                           // keeps h
  CHECK_THAT(h(-100, -100, 0.5F), WithinAbs(std::tanh(0.5), 1e-14));                          // forgets h
  CHECK_THAT(h(100, -100, 0.5F), WithinAbs(std::tanh(0.75), 1e-14));                          // takes all of W h
  CHECK_THAT(h(-0.25F, -100, 0.5F), WithinAbs(std::tanh(0.625), 1e-14));                      // half of it
  CHECK_THAT(h(-100, -0.25F, 0.5F), WithinAbs((std::tanh(0.5) + 0.25) / 2, 1e-14));           // half old, half new
  CHECK_THAT(h(-0.25F, -100, 0.5F, {0, 0, 2}), WithinAbs(std::tanh(0.5 + 2.25 / 2), 1e-14));  // b_n is reset, too
  CHECK_THAT(h(0, -100, 0.5F, {-0.25F, 0, 2}), WithinAbs(std::tanh(0.5 + 2.25 / 2), 1e-14));
  CHECK_THAT(h(-100, 0, 0.5F, {0, -0.25F, 0}), WithinAbs((std::tanh(0.5) + 0.25) / 2, 1e-14));
}

TEST_CASE("the reference agrees with dense matrices on awkward shapes", "[reference][fast]") {
  constexpr int kSteps = 5;
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int hidden : {1, 2, 37, 64}) {
    const int rows = info(cell).gates * hidden;
    // Weights of more precision than asked for: the reference rounds them. At 10 %, some rows are empty.
    const SparseMatrix weights =
        generate_mask(rows, hidden, hidden < 3 ? 1 : 0.1, 4, Precision::fp32, MaskKind::power_law);
    for (const int batch : {1, 3, 4, 5, 8}) {
      const auto size = static_cast<std::size_t>(hidden * batch);
      const auto initial = random_floats(size, 1);
      const auto input = random_floats(size * info(cell).gates * kSteps, 2);
      const auto initial_cell = random_floats(cell == Cell::lstm ? size : 0, 3);
      const auto bias = random_floats(static_cast<std::size_t>(rows), 4);
      const std::vector<int> all_lengths{2, 5, 0, 1, 5, 4, 3, 0};
      const std::span<const int> lengths(all_lengths.data(), static_cast<std::size_t>(batch));
      for (const bool round_state : {false, true}) {
        for (const bool optional : {false, true}) {
          ReferenceInput in{.batch = batch, .steps = kSteps, .initial = initial, .input = input};
          in.round_state = round_state;
          if (optional) {
            in.initial_cell = initial_cell;
            in.recurrent_bias = bias;
            in.lengths = lengths;
          }
          const ReferenceStates got = reference_states(weights, cell, precision, in);
          const ReferenceStates expected = dense_states(weights, cell, precision, in);
          CAPTURE(info(cell).name, info(precision).name, hidden, batch, round_state, optional);
          CHECK(largest_difference(got.states, expected.states) < 1e-12);
          CHECK(largest_difference(got.final_state, expected.final_state) < 1e-12);
          CHECK(largest_difference(got.final_cell, expected.final_cell) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("a sample that ends does not change any more, nor does what follows it matter", "[reference][fast]") {
  constexpr int kHidden = 7, kBatch = 6, kSteps = 4;
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const int gates = info(cell).gates;
  const SparseMatrix weights = generate_mask(gates * kHidden, kHidden, 0.5, 1, Precision::fp16);
  const auto initial = random_floats(kHidden * kBatch, 1);
  const auto initial_cell = random_floats(cell == Cell::lstm ? kHidden * kBatch : 0, 3);
  auto input = random_floats(static_cast<std::size_t>(gates * kHidden * kBatch * kSteps), 2);
  const std::vector<int> lengths{4, 0, 2, 1, 3, 4};
  for (std::size_t i = 0; i < input.size(); ++i) {
    const int step = static_cast<int>(i) / (gates * kHidden * kBatch);
    if (step >= lengths[i % kBatch]) {
      input[i] = kNaNf;
    }
  }
  const ReferenceStates got = reference_states(weights, cell, Precision::fp16,
                                               {.batch = kBatch,
                                                .steps = kSteps,
                                                .initial = initial,
                                                .initial_cell = initial_cell,
                                                .input = input,
                                                .lengths = lengths});
  REQUIRE(got.states.size() == kSteps * kHidden * kBatch);
  REQUIRE(got.final_state.size() == kHidden * kBatch);
  REQUIRE(got.final_cell.size() == initial_cell.size());
  int wrong = 0;
  for (int i = 0; i < kHidden * kBatch; ++i) {
    const int length = lengths[static_cast<std::size_t>(i % kBatch)];
    for (int step = 0; step < kSteps; ++step) {
      const double state = got.states[static_cast<std::size_t>(step * kHidden * kBatch + i)];
      wrong += step < length ? !std::isfinite(state) : state != 0;
      wrong += step == length - 1 && state != got.final_state[static_cast<std::size_t>(i)];
    }
    wrong += length == 0 && got.final_state[static_cast<std::size_t>(i)] != initial[static_cast<std::size_t>(i)];
    if (cell == Cell::lstm) {
      const double c = got.final_cell[static_cast<std::size_t>(i)];
      wrong += length == 0 ? c != initial_cell[static_cast<std::size_t>(i)] : !std::isfinite(c);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a GRU carries its state unrounded past the weights", "[reference][fast]") {
  // Without weights, and with the candidate n = 0, h only decays: z h.
  const SparseMatrix no_weights{3, 1, {0, 0, 0, 0}, {}, {}};
  constexpr int kSteps = 40;
  const std::vector<float> initial{1};
  std::vector<float> input;
  double exact = 1, rounded = 1;
  const double z = 1 / (1 + std::exp(-2.0));
  std::vector<double> expected;
  for (int step = 0; step < kSteps; ++step) {
    input.insert(input.end(), {0, 2, 0});
    exact *= z;
    rounded = round_to(Precision::fp16, static_cast<float>(rounded * z));
    expected.push_back(round_to(Precision::fp16, static_cast<float>(exact)));
  }
  REQUIRE(rounded != expected.back());  // else this test could not fail
  const ReferenceInput in{.steps = kSteps, .initial = initial, .input = input, .round_state = true};
  CHECK(reference_states(no_weights, Cell::gru, Precision::fp16, in).states == expected);
}

TEST_CASE("NaN passes through relu and along the weights", "[reference][fast]") {
  const SparseMatrix weights{3, 3, {0, 1, 1, 2}, {0, 0}, {1, -1}};
  const std::vector<float> initial{kNaNf, 1, 1};
  const std::vector<float> input{0, 2, 0};
  for (const bool round_state : {false, true}) {
    const auto states = reference_states(weights, Cell::relu, Precision::fp16,
                                         {.steps = 1, .initial = initial, .input = input, .round_state = round_state})
                            .states;
    CHECK(std::isnan(states[0]));
    CHECK(states[1] == 2);
    CHECK(std::isnan(states[2]));
  }
}

TEST_CASE("NaN passes through every gate, and infinities saturate them", "[reference][fast]") {
  for (const Cell cell : {Cell::lstm, Cell::gru}) {
    const auto gates = static_cast<std::size_t>(info(cell).gates);
    const std::vector<float> c(cell == Cell::lstm ? 1 : 0, 0.5F);
    for (std::size_t gate = 0; gate < gates; ++gate) {
      std::vector<float> input(gates, 0.5F);
      input[gate] = kNaNf;
      CAPTURE(info(cell).name, gate);
      CHECK(std::isnan(one_unit(cell, input, 0.5F, c).states[0]));
      for (const float sign : {1.0F, -1.0F}) {
        input[gate] = sign * kInfinityf;
        const double infinite = one_unit(cell, input, 0.5F, c).states[0];
        input[gate] = sign * 1000;
        CHECK(infinite == one_unit(cell, input, 0.5F, c).states[0]);
      }
    }
    CHECK(std::isnan(one_unit(cell, std::vector<float>(gates, 0.5F), kNaNf, c).states[0]));
  }
  CHECK(std::isnan(one_unit(Cell::lstm, {0, 0, 0, 0}, 0, {kNaNf}).states[0]));
  CHECK(one_unit(Cell::lstm, {0, 0, 0, 100}, 0, {kInfinityf}).states[0] == 1);
  CHECK(one_unit(Cell::relu, {kInfinityf}, 0).states[0] == kInfinity);
  CHECK(one_unit(Cell::relu, {-kInfinityf}, 0).states[0] == 0);
  CHECK(one_unit(Cell::tanh, {-kInfinityf}, 0).states[0] == -1);
}

TEST_CASE("no steps give no states, and the initial one as the last", "[reference][fast]") {
  const SparseMatrix weights{4, 1, {0, 1, 2, 3, 4}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  const std::vector<float> initial{0.5F}, initial_cell{0.25F};
  const ReferenceStates got =
      reference_states(weights, Cell::lstm, Precision::fp16, {.initial = initial, .initial_cell = initial_cell});
  CHECK(got.states.empty());
  CHECK(got.final_state == std::vector<double>{0.5});
  CHECK(got.final_cell == std::vector<double>{0.25});
}

TEST_CASE("the reference refuses what it cannot compute", "[reference][fast]") {
  const SparseMatrix square{1, 1, {0, 1}, {0}, {1}};
  const SparseMatrix wide{1, 2, {0, 1}, {0}, {1}};
  const SparseMatrix tall{3, 1, {0, 1, 1, 1}, {0}, {1}};
  const std::vector<float> one{1}, two{1, 2}, three{1, 2, 3};
  const std::vector<int> zero_steps{0}, one_step{1}, two_steps{2}, both{1, 1}, negative{-1};
  const auto error = [](const SparseMatrix& weights, Cell cell, const ReferenceInput& in) {
    return error_of([&] { reference_states(weights, cell, Precision::fp16, in); });
  };
  const ReferenceInput good{.steps = 1, .initial = one, .input = one};
  CHECK(error(square, Cell::relu, good) == "no error");
  CHECK(error(wide, Cell::relu, good) == "the recurrent matrix of the cell 'relu' must be square; found 1 x 2");
  CHECK(error(square, Cell::lstm, good) ==
        "the recurrent matrix of the cell 'lstm' must have 4 rows per column; found 1 x 1");
  CHECK(error(tall, Cell::lstm, good) ==
        "the recurrent matrix of the cell 'lstm' must have 4 rows per column; found 3 x 1");
  CHECK(error(tall, Cell::gru, good) == "the input has 1 elements; expected 3");
  CHECK(error(square, Cell::relu, {.batch = 2, .steps = 1, .initial = one, .input = one}) ==
        "the initial state has 1 elements; expected 2");
  CHECK(error(square, Cell::relu, {.steps = 2, .initial = one, .input = one}) ==
        "the input has 1 elements; expected 2");
  CHECK(error(square, Cell::relu, {.batch = 0, .steps = 1, .initial = one, .input = one}) ==
        "the reference needs a batch of at least 1 and no negative number of steps; found 0 and 1");
  CHECK(error(square, Cell::relu, {.steps = -1, .initial = one, .input = one}) ==
        "the reference needs a batch of at least 1 and no negative number of steps; found 1 and -1");

  ReferenceInput in{.steps = 1, .initial = one, .input = three};
  CHECK(error(tall, Cell::gru, in) == "no error");
  in.initial_cell = one;
  CHECK(error(tall, Cell::gru, in) == "the initial cell state has 1 elements; expected 0");
  in = good;
  in.recurrent_bias = two;
  CHECK(error(square, Cell::relu, in) == "the recurrent bias has 2 elements; expected 1");
  in = good;
  in.lengths = both;
  CHECK(error(square, Cell::relu, in) == "the list of lengths has 2 elements; expected 1");
  in.lengths = two_steps;
  CHECK(error(square, Cell::relu, in) == "a sample has 2 steps; expected 0 to 1");
  in.lengths = negative;
  CHECK(error(square, Cell::relu, in) == "a sample has -1 steps; expected 0 to 1");
  for (const auto& fine : {zero_steps, one_step}) {
    in.lengths = fine;
    CHECK(error(square, Cell::relu, in) == "no error");
  }
}

TEST_CASE("the relative error is the ratio of two norms", "[reference][fast]") {
  CHECK(relative_error(std::vector<double>{3, 4}, std::vector<float>{3, 4}) == 0);
  CHECK_THAT(relative_error(std::vector<double>{3, 4}, std::vector<float>{3, 4.5F}), WithinRel(0.1, 1e-6));
  CHECK_THAT(relative_error(std::vector<double>{3, 4}, std::vector<float>{0, 0}), WithinRel(1.0, 1e-6));
  CHECK(relative_error(std::vector<double>{0, 0}, std::vector<float>{0, 0}) == 0);
  CHECK(relative_error(std::vector<double>{0, 0}, std::vector<float>{0, 1e-30F}) == kInfinity);
  CHECK(relative_error({}, {}) == 0);
  // Squares that a double cannot hold.
  CHECK_THAT(relative_error(std::vector<double>{1e200, 1e200}, std::vector<float>{0, 0}), WithinRel(1.0, 1e-6));
  CHECK_THAT(relative_error(std::vector<double>{1e-30}, std::vector<float>{1.5e-30F}), WithinRel(0.5, 1e-6));
  CHECK(error_of([] { relative_error(std::vector<double>{1}, {}); }) == "the result has 0 elements; expected 1");
}

TEST_CASE("NaN or an infinity on one side makes the relative error infinite", "[reference][fast]") {
  CHECK(relative_error(std::vector<double>{1, kNaN}, std::vector<float>{1, 1}) == kInfinity);
  CHECK(relative_error(std::vector<double>{1, 1}, std::vector<float>{1, kNaNf}) == kInfinity);
  CHECK(relative_error(std::vector<double>{1, 1}, std::vector<float>{1, kInfinityf}) == kInfinity);
  CHECK(relative_error(std::vector<double>{1, kInfinity}, std::vector<float>{1, -kInfinityf}) == kInfinity);
  CHECK(relative_error(std::vector<double>{1, kInfinity}, std::vector<float>{1, kNaNf}) == kInfinity);
  CHECK(relative_error(std::vector<double>{1, kNaN}, std::vector<float>{1, kNaNf}) == 0);
  CHECK_THAT(relative_error(std::vector<double>{2, kInfinity}, std::vector<float>{1, kInfinityf}),
             WithinRel(0.5, 1e-6));
}
