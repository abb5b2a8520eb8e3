// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/read_steps.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

namespace onchip {
namespace {

constexpr int kMostClasses = 32;

// What a row has left, by the class of its place; in ascending order only the first counts.
struct Left {
  std::array<std::vector<std::int32_t>, kMostClasses> of_class;  // last first
  std::int32_t next = 0, count = 0;
};

}  // namespace

std::vector<std::int32_t> read_steps(std::span<const std::span<const std::int32_t>> places, int classes,
                                     ReadOrder order) {
  const int rows = static_cast<int>(places.size());
  assert(classes <= kMostClasses && rows <= classes);
  const bool ascends = order == ReadOrder::ascending;
  std::vector<Left> left(rows);
  for (int r = 0; r < rows; ++r) {
    left[r].count = static_cast<std::int32_t>(places[r].size());
    for (std::int32_t i = left[r].count - 1; !ascends && i >= 0; --i) {
      left[r].of_class[places[r][i] % classes].push_back(i);
    }
  }
  std::vector<std::int32_t> steps;
  std::vector<int> by_left(rows);
  std::iota(by_left.begin(), by_left.end(), 0);
  while (true) {
    std::ranges::stable_sort(by_left, std::ranges::greater{}, [&](int r) { return left[r].count; });
    if (rows == 0 || left[by_left[0]].count == 0) {
      return steps;
    }
    std::array<std::int32_t, kMostClasses> taken;  // the place that is read in a class
    taken.fill(kNoRead);
    const std::size_t step = steps.size();
    steps.resize(step + rows, kNoRead);
    for (const int r : by_left) {
      Left& of_row = left[r];
      if (of_row.count == 0) {
        break;
      }
      std::int32_t read = kNoRead;
      if (ascends) {
        const std::int32_t place = places[r][of_row.next];
        if (const std::int32_t other = taken[place % classes]; other == kNoRead || other == place) {
          read = of_row.next++;
        }
      } else {
        // The class of which the row has most.
        std::size_t most = 0;
        int best = -1;
        for (int c = 0; c < classes; ++c) {
          const std::vector<std::int32_t>& of_class = of_row.of_class[c];
          if (of_class.size() > most && (taken[c] == kNoRead || taken[c] == places[r][of_class.back()])) {
            most = of_class.size();
            best = c;
          }
        }
        if (best >= 0) {
          read = of_row.of_class[best].back();
          of_row.of_class[best].pop_back();
        }
      }
      if (read != kNoRead) {
        steps[step + r] = read;
        taken[places[r][read] % classes] = places[r][read];
        --of_row.count;
      }
    }
  }
}

}  // namespace onchip
