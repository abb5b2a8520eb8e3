// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/read_steps.hpp"

#include "model/banks/phase_colouring.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

namespace onchip {
namespace {

constexpr int kMostClasses = 32;

// What a row has left, by the class of its place.
struct Left {
  std::array<std::vector<std::int32_t>, kMostClasses> of_class;  // last first
  std::int32_t count = 0;
};

// A step in which rows read one after another, each of which may send those before to their other places.
class Step {
 public:
  Step(int classes, const PlaceCopies& copies) : classes_(classes), copies_(copies) { row_.fill(kNoRead); }

  bool add(int row, std::int32_t place) {
    next_[row] = place;
    for (int c = 0; c < classes_; ++c) {
      if (row_[c] != kNoRead && next_[row_[c]] == place) {
        shares_[row] = true;
        at_[row] = row_[c];
        return true;
      }
    }
    std::uint32_t tried = 0;
    return put(row, tried);
  }
  std::int32_t place(int row) const {
    const int reader = shares_[row] ? at_[row] : row;
    const std::int32_t place = next_[row];
    return place % classes_ == at_[reader] ? place : copies_.second(place, classes_);
  }

 private:
  bool put(int row, std::uint32_t& tried) {
    const std::int32_t place = next_[row];
    for (int copy = 0; copy < (copies_.has(place, classes_) ? 2 : 1); ++copy) {
      const int c = (place + copy) % classes_;
      if ((tried >> c & 1) != 0) {
        continue;
      }
      tried |= 1U << c;
      if (row_[c] == kNoRead || put(row_[c], tried)) {
        row_[c] = row;
        at_[row] = c;
        return true;
      }
    }
    return false;
  }

  int classes_;
  const PlaceCopies& copies_;
  std::array<std::int32_t, kMostClasses> row_;        // of a class
  std::array<std::int32_t, kMostClasses> next_, at_;  // of a row: its place, its class or the row that reads for it
  std::array<bool, kMostClasses> shares_{};
};

// As read_steps(), in so many steps, in each of which the rows read places of different classes. No row or class has
// more inputs than there are steps.
std::vector<std::int32_t> coloured_steps(std::span<const std::span<const std::int32_t>> places, int classes,
                                         int steps) {
  const int rows = static_cast<int>(places.size());
  PhaseColouring colouring(classes, rows, steps);
  std::vector<std::vector<std::int32_t>> left(places.size() * classes);  // [rows, classes]: inputs
  for (int r = 0; r < rows; ++r) {
    for (std::int32_t i = 0; i < std::ssize(places[r]); ++i) {
      const std::int32_t of_class = places[r][i] % classes;
      colouring.add(of_class, r);
      left[r * classes + of_class].push_back(i);
    }
  }
  std::vector<std::int32_t> made;
  for (int step = 0; step < steps; ++step) {
    for (int r = 0; r < rows; ++r) {
      const int of_class = colouring.set_at(r, step);
      made.push_back(kNoRead);
      if (of_class != PhaseColouring::kNone) {
        made.back() = left[r * classes + of_class].back();
        left[r * classes + of_class].pop_back();
      }
    }
  }
  return made;
}

}  // namespace

std::vector<std::int32_t> read_steps(std::span<const std::span<const std::int32_t>> places, int classes) {
  const int rows = static_cast<int>(places.size());
  assert(classes <= kMostClasses && rows <= classes);
  std::vector<Left> left(rows);
  for (int r = 0; r < rows; ++r) {
    left[r].count = static_cast<std::int32_t>(places[r].size());
    for (std::int32_t i = left[r].count - 1; i >= 0; --i) {
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
      if (read != kNoRead) {
        steps[step + r] = read;
        taken[places[r][read] % classes] = places[r][read];
        --of_row.count;
      }
    }
  }
}

OrderedReads ordered_reads(std::span<const std::span<const std::int32_t>> places, int classes,
                           const PlaceCopies& copies) {
  const int rows = static_cast<int>(places.size());
  assert(classes <= kMostClasses && rows <= classes);
  std::array<std::int32_t, kMostClasses> read{}, by_left{};
  const auto left = [&](int r) { return static_cast<std::int32_t>(places[r].size()) - read[r]; };
  const auto order = std::span(by_left).first(rows);
  std::iota(order.begin(), order.end(), 0);
  OrderedReads reads;
  while (true) {
    std::ranges::stable_sort(order, std::ranges::greater{}, left);
    if (rows == 0 || left(order[0]) == 0) {
      return reads;
    }
    Step step(classes, copies);
    const std::size_t at = reads.input.size();
    reads.input.resize(at + rows, kNoRead);
    reads.place.resize(at + rows, kNoRead);
    for (const int r : order) {
      if (left(r) > 0 && step.add(r, places[r][read[r]])) {
        reads.input[at + r] = read[r];
      }
    }
    for (int r = 0; r < rows; ++r) {
      if (reads.input[at + r] != kNoRead) {
        reads.place[at + r] = step.place(r);
        ++read[r];
      }
    }
  }
}

OrderedReads bank_aware_reads(std::span<const std::span<const std::int32_t>> places, int classes) {
  int longest = 0, busiest = 0;
  std::vector<int> of_class(classes);
  for (const std::span<const std::int32_t> row : places) {
    longest = std::max(longest, static_cast<int>(row.size()));
    for (const std::int32_t place : row) {
      busiest = std::max(busiest, ++of_class[place % classes]);
    }
  }
  OrderedReads reads;
  if (busiest > longest) {
    reads.input = read_steps(places, classes);
  }
  if (busiest <= longest || reads.input.size() >= busiest * places.size()) {
    reads.input = coloured_steps(places, classes, std::max(longest, busiest));
  }
  for (std::size_t at = 0; at < reads.input.size(); ++at) {
    reads.place.push_back(reads.input[at] == kNoRead ? kNoRead : places[at % places.size()][reads.input[at]]);
  }
  return reads;
}

}  // namespace onchip
