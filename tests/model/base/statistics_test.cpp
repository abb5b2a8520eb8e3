// SPDX-License-Identifier: Apache-2.0
#include "model/base/statistics.hpp"

#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

using namespace onchip;

TEST_CASE("median and quantiles are interpolated") {
  std::vector<double> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0);
  const Timing timing = summarize(samples);
  CHECK(timing.samples == 101);
  CHECK(timing.median == 50.0);
  CHECK_THAT(timing.low, Catch::Matchers::WithinAbs(2.5, 1e-12));
  CHECK_THAT(timing.high, Catch::Matchers::WithinAbs(97.5, 1e-12));
  CHECK(quantile({4, 1, 2}, 0.25) == 1.5);
  CHECK(summarize({3.0, 1.0}).median == 2.0);
  CHECK(summarize({7.0}).low == 7.0);
  CHECK(summarize({7.0}).high == 7.0);
  CHECK(summarize({}).samples == 0);
  CHECK(std::isinf(summarize({7, 7, 7, 7, 7}).within));
  CHECK(summarize({7, 7, 7, 7, 7, 7}).within == 0);
}

TEST_CASE("the median's interval is the narrowest pair of order statistics that covers 95 %") {
  for (int samples = 1; samples <= 60; ++samples) {
    CAPTURE(samples);
    // By Pascal's triangle: how many sequences of tosses have so many heads.
    std::vector<std::uint64_t> row{1};
    for (int n = 0; n < samples; ++n) {
      row.push_back(1);
      for (std::size_t i = row.size() - 2; i > 0; --i) {
        row[i] += row[i - 1];
      }
    }
    const double all = std::ldexp(1.0, samples);
    int place = -1;
    double at_most = 0;
    for (int heads = 0; 2 * heads < samples; ++heads) {
      at_most += static_cast<double>(row[static_cast<std::size_t>(heads)]) / all;
      place = at_most <= 0.025 ? heads : place;
    }
    CHECK(median_interval_place(samples).value_or(-1) == place);
  }
  CHECK_FALSE(median_interval_place(5));
  CHECK(median_interval_place(6) == 0);
  // Of many samples, by the normal distribution.
  CHECK(std::abs(*median_interval_place(100000) - (50000 - 1.95996 * std::sqrt(100000) / 2)) < 2);
}
