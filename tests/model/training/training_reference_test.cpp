// SPDX-License-Identifier: Apache-2.0
#include "model/training/training_reference.hpp"

#include "model/base/error.hpp"
#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace onchip {
namespace {

std::vector<double> random_values(Random& random, std::size_t count) {
  std::vector<double> values(count);
  std::ranges::generate(values, [&] { return 2 * random.unit() - 1; });
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Of which training_reference has the gradients.
double loss(const TrainingSize& size, const TrainingInput& in) {
  const TrainingResult result = training_reference(size, in);
  return dot(result.y, in.dy) + dot(result.hn, in.dhn) + dot(result.cn, in.dcn);
}

}  // namespace

TEST_CASE("every gradient of the references is that of finite differences", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const bool has_lengths = GENERATE(false, true), is_reverse = GENERATE(false, true);
  const TrainingSize size{.input = 3, .hidden = 4, .batch = 2, .steps = 5, .cell = cell, .is_reverse = is_reverse};
  Random random(5, 1);
  const std::size_t rows = 4 * info(cell).gates, cells = cell == Cell::lstm ? 8 : 0;
  TrainingInput in{.x = random_values(random, 30),
                   .w_ih = random_values(random, 3 * rows),
                   .w_hh = random_values(random, 4 * rows),
                   .b_ih = random_values(random, rows),
                   .b_hh = random_values(random, rows),
                   .h0 = random_values(random, 8),
                   .c0 = random_values(random, cells),
                   .dy = random_values(random, 40),
                   .dhn = random_values(random, 8),
                   .dcn = random_values(random, cells),
                   .lengths = {}};
  if (has_lengths) {
    in.lengths = {5, 2};
  }
  const TrainingResult result = training_reference(size, in);
  const auto check = [&](const char* name, std::vector<double>& values, const std::vector<double>& gradient) {
    INFO(name);
    REQUIRE(values.size() == gradient.size());
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double value = values[i];
      values[i] = value + kStep;
      const double above = loss(size, in);
      values[i] = value - kStep;
      const double below = loss(size, in);
      values[i] = value;
      worst = std::max(worst, std::abs((above - below) / (2 * kStep) - gradient[i]));
    }
    CHECK(worst < 1e-8);
  };
  check("x", in.x, result.dx);
  check("w_ih", in.w_ih, result.dw_ih);
  check("w_hh", in.w_hh, result.dw_hh);
  check("b_ih", in.b_ih, result.db);
  check("b_hh", in.b_hh, result.db_hh);
  check("h0", in.h0, result.dh0);
  check("c0", in.c0, result.dc0);
}

TEST_CASE("the reference's GRU is torch's: the reset gate multiplies the product with its bias", "[fast]") {
  const TrainingSize size{.input = 1, .hidden = 1, .batch = 1, .steps = 1, .cell = Cell::gru};
  TrainingInput in;
  in.x = {1};
  in.w_ih = {0.2, -0.3, 0.4};
  in.w_hh = {0.1, 0.5, -0.6};
  in.b_ih = {0.3, 0.1, -0.2};
  in.b_hh = {-0.4, 0.2, 0.7};
  in.h0 = {0.5};
  const double r = 1 / (1 + std::exp(-(0.2 + 0.3 + 0.05 - 0.4))), z = 1 / (1 + std::exp(-(-0.3 + 0.1 + 0.25 + 0.2)));
  const double n = std::tanh(0.4 - 0.2 + r * (-0.3 + 0.7));
  CHECK(training_reference(size, in).y.at(0) == Approx((1 - z) * n + z * 0.5));
}

TEST_CASE("the reference refuses arrays of other sizes, and takes empty ones for zeros", "[fast]") {
  const TrainingSize size{.input = 1, .hidden = 1, .batch = 1, .steps = 1};
  TrainingInput in;
  in.x = {1};
  in.w_ih = {0, 0, 1, 0};
  in.w_hh = {0, 0, 0, 0};
  CHECK(training_reference(size, in).cn.at(0) == Approx(0.5 * std::tanh(1.0)));
  in.c0 = {1, 2};
  CHECK_THROWS_WITH(training_reference(size, in), "'c0' has 2 elements; expected 1");
}

}  // namespace onchip
