// SPDX-License-Identifier: Apache-2.0
#include "experiments/registers/frequent.hpp"

#include "model/registers.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace onchip::registers {

FrequentShapes::FrequentShapes(const std::vector<std::string>& known) {
  for (const std::string& path : known) {
    const CsvReader file(path);
    for (std::size_t row = 0; row < file.size(); ++row) {
      const Shape shape = read_shape(file, row);
      if (const auto keys = register_keys(kMajors[0], shape.network, shape.plan)) {
        known_.insert(keys->shape);
      }
    }
  }
}

void FrequentShapes::add(const Shape& pick) {
  const auto keys = register_keys(kMajors[0], pick.network, pick.plan);
  if (!keys || known_.contains(keys->shape)) {
    return;
  }
  constexpr int kEasy = 96;  // registers: fewer take few weights, more take long to compile
  Picked& picked = picked_[keys->shape];
  if (picked.times++ == 0 || std::abs(room(pick) - kEasy) < std::abs(room(picked.shape) - kEasy)) {
    picked.shape = pick;
  }
}

void FrequentShapes::print() const {
  std::vector<Picked> order;
  for (const auto& [key, picked] : picked_) {
    order.push_back(picked);
  }
  std::ranges::stable_sort(order, std::greater{}, &Picked::times);
  std::puts(kShapeHeader);
  for (const Picked& picked : order) {
    std::puts(text_of(picked.shape).c_str());
  }
}

}  // namespace onchip::registers
