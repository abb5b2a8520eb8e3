// SPDX-License-Identifier: Apache-2.0
// Of many picks of the planner the shapes that nobody has measured, to be measured one by one: the most frequent first.
#pragma once

#include "experiments/registers/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace onchip::registers {

class FrequentShapes {
 public:
  // But shapes of these files (LIMITS.csv, SHAPES.csv), measured on any architecture.
  explicit FrequentShapes(const std::vector<std::string>& known);

  void add(const Shape& pick);
  void print() const;  // as SHAPES.csv
  std::size_t size() const { return picked_.size(); }

 private:
  struct Picked {
    Shape shape;  // of those alike the one that compiles soonest
    int times = 0;
  };
  std::set<std::uint64_t> known_;
  std::map<std::uint64_t, Picked> picked_;
};

}  // namespace onchip::registers
