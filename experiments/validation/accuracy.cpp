// SPDX-License-Identifier: Apache-2.0
#include "experiments/validation/accuracy.hpp"

#include "model/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string_view>

namespace onchip {
namespace {

// Sorts and returns how many pairs were in falling order.
std::int64_t sort_counting_inversions(std::vector<double>& values) {
  std::int64_t inversions = 0;
  std::vector<double> merged(values.size());
  for (std::size_t width = 1; width < values.size(); width *= 2) {
    for (std::size_t begin = 0; begin < values.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, values.size());
      const std::size_t end = std::min(begin + 2 * width, values.size());
      std::size_t left = begin, right = middle, place = begin;
      while (left < middle || right < end) {
        if (right == end || (left < middle && values[left] <= values[right])) {
          merged[place++] = values[left++];
        } else {
          inversions += static_cast<std::int64_t>(middle - left);
          merged[place++] = values[right++];
        }
      }
    }
    values.swap(merged);
  }
  return inversions;
}

// Pairs of equal elements of a sorted range.
template <typename T>
std::int64_t tied_pairs(const std::vector<T>& sorted) {
  std::int64_t pairs = 0, run = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    run = sorted[i] == sorted[i - 1] ? run + 1 : 0;
    pairs += run;
  }
  return pairs;
}

}  // namespace

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, double>> points(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    points[i] = {a[i], b[i]};
  }
  std::sort(points.begin(), points.end());
  std::vector<double> first, second;
  for (const auto& [x, y] : points) {
    first.push_back(x);
    second.push_back(y);
  }
  const auto count = static_cast<std::int64_t>(points.size());
  const std::int64_t pairs = count * (count - 1) / 2;
  const std::int64_t tied_both = tied_pairs(points);
  const std::int64_t tied_first = tied_pairs(first);
  const std::int64_t discordant = sort_counting_inversions(second);
  const std::int64_t tied_second = tied_pairs(second);
  const std::int64_t concordant = pairs - tied_first - tied_second + tied_both - discordant;
  const double scale =
      std::sqrt(static_cast<double>(pairs - tied_first)) * std::sqrt(static_cast<double>(pairs - tied_second));
  return scale > 0 ? static_cast<double>(concordant - discordant) / scale : 0;
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
  accuracy.mape_percent = std::accumulate(errors.begin(), errors.end(), 0.0) / points;
  accuracy.median_ape_percent = quantile(errors, 0.5);
  accuracy.p90_percent = quantile(errors, 0.9);
  accuracy.max_percent = *std::max_element(errors.begin(), errors.end());
  accuracy.bias = std::exp(logarithms / points);
  accuracy.kendall_tau = kendall_tau(measured, predicted);
  accuracy.coverage_percent = 100 * inside / points;
  return accuracy;
}

}  // namespace onchip
