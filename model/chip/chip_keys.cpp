// SPDX-License-Identifier: Apache-2.0
#include "model/chip/chip_keys.hpp"

#include "model/base/error.hpp"
#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace onchip {
namespace {

constexpr double kKibi = 1024, kMebi = kKibi * 1024, kGibi = kMebi * 1024;

constexpr std::array kChipKeys{
#define CHIP_NUMBER(member, key, dimension, ...) ChipKey{key, Dimension::dimension, &Chip::member, __VA_ARGS__},
#include "model/chip/chip_numbers.inc"
};

}  // namespace

std::span<const ChipKey> chip_keys() {
  return kChipKeys;
}

// "227 KiB" where that is exact, else base units.
std::string format_quantity(double value, Dimension dimension) {
  if (dimension == Dimension::count) {
    return format_number(value);
  }
  if (dimension == Dimension::bytes && value >= kKibi && std::fmod(value, kKibi) == 0) {
    return format_number(value / kKibi) + " KiB";
  }
  return format_number(value) + " " + std::string(base_unit(dimension));
}

const ChipKey* find_key(std::string_view key) {
  const auto found =
      std::find_if(kChipKeys.begin(), kChipKeys.end(), [&](const ChipKey& row) { return row.key == key; });
  return found == kChipKeys.end() ? nullptr : found;
}

namespace {

std::string_view key_of(Number Chip::*member) {
  return std::ranges::find(kChipKeys, member, &ChipKey::member)->key;
}

}  // namespace

std::vector<std::string_view> key_names() {
  std::vector<std::string_view> names;
  for (const ChipKey& row : kChipKeys) {
    names.push_back(row.key);
  }
  return names;
}

double hardware_step(const Chip& chip, const ChipKey& row) {
  if (row.member == &Chip::max_threads_per_sm || row.member == &Chip::max_threads_per_block) {
    return kWarpThreads;
  }
  if (row.member == &Chip::registers_per_sm || row.member == &Chip::registers_per_block) {
    return chip.register_allocation_unit * chip.partitions;
  }
  if (row.member == &Chip::smem_bytes_per_sm || row.member == &Chip::smem_bytes_per_block ||
      row.member == &Chip::smem_reserved_bytes_per_block) {
    return chip.smem_allocation_unit_bytes;
  }
  return row.integral ? 1 : 0;
}

// What is wrong with a number in base units: "is 0: expected 1 to 4096", or "".
std::string number_problem(const ChipKey& row, double value) {
  if (!std::isfinite(value)) {
    return "is not a finite number";
  }
  if (value < row.minimum || value > row.maximum) {
    return "is " + format_quantity(value, row.dimension) + ": expected " + format_quantity(row.minimum, row.dimension) +
           " to " + format_quantity(row.maximum, row.dimension);
  }
  if (row.integral && std::trunc(value) != value) {
    return "is " + format_quantity(value, row.dimension) + ": expected a whole number" +
           (row.dimension == Dimension::bytes ? " of bytes" : "");
  }
  return "";
}

// What no chip can have although each number alone is possible.
std::optional<Problem> inconsistency(const Chip& chip) {
  const auto text = [](std::string_view key, double value) {
    return "'" + std::string(key) + "' (" + format_quantity(value, find_key(key)->dimension) + ")";
  };
  for (const auto member : {&Chip::max_threads_per_sm, &Chip::max_threads_per_block}) {
    const double threads = chip.*member;
    if (std::fmod(threads, kWarpThreads) != 0) {
      const std::string_view key = key_of(member);
      return Problem{key, "'" + std::string(key) + "' is " + format_number(threads) + ": expected a multiple of 32"};
    }
  }
  struct AtMost {
    Number Chip::*smaller;
    Number Chip::*larger;
  };
  for (const auto& [smaller, larger] : {AtMost{&Chip::max_threads_per_block, &Chip::max_threads_per_sm},
                                        AtMost{&Chip::registers_per_block, &Chip::registers_per_sm},
                                        AtMost{&Chip::smem_bytes_per_block, &Chip::smem_bytes_per_sm}}) {
    if (chip.*smaller > chip.*larger) {
      const std::string_view small = key_of(smaller), large = key_of(larger);
      return Problem{small, text(small, chip.*smaller) + " is more than " + text(large, chip.*larger)};
    }
  }
  if (chip.smem_bytes_per_block + chip.smem_reserved_bytes_per_block > chip.smem_bytes_per_sm) {
    return Problem{"shared_memory.per_block",
                   text("shared_memory.per_block", chip.smem_bytes_per_block) + " and " +
                       text("shared_memory.reserved_per_block", chip.smem_reserved_bytes_per_block) +
                       " together are more than " + text("shared_memory.per_sm", chip.smem_bytes_per_sm)};
  }
  if (chip.registers_per_thread * kWarpThreads > chip.registers_per_block) {
    return Problem{"registers.per_thread", text("registers.per_thread", chip.registers_per_thread) +
                                               " for each of 32 threads is more than " +
                                               text("registers.per_block", chip.registers_per_block)};
  }
  if (chip.architecture.empty()) {
    return std::nullopt;
  }
  const std::string target =
      "sm_" + format_number(chip.compute_capability_major) + format_number(chip.compute_capability_minor);
  if (chip.architecture != target) {
    return Problem{"architecture", "'architecture' is " + in_quotes(chip.architecture) + ": expected '" + target +
                                       "' after the compute capability, or '' if no compiler targets it"};
  }
  return std::nullopt;
}

}  // namespace onchip
