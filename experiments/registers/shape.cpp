// SPDX-License-Identifier: Apache-2.0
#include "experiments/registers/shape.hpp"

#include "model/error.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <vector>

namespace onchip::registers {

const Chip& chip_of(std::size_t architecture) {
  static const std::vector<Chip> chips = [] {
    std::vector<Chip> all{find_chip("a100").chip, find_chip("h200").chip, find_chip("b200").chip};
    all.push_back(all.back());
    all.back().architecture = kArchitectures.back();
    all.back().compute_capability_major.value = kMajors.back();
    return all;
  }();
  return chips[architecture];
}

std::size_t architecture_of(const std::string& name) {
  const auto found = std::ranges::find(kArchitectures, name);
  if (found == kArchitectures.end()) {
    throw InputError("unknown architecture '" + name + "'");
  }
  return static_cast<std::size_t>(found - kArchitectures.begin());
}

std::string text_of(const Shape& shape) {
  Plan plan = shape.plan;
  plan.slots.fill(0);
  std::fill_n(plan.slots.begin(), plan.rows_per_group, 1);
  return std::string(info(shape.network.cell).name) + "," + std::to_string(shape.network.hidden) + "," +
         std::to_string(shape.network.batch) + "," + std::string(info(shape.network.precision).name) + "," +
         to_string(plan);
}

Shape read_shape(const CsvReader& file, std::size_t row) {
  Shape shape;
  shape.network.cell = parse_cell(file.text(row, "cell"));
  shape.network.precision = parse_precision(file.text(row, "precision"));
  shape.network.hidden = static_cast<int>(file.number(row, "hidden"));
  shape.network.batch = static_cast<int>(file.number(row, "batch"));
  shape.plan = parse_plan(file.text(row, "plan"));
  std::fill_n(shape.plan.slots.begin(), shape.plan.rows_per_group, bundle(shape.network, shape.plan).slots);
  return shape;
}

int room(const Shape& shape, std::size_t architecture) {
  return registers_available(chip_of(architecture), shape.plan);
}

Plan with_words(const Shape& shape, int words) {
  const int whole = bundle(shape.network, shape.plan).slots;
  const int rows = shape.plan.rows_per_group;
  Plan plan = shape.plan;
  for (int bundles = rows, step = plan.storage == Storage::dense ? rows : 1;; bundles += step) {
    Plan more = shape.plan;
    more.slots.fill(0);
    for (int row = 0; row < rows; ++row) {
      more.slots[row] = (bundles / rows + (row < bundles % rows)) * whole;
    }
    if (bundles > rows && register_words(shape.network, more) > words) {
      return plan;
    }
    plan = more;
  }
}

}  // namespace onchip::registers
