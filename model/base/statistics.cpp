// SPDX-License-Identifier: Apache-2.0
#include "model/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace onchip {
namespace {

double sorted_quantile(std::span<const double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return sorted_quantile(values, q);
}

std::optional<int> median_interval_place(int samples) {
  constexpr double kEachSide = 0.025;
  double log_share = -samples * std::log(2.0);  // of the sequences with `heads` heads
  double sum = 0;
  int heads = 0;
  while (heads < samples && (sum += std::exp(log_share)) <= kEachSide) {
    log_share += std::log(static_cast<double>(samples - heads) / (heads + 1));
    ++heads;
  }
  return heads > 0 ? std::optional(heads - 1) : std::nullopt;
}

Timing summarize(std::vector<double> samples) {
  Timing timing;
  timing.samples = static_cast<int>(samples.size());
  if (samples.empty()) {
    return timing;
  }
  std::ranges::sort(samples);
  timing.median = sorted_quantile(samples, 0.5);
  timing.low = sorted_quantile(samples, 0.025);
  timing.high = sorted_quantile(samples, 0.975);
  if (const auto place = median_interval_place(timing.samples)) {
    const double low = samples[static_cast<std::size_t>(*place)];
    const double high = samples[samples.size() - 1 - static_cast<std::size_t>(*place)];
    timing.within = std::max(high - timing.median, timing.median - low) / std::abs(timing.median);
  }
  return timing;
}

}  // namespace onchip
