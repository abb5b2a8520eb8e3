// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/registers.hpp"

#include "model/chip/occupancy.hpp"
#include "tests/catch.hpp"

using namespace onchip;

TEST_CASE("a whole warpgroup of producer warps hands registers over, on chips that can", "[fast]") {
  const Chip h200 = find_chip("h200").chip, a100 = find_chip("a100").chip;
  SparsePlan plan;
  plan.threads = 256;
  plan.producer_warps = 4;
  const auto split = register_split(plan);
  REQUIRE(split);
  // A partition has 512 registers for a lane of all its warps; a block starts with as many for each.
  CHECK(2 * split->computing + split->fetching <= 512);
  CHECK(2 * split->computing + split->fetching <= 3 * (512 / 3 / 8 * 8));
  CHECK(split->computing > max_registers_per_thread(h200, plan.block_threads()));
  CHECK(registers_available(h200, plan) == split->computing);
  // More words in flight take more registers; twice as many warps that fetch, those of as many again.
  SparsePlan more = plan;
  more.loads_in_flight = 8;
  REQUIRE(register_split(more));
  CHECK(register_split(more)->fetching > split->fetching);
  CHECK(register_split(more)->computing < split->computing);
  SparsePlan twice = plan;
  twice.producer_warps = 8;
  REQUIRE(register_split(twice));
  CHECK(2 * register_split(twice)->computing + 2 * register_split(twice)->fetching <= 512);
  CHECK(register_split(twice)->computing < split->computing);
  CHECK(registers_available(a100, plan) == max_registers_per_thread(a100, plan.block_threads()));
  plan.threads = 288;  // of which the last warps have no warpgroup
  CHECK_FALSE(register_split(plan));
  CHECK(registers_available(h200, plan) == max_registers_per_thread(h200, plan.block_threads()));
}
