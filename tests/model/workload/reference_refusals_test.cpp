// SPDX-License-Identifier: Apache-2.0
// What the reference cannot compute or compare.
#include "model/workload/reference.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <limits>
#include <string>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNaNf = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinityf = std::numeric_limits<float>::infinity();

}  // namespace

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
