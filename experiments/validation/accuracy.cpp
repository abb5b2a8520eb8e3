// SPDX-License-Identifier: Apache-2.0
#include "experiments/validation/accuracy.hpp"

#include "model/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace onchip {
double mape_percent(std::span<const Comparison> comparisons) {
  double sum = 0;
  for (const Comparison& comparison : comparisons) {
    sum += std::abs(comparison.error_percent());
  }
  return sum / static_cast<double>(comparisons.size());
}

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  double agree = 0, untied_a = 0, untied_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int order_a = (a[i] > a[j]) - (a[i] < a[j]), order_b = (b[i] > b[j]) - (b[i] < b[j]);
      agree += order_a * order_b;
      untied_a += order_a != 0;
      untied_b += order_b != 0;
    }
  }
  return untied_a > 0 && untied_b > 0 ? agree / std::sqrt(untied_a * untied_b) : 0;
}

ChoiceScore score_choices(std::span<const Choice> choices) {
  struct Known {
    const Choice *chosen, *best;
    bool has_several = false;
  };
  std::map<std::string_view, Known> known;
  for (const Choice& choice : choices) {
    Known& one = known.try_emplace(choice.of, Known{&choice, &choice}).first->second;
    one.has_several = one.has_several || choice.way != one.chosen->way;
    if (choice.predicted < one.chosen->predicted) {
      one.chosen = &choice;
    }
    if (choice.measured < one.best->measured) {
      one.best = &choice;
    }
  }
  ChoiceScore scores;
  for (const auto& [of, one] : known) {
    if (!one.has_several) {
      continue;
    }
    ++scores.choices;
    scores.best += one.chosen->measured <= one.best->measured;
    const double loss_percent = 100 * (one.chosen->measured / one.best->measured - 1);
    scores.losses_percent[std::string(of)] = loss_percent;
    if (loss_percent > scores.worst_loss_percent) {
      scores.worst_loss_percent = loss_percent;
      scores.worst = of;
    }
  }
  return scores;
}

Accuracy score(std::span<const Comparison> comparisons) {
  Accuracy accuracy;
  accuracy.points = static_cast<int>(comparisons.size());
  std::vector<double> errors, measured, predicted;
  double logarithms = 0;
  int inside = 0;
  for (const Comparison& comparison : comparisons) {
    errors.push_back(std::abs(comparison.error_percent()));
    measured.push_back(comparison.measured);
    predicted.push_back(comparison.predicted);
    logarithms += std::log(comparison.predicted / comparison.measured);
    inside += comparison.inside() ? 1 : 0;
  }
  const double points = accuracy.points;
  accuracy.mape_percent = mape_percent(comparisons);
  accuracy.median_ape_percent = quantile(errors, 0.5);
  accuracy.p90_percent = quantile(errors, 0.9);
  accuracy.max_percent = *std::max_element(errors.begin(), errors.end());
  accuracy.bias = std::exp(logarithms / points);
  accuracy.kendall_tau = kendall_tau(measured, predicted);
  accuracy.coverage_percent = 100 * inside / points;
  return accuracy;
}

}  // namespace onchip
