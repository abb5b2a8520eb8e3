// SPDX-License-Identifier: Apache-2.0
#include "model/chip/occupancy.hpp"

#include "tests/catch.hpp"

#include <random>

using namespace onchip;

TEST_CASE("each resource can be what limits occupancy", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const auto check = [&](BlockResources block, int blocks, OccupancyLimit limit) {
    const Occupancy result = occupancy(chip, block);
    CAPTURE(block.threads, block.registers_per_thread, block.smem_bytes);
    REQUIRE(result.blocks_per_sm == blocks);
    REQUIRE(name(result.limit) == name(limit));
  };
  check({.threads = 256, .registers_per_thread = 255, .smem_bytes = 0}, 1, OccupancyLimit::registers);
  check({.threads = 256, .registers_per_thread = 32, .smem_bytes = 100 * 1024}, 2, OccupancyLimit::shared_memory);
  check({.threads = 1024, .registers_per_thread = 32, .smem_bytes = 0}, 2, OccupancyLimit::threads);
  check({.threads = 1024, .registers_per_thread = 33, .smem_bytes = 0}, 1, OccupancyLimit::registers);
  check({.threads = 32, .registers_per_thread = 16, .smem_bytes = 0}, 32, OccupancyLimit::blocks);
}

TEST_CASE("a block that is too large has occupancy zero", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const auto limit = [&](BlockResources block) {
    const Occupancy result = occupancy(chip, block);
    REQUIRE(result.blocks_per_sm == 0);
    return result.limit;
  };
  REQUIRE(limit({.threads = 1056, .registers_per_thread = 16}) == OccupancyLimit::threads);
  REQUIRE(limit({.threads = 1024, .registers_per_thread = 96}) == OccupancyLimit::registers);
  REQUIRE(limit({.threads = 32, .registers_per_thread = 256}) == OccupancyLimit::registers);
  REQUIRE(limit({.threads = 32, .registers_per_thread = 16, .smem_bytes = 227 * 1024 + 1}) ==
          OccupancyLimit::shared_memory);
  REQUIRE(occupancy(chip, {.threads = 32, .registers_per_thread = 16, .smem_bytes = 227 * 1024}).blocks_per_sm == 1);
}

TEST_CASE("the register cap is the largest that keeps the blocks resident", "[fast]") {
  for (const std::string& chip_name : shipped_chips()) {
    const Chip chip = find_chip(chip_name).chip;
    std::mt19937 random(7);
    for (int i = 0; i < 2000; ++i) {
      const int threads = 1 + static_cast<int>(random() % 1100);
      const int blocks = 1 + static_cast<int>(random() % 4);
      const int cap = max_registers_per_thread(chip, threads, blocks);
      int largest = 0;
      for (int registers = 1; registers <= 255; ++registers) {
        if (occupancy(chip, {threads, registers, 0}).blocks_per_sm >= blocks) {
          largest = registers;
        }
      }
      CAPTURE(chip_name, threads, blocks);
      REQUIRE(cap == largest);
    }
  }
}
