// SPDX-License-Identifier: Apache-2.0
// How good predictions are against measurements; nothing is ever dropped. With e = predicted / measured - 1:
//
//   mape, median_ape, p90, max   mean, median, 90 % quantile and maximum of |e|
//   bias                         geometric mean of predicted / measured; above 1: predicted too slow
//   kendall_tau                  rank correlation, tau-b (Kendall, Biometrika 33, 1945: corrected for ties)
//   coverage                     share of measurements within the predicted interval
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace onchip {

struct Comparison {
  double measured = 0;  // above 0
  double predicted = 0;
  double low = 0, high = 0;  // predicted interval

  double error_percent() const { return 100 * (predicted / measured - 1); }
  bool inside() const { return low <= measured && measured <= high; }
};

// A measured row beside what is predicted of it, of any workload.
struct ScoredRow {
  std::string chip, network, way;  // way: the plan, or the library
  Comparison comparison;
  std::vector<double> without = {};  // predicted, for each ablation (experiments/reports/validation_report.hpp)
  bool is_library = false;
};

struct Accuracy {
  int points = 0;
  double mape_percent = 0, median_ape_percent = 0, p90_percent = 0, max_percent = 0;
  double bias = 1;
  double kendall_tau = 0;
  double coverage_percent = 0;
};

// Expects at least one comparison.
Accuracy score(std::span<const Comparison> comparisons);

double mape_percent(std::span<const Comparison> comparisons);

// tau-b, pair by pair as it is defined; 0 if either side is constant.
double kendall_tau(std::span<const double> a, std::span<const double> b);

// One of several ways to do the same thing, of which a planner chooses the one with the least predicted time.
struct Choice {
  std::string of;   // what is done: equal for the ways to do it
  std::string way;  // only what can be done in ways of different names is a choice
  double measured = 0, predicted = 0;
};
struct ChoiceScore {
  int choices = 0;                // things that can be done in several ways
  int best = 0;                   // of which the chosen one is the measured best
  double worst_loss_percent = 0;  // how much longer a chosen one takes than the measured best, at most
  std::string worst;              // of what; "" if there is none
  std::map<std::string, double> losses_percent = {};  // of each
  double best_percent() const { return choices > 0 ? 100.0 * best / choices : 100; }
};
ChoiceScore score_choices(std::span<const Choice> choices);

}  // namespace onchip
