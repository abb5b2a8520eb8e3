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
  const std::vector<double> last(result.y.end() - static_cast<std::ptrdiff_t>(in.dhn.size()), result.y.end());
  return dot(result.y, in.dy) + dot(last, in.dhn) + dot(result.cn, in.dcn);
}

}  // namespace

TEST_CASE("every gradient of the LSTM reference is that of finite differences", "[fast]") {
  const TrainingSize size{.input = 3, .hidden = 4, .batch = 2, .steps = 5};
  Random random(5, 1);
  TrainingInput in{.x = random_values(random, 30),
                   .w_ih = random_values(random, 48),
                   .w_hh = random_values(random, 64),
                   .b_ih = random_values(random, 16),
                   .b_hh = random_values(random, 16),
                   .h0 = random_values(random, 8),
                   .c0 = random_values(random, 8),
                   .dy = random_values(random, 40),
                   .dhn = random_values(random, 8),
                   .dcn = random_values(random, 8)};
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
  check("b_hh", in.b_hh, result.db);
  check("h0", in.h0, result.dh0);
  check("c0", in.c0, result.dc0);
}

TEST_CASE("the LSTM reference refuses arrays of other sizes, and takes empty ones for zeros", "[fast]") {
  const TrainingSize size{.input = 1, .hidden = 1, .batch = 1, .steps = 1};
  TrainingInput in{.x = {1},
                   .w_ih = {0, 0, 1, 0},
                   .w_hh = {0, 0, 0, 0},
                   .b_ih = {},
                   .b_hh = {},
                   .h0 = {},
                   .c0 = {},
                   .dy = {},
                   .dhn = {},
                   .dcn = {}};
  CHECK(training_reference(size, in).cn.at(0) == Approx(0.5 * std::tanh(1.0)));
  in.c0 = {1, 2};
  CHECK_THROWS_WITH(training_reference(size, in), "'c0' has 2 elements; expected 1");
}

}  // namespace onchip
