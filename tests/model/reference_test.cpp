// SPDX-License-Identifier: Apache-2.0
#include "model/reference.hpp"

#include "model/error.hpp"
#include "model/numeric.hpp"
#include "tests/catch.hpp"

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNaNf = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinityf = std::numeric_limits<float>::infinity();

std::vector<float> random_floats(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(size);
  for (float& value : values) {
    value = static_cast<float>(random()) * 0x1p-31F - 1;
  }
  return values;
}

// The same recurrence with dense matrices of Eigen.
std::vector<double> dense_states(const SparseMatrix& weights, Cell cell, Precision precision, int batch, int steps,
                                 const std::vector<float>& initial, const std::vector<float>& input, bool round_state) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const int hidden = weights.rows;
  const auto rounded = [precision](double x) -> double { return round_to(precision, static_cast<float>(x)); };
  Matrix dense = Matrix::Zero(hidden, hidden);
  for (int row = 0; row < hidden; ++row) {
    for (auto i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      dense(row, weights.column[i]) = rounded(weights.value[i]);
    }
  }
  Matrix state = Eigen::Map<const Floats>(initial.data(), hidden, batch).cast<double>();
  if (round_state) {
    state = state.unaryExpr(rounded).eval();
  }
  std::vector<double> states;
  for (int step = 0; step < steps; ++step) {
    const Eigen::Map<const Floats> x(input.data() + static_cast<std::size_t>(step) * hidden * batch, hidden, batch);
    Matrix next = dense * state + x.cast<double>();
    next =
        cell == Cell::relu ? Matrix(next.cwiseMax(0.0)) : Matrix(next.unaryExpr([](double s) { return std::tanh(s); }));
    if (round_state) {
      next = next.unaryExpr(rounded).eval();
    }
    state = next;
    states.insert(states.end(), state.data(), state.data() + state.size());
  }
  return states;
}

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("one step by hand is what the reference computes", "[reference][fast]") {
  const SparseMatrix weights{2, 2, {0, 2, 3}, {0, 1, 0}, {1, -2, 0.5F}};
  // h0 = [1 2; 3 4], x = [10 1; 0 -3]: W h0 = [-5 -6; 0.5 1]
  const std::vector<float> initial{1, 2, 3, 4};
  const std::vector<float> input{10, 1, 0, -3};
  CHECK(reference_states(weights, Cell::relu, Precision::fp16, 2, 1, initial, input) ==
        std::vector<double>{5, 0, 0.5, 0});
  CHECK(reference_states(weights, Cell::tanh, Precision::fp16, 2, 1, initial, input) ==
        std::vector<double>{std::tanh(5.0), std::tanh(-5.0), std::tanh(0.5), std::tanh(-2.0)});
}

TEST_CASE("the reference agrees with dense matrices on awkward shapes", "[reference][fast]") {
  for (const int hidden : {1, 2, 37, 64}) {
    for (const int batch : {1, 3, 4, 5, 8}) {
      for (const Cell cell : {Cell::relu, Cell::tanh}) {
        for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
          for (const bool round_state : {false, true}) {
            constexpr int kSteps = 5;
            // Weights of more precision than asked for: the reference rounds them. At 10 %, some rows are empty.
            const SparseMatrix weights =
                generate_mask(hidden, hidden, hidden < 3 ? 1 : 0.1, 4, Precision::fp32, MaskKind::power_law);
            const auto size = static_cast<std::size_t>(hidden * batch);
            const auto initial = random_floats(size, 1);
            const auto input = random_floats(size * kSteps, 2);
            const auto got = reference_states(weights, cell, precision, batch, kSteps, initial, input, round_state);
            const auto expected = dense_states(weights, cell, precision, batch, kSteps, initial, input, round_state);
            REQUIRE(got.size() == expected.size());
            double difference = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
              difference = std::max(difference, std::abs(got[i] - expected[i]));
            }
            CAPTURE(hidden, batch, round_state);
            CHECK(difference < 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("the reference rounds its state only when asked to", "[reference][fast]") {
  const SparseMatrix weights{1, 1, {0, 1}, {0}, {1}};
  const std::vector<float> initial{0};
  const std::vector<float> input{1 + 0x1p-12F, 0};
  CHECK(reference_states(weights, Cell::relu, Precision::fp16, 1, 2, initial, input) ==
        std::vector<double>{1 + 0x1p-12, 1 + 0x1p-12});
  CHECK(reference_states(weights, Cell::relu, Precision::fp16, 1, 2, initial, input, true) ==
        std::vector<double>{1, 1});
}

TEST_CASE("NaN passes through relu and along the weights", "[reference][fast]") {
  const SparseMatrix weights{3, 3, {0, 1, 1, 2}, {0, 0}, {1, -1}};
  const std::vector<float> initial{kNaNf, 1, 1};
  const std::vector<float> input{0, 2, 0};
  for (const bool round_state : {false, true}) {
    const auto states = reference_states(weights, Cell::relu, Precision::fp16, 1, 1, initial, input, round_state);
    CHECK(std::isnan(states[0]));
    CHECK(states[1] == 2);
    CHECK(std::isnan(states[2]));
  }
}

TEST_CASE("no steps give no states", "[reference][fast]") {
  const SparseMatrix weights{1, 1, {0, 1}, {0}, {1}};
  CHECK(reference_states(weights, Cell::relu, Precision::fp16, 1, 0, std::vector<float>{1}, {}).empty());
}

TEST_CASE("the reference refuses what it cannot compute", "[reference][fast]") {
  const SparseMatrix square{1, 1, {0, 1}, {0}, {1}};
  const SparseMatrix wide{1, 2, {0, 1}, {0}, {1}};
  const std::vector<float> one{1};
  const auto error = [&](const SparseMatrix& weights, Cell cell, int batch, int steps) {
    return error_of([&] { reference_states(weights, cell, Precision::fp16, batch, steps, one, one); });
  };
  CHECK(error(square, Cell::lstm, 1, 1) == "the reference has no cell 'lstm' yet");
  CHECK(error(square, Cell::gru, 1, 1) == "the reference has no cell 'gru' yet");
  CHECK(error(wide, Cell::relu, 1, 1) == "the recurrent matrix of a relu cell must be square; found 1 x 2");
  CHECK(error(square, Cell::relu, 2, 1) == "the initial state has 1 elements; expected 2");
  CHECK(error(square, Cell::relu, 1, 2) == "the input has 1 elements; expected 2");
  CHECK(error(square, Cell::relu, 0, 1) ==
        "the reference needs a batch of at least 1 and no negative number of steps; found 0 and 1");
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
