// SPDX-License-Identifier: Apache-2.0
#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

namespace onchip {
namespace {

using Count = std::int64_t;

constexpr Count kUnlimited = std::numeric_limits<int>::max();

Count whole(const Number& number) {
  return static_cast<Count>(number.value);
}
Count ceil_div(Count numerator, Count denominator) {
  return (numerator + denominator - 1) / denominator;
}
Count round_up(Count number, Count unit) {
  return ceil_div(number, unit) * unit;
}
Count round_down(Count number, Count unit) {
  return number / unit * unit;
}

Count blocks_by_threads(const Chip& chip, Count threads) {
  if (threads > whole(chip.max_threads_per_block)) {
    return 0;
  }
  return whole(chip.max_threads_per_sm) / kWarpThreads / ceil_div(threads, kWarpThreads);
}

// The launch check assumes that a block takes the same number of warps in every partition. Compute capability 6.0 has
// two, but refuses what the other Pascal chips, with four, could not run.
Count warps_at_launch(const Chip& chip, Count warps) {
  const bool as_other_pascals = chip.compute_capability_major == 6 && chip.compute_capability_minor == 0;
  return round_up(warps, as_other_pascals ? 4 : whole(chip.partitions));
}

Count blocks_by_registers(const Chip& chip, Count threads, Count registers_per_thread) {
  if (registers_per_thread > whole(chip.registers_per_thread)) {
    return 0;
  }
  if (registers_per_thread == 0) {
    return kUnlimited;
  }
  const Count partitions = whole(chip.partitions);
  const Count warps = ceil_div(threads, kWarpThreads);
  const Count registers_per_warp = round_up(registers_per_thread * kWarpThreads, whole(chip.register_allocation_unit));
  if (registers_per_warp * warps_at_launch(chip, warps) > whole(chip.registers_per_block)) {
    return 0;
  }
  const Count warps_per_partition = whole(chip.registers_per_sm) / partitions / registers_per_warp;
  return warps_per_partition * partitions / warps;
}

Count blocks_by_shared_memory(const Chip& chip, Count bytes) {
  const Count reserved = whole(chip.smem_reserved_bytes_per_block);
  const Count allocated = round_up(bytes + reserved, whole(chip.smem_allocation_unit_bytes));
  if (allocated > whole(chip.smem_bytes_per_block) + reserved) {
    return 0;
  }
  return allocated == 0 ? kUnlimited : whole(chip.smem_bytes_per_sm) / allocated;
}

}  // namespace

std::string_view name(OccupancyLimit limit) {
  constexpr std::array<std::string_view, 4> kNames{"threads", "blocks", "registers", "shared memory"};
  return kNames[static_cast<std::size_t>(limit)];
}

Occupancy occupancy(const Chip& chip, const BlockResources& block) {
  assert(block.threads >= 1 && block.registers_per_thread >= 0 && block.smem_bytes >= 0);
  const std::array<Count, 4> limits{
      blocks_by_threads(chip, block.threads),
      whole(chip.max_blocks_per_sm),
      blocks_by_registers(chip, block.threads, block.registers_per_thread),
      blocks_by_shared_memory(chip, block.smem_bytes),
  };
  const auto smallest = std::min_element(limits.begin(), limits.end());
  return {static_cast<int>(*smallest), static_cast<OccupancyLimit>(smallest - limits.begin())};
}

int max_registers_per_thread(const Chip& chip, int threads, int blocks) {
  assert(threads >= 1 && blocks >= 1);
  if (blocks_by_threads(chip, threads) < blocks || whole(chip.max_blocks_per_sm) < blocks) {
    return 0;
  }
  const Count partitions = whole(chip.partitions);
  const Count unit = whole(chip.register_allocation_unit);
  const Count warps = ceil_div(threads, kWarpThreads);
  const Count by_residency = whole(chip.registers_per_sm) / partitions / ceil_div(warps * blocks, partitions);
  const Count by_launch = whole(chip.registers_per_block) / warps_at_launch(chip, warps);
  const Count per_warp = round_down(std::min(by_residency, by_launch), unit);
  const Count per_thread = round_down(per_warp / kWarpThreads, 8);
  return static_cast<int>(std::min(per_thread, whole(chip.registers_per_thread)));
}

}  // namespace onchip
