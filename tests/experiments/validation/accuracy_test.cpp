// SPDX-License-Identifier: Apache-2.0
#include "experiments/validation/accuracy.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinAbs;

TEST_CASE("Kendall's tau equals its definition, ties included", "[fast]") {
  const std::vector<double> up{1, 2, 3, 4}, down{4, 3, 2, 1}, flat{1, 1, 1, 1};
  CHECK_THAT(kendall_tau(up, up), WithinAbs(1, 1e-12));
  CHECK_THAT(kendall_tau(up, down), WithinAbs(-1, 1e-12));
  CHECK(kendall_tau(up, flat) == 0);
  // Of six pairs one is tied in the first list; of the others four agree and one is tied, or three agree.
  const std::vector<double> tied{1, 1, 2, 3};
  CHECK_THAT(kendall_tau(tied, std::vector<double>{1, 2, 2, 3}), WithinAbs(4.0 / 5, 1e-12));
  CHECK_THAT(kendall_tau(tied, std::vector<double>{1, 3, 4, 2}), WithinAbs(1 / std::sqrt(30.0), 1e-12));
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
