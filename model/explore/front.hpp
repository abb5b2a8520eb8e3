// SPDX-License-Identifier: Apache-2.0
// The Pareto front of points that come one after another: those that no other point dominates. A point dominates
// another if it is nowhere larger and somewhere smaller. Points with the same numbers are all kept.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace onchip {

inline constexpr std::size_t kMostObjectives = 8;
using Point = std::array<double, kMostObjectives>;  // smaller is better; 0 beyond the objectives

inline bool dominates(const Point& a, const Point& b) {
  bool is_smaller = false;
  for (std::size_t i = 0; i < kMostObjectives; ++i) {
    if (a[i] > b[i]) {
      return false;
    }
    is_smaller |= a[i] < b[i];
  }
  return is_smaller;
}

class Front {
 public:
  explicit Front(std::size_t objectives) : objectives_(objectives) {}

  // Of the points in lexical order only those before a point may dominate it, and only those behind it may be
  // dominated. Of two objectives the second falls along the front, so that the nearest alone tell.
  void add(const Point& point, std::uint64_t id) {
    if (dominates(last_, point)) {  // as is likely of neighbours
      return;
    }
    const bool nearest_tell = objectives_ <= 2;
    const auto behind = points_.lower_bound(point);
    if (behind != points_.end() && behind->first == point) {
      behind->second.push_back(id);
      return;
    }
    for (auto before = behind; before != points_.begin();) {
      --before;
      if (dominates(before->first, point)) {
        last_ = before->first;
        return;
      }
      if (nearest_tell) {
        break;
      }
    }
    for (auto other = behind; other != points_.end();) {
      if (dominates(point, other->first)) {
        other = points_.erase(other);
      } else if (nearest_tell) {
        break;
      } else {
        ++other;
      }
    }
    points_.emplace(point, std::vector<std::uint64_t>{id});
  }

  // In lexical order, with all that have these numbers in the order in which they came.
  const std::map<Point, std::vector<std::uint64_t>>& points() const { return points_; }
  // Each with its point.
  std::vector<std::pair<std::uint64_t, Point>> all() const {
    std::vector<std::pair<std::uint64_t, Point>> pairs;
    for (const auto& [point, ids] : points_) {
      for (const std::uint64_t id : ids) {
        pairs.emplace_back(id, point);
      }
    }
    return pairs;
  }

 private:
  std::size_t objectives_;
  Point last_ = [] {  // that dominated another; what it dominates is dominated for good
    Point none;
    none.fill(std::numeric_limits<double>::infinity());
    return none;
  }();
  std::map<Point, std::vector<std::uint64_t>> points_;
};

// Of points in lexical order, so few that each is within `share` (0.02: 2 %) of one that is kept, in every objective.
// The first and the last are among them. Returns their places.
inline std::vector<std::size_t> thinned(std::span<const Point> points, double share) {
  const auto is_near = [&](double a, double b) {
    return std::abs(a - b) <= share * std::min(std::abs(a), std::abs(b));
  };
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_shown = i + 1 == points.size();
    // Those kept before are farther and farther away in the first objective.
    auto k = kept.rbegin();
    while (!is_shown && k != kept.rend() && is_near(points[*k][0], points[i][0]) &&
           !std::ranges::equal(points[*k], points[i], is_near)) {
      ++k;
    }
    if (is_shown || k == kept.rend() || !is_near(points[*k][0], points[i][0])) {
      kept.push_back(i);
    }
  }
  return kept;
}

}  // namespace onchip
