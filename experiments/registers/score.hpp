// SPDX-License-Identifier: Apache-2.0
// How far some model's words are below the compiler's.
#pragma once

#include "experiments/registers/limits.hpp"

#include <cstdio>
#include <vector>

namespace onchip::registers {

inline constexpr const char* kScoreHeader = "architecture,shapes,count,within_8,too_few,mean_excess";

// One row of a table, and what stands out of it on the standard error; working(m): by some model.
template <typename Chosen, typename Working>
void print_score(std::size_t architecture, const char* which, const std::vector<Measured>& points, Chosen&& chosen,
                 Working&& working_of) {
  int count = 0, close = 0, few = 0, excess = 0;
  for (const Measured& m : points) {
    if (m.architecture != architecture || !chosen(m)) {
      continue;
    }
    const int working = working_of(m);
    ++count;
    close += working <= m.least + kClose;
    few += working < m.least;
    excess += working - m.least;
    if (working > m.least + kClose || working < m.most) {
      std::fprintf(stderr, "%s %d: %d to %d: %s\n", kArchitectures[architecture], working, m.least, m.most,
                   text_of(m.shape).c_str());
    }
  }
  std::printf("%s,%s,%d,%d,%d,%.1f\n", kArchitectures[architecture], which, count, close, few,
              count ? static_cast<double>(excess) / count : 0.0);
}

}  // namespace onchip::registers
