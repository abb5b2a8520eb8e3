// SPDX-License-Identifier: Apache-2.0
// The table of a chip's numbers, and what is possible: what reading a file and changing a number have in common.
#pragma once

#include "model/chip/chip.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

const ChipKey* find_key(std::string_view key);
std::vector<std::string_view> key_names();

// "512 KiB"
std::string format_quantity(double value, Dimension dimension);

// The steps in which the hardware can have this number; 0 if it is continuous.
double hardware_step(const Chip& chip, const ChipKey& row);

// What is wrong with a value, "" if nothing is.
std::string number_problem(const ChipKey& row, double value);

// What contradicts itself in a chip, and the key to blame.
struct Problem {
  std::string_view key;
  std::string message;
};
std::optional<Problem> inconsistency(const Chip& chip);

// A change as `--set` takes it, read once to be made on many chips.
struct ChipChange {
  const ChipKey* key = nullptr;  // null: a cost term
  Cost cost = {};
  bool is_factor = false;
  double value = 0;  // in base units, or the factor
};
ChipChange parse_chip_change(std::string_view assignment);

// Makes them one after another. A block's limit follows what its SM has, unless it is among the changes. Throws
// InputError for a chip that cannot be, which is then of no use.
void change_chip(Chip& chip, std::span<const ChipChange> changes);

}  // namespace onchip
