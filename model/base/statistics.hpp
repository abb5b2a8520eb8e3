// SPDX-License-Identifier: Apache-2.0
// What samples say: their quantiles, and how well they tell the median of what they were drawn from.
#pragma once

#include <limits>
#include <optional>
#include <vector>

namespace onchip {

// The q-quantile, linear between order statistics. Expects at least one value.
double quantile(std::vector<double> values, double q);

// Of so many samples, sorted, the median of their distribution lies between the one at this place and the one at the
// same place from the end, in at least 95 of 100 drawings and whatever the distribution: no more than 2.5 % of all
// sequences of so many coin tosses have so few heads. Nothing of fewer than six samples. (W. R. Thompson, "On
// confidence ranges for the median", 1936.)
std::optional<int> median_interval_place(int samples);

// Median and spread of repeated measurements.
struct Timing {
  double median = 0, low = 0, high = 0;  // low, high: 2.5 and 97.5 % quantiles of the samples
  // The farther end of the median's 95 % interval, as a share of the median: 0.01 is within 1 %.
  double within = std::numeric_limits<double>::infinity();
  int samples = 0;
};
Timing summarize(std::vector<double> samples);

}  // namespace onchip
