// SPDX-License-Identifier: Apache-2.0
#include "experiments/validation/accuracy.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <random>

using namespace onchip;
using Catch::Matchers::WithinAbs;

namespace {

// Pair by pair, as tau-b is defined.
double kendall_tau_by_pairs(const std::vector<double>& a, const std::vector<double>& b) {
  double agree = 0, untied_a = 0, untied_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int order_a = (a[i] > a[j]) - (a[i] < a[j]);
      const int order_b = (b[i] > b[j]) - (b[i] < b[j]);
      agree += order_a * order_b;
      untied_a += order_a != 0;
      untied_b += order_b != 0;
    }
  }
  return untied_a > 0 && untied_b > 0 ? agree / std::sqrt(untied_a * untied_b) : 0;
}

}  // namespace

TEST_CASE("Kendall's tau equals its definition, ties included", "[fast]") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    const int count = 1 + below(40), values = 1 + below(50);  // few values: many ties
    std::vector<double> a, b;
    for (int i = 0; i < count; ++i) {
      a.push_back(below(values));
      b.push_back(below(3) > 0 ? a.back() : below(values));
    }
    CAPTURE(trial, count, values);
    CHECK_THAT(kendall_tau(a, b), WithinAbs(kendall_tau_by_pairs(a, b), 1e-12));
  }
  const std::vector<double> up{1, 2, 3, 4}, down{4, 3, 2, 1}, flat{1, 1, 1, 1};
  CHECK_THAT(kendall_tau(up, up), WithinAbs(1, 1e-12));
  CHECK_THAT(kendall_tau(up, down), WithinAbs(-1, 1e-12));
  CHECK(kendall_tau(up, flat) == 0);
}

TEST_CASE("errors are scored by their definitions", "[fast]") {
  const std::vector<Comparison> comparisons{
      {.measured = 1, .predicted = 1.1, .low = 0.9, .high = 1.2},  // + 10 %, inside
      {.measured = 2, .predicted = 1, .low = 0.8, .high = 1.9},    // - 50 %, outside
      {.measured = 4, .predicted = 4, .low = 4, .high = 4},        // exact, inside
      {.measured = 10, .predicted = 20, .low = 12, .high = 30},    // + 100 %, outside
  };
  const Accuracy accuracy = score(comparisons);
  CHECK(accuracy.points == 4);
  CHECK_THAT(accuracy.mape_percent, WithinAbs(40, 1e-9));
  CHECK_THAT(accuracy.median_ape_percent, WithinAbs(30, 1e-9));
  CHECK_THAT(accuracy.p90_percent, WithinAbs(85, 1e-9));
  CHECK_THAT(accuracy.max_percent, WithinAbs(100, 1e-9));
  CHECK_THAT(accuracy.bias, WithinAbs(std::pow(1.1, 0.25), 1e-12));
  CHECK_THAT(accuracy.coverage_percent, WithinAbs(50, 1e-9));
  CHECK_THAT(accuracy.kendall_tau, WithinAbs(4.0 / 6, 1e-12));
}

TEST_CASE("the chosen is the least predicted, and loses what it takes longer than the measured best", "[fast]") {
  const std::vector<Choice> choices{{"a", "x", 2, 3},   {"a", "y", 1, 2},  // right
                                    {"b", "x", 1.2, 1}, {"b", "y", 1, 2},  // 20 % lost
                                    {"c", "x", 9, 1},   {"c", "x", 1, 2},  // no choice between ways
                                    {"d", "z", 5, 5}};
  const ChoiceScore scores = score_choices(choices);
  CHECK(scores.choices == 2);
  CHECK(scores.best == 1);
  CHECK(scores.best_percent() == 50);
  CHECK_THAT(scores.worst_loss_percent, WithinAbs(20, 1e-9));
  CHECK(scores.worst == "b");
  CHECK(score_choices({}).choices == 0);
  CHECK(score_choices({}).best_percent() == 100);
}
