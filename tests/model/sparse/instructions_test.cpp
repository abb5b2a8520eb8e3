// SPDX-License-Identifier: Apache-2.0
// What of a plan's instructions can be counted by hand; tests/kernels/instructions_test.cpp has the compiler's counts.
#include "model/sparse/instructions.hpp"

#include "model/chip/chip.hpp"
#include "model/sparse/price.hpp"
#include "tests/catch.hpp"

using namespace onchip;

namespace {

Recurrent network_of(Cell cell, int hidden, int batch, Precision precision = Precision::fp16) {
  return {cell, precision, hidden, batch, 256, 1};
}

// Without overflow: every row as many slots.
SparseGeometry geometry_of(const Recurrent& network, Storage storage, int threads, int slots, int pass_planes = 1,
                           int overflow_chunks = 0) {
  SparsePlan plan;
  plan.storage = storage;
  plan.sms = 128;
  plan.threads = threads;
  plan.rows_per_group = info(network.cell).gates;
  plan.slots.fill(slots);
  plan.tile_rows = plan.rows_per_group > 1 ? 4 : 1;
  plan.pass_planes = pass_planes;
  plan.loads_in_flight = 4;
  plan.promote_every = 8;
  plan.overflow_chunks = overflow_chunks;
  return {network, plan};
}

}  // namespace

TEST_CASE("rows stored dense share their loads, but for those with overflow", "[fast]") {
  const Recurrent network = network_of(Cell::lstm, 1024, 4);
  const SparseGeometry dense = geometry_of(network, Storage::dense, 256, 32);
  CHECK(rows_per_load(dense) == 4);
  CHECK(state_loads(dense) == 32);
  const SparseGeometry overflowing = geometry_of(network, Storage::dense, 256, 32, 1, 8);
  CHECK(rows_per_load(overflowing) == 1);
  CHECK(state_loads(overflowing) == 4 * 32 + 8 * 4 / 8.0);
  const SparseGeometry packed = geometry_of(network, Storage::packed_pair, 256, 32);
  CHECK(rows_per_load(packed) == 1);
  CHECK(state_loads(packed) == 4 * 32);
  CHECK(rows_per_load(geometry_of(network_of(Cell::relu, 1024, 4), Storage::dense, 256, 32)) == 1);
}

TEST_CASE("a lane finishes as many of a tile's sums as lanes are too few", "[fast]") {
  for (const int batch : {1, 4, 8}) {
    CHECK(lane_outputs(geometry_of(network_of(Cell::lstm, 1024, batch), Storage::packed_pair, 256, 4)) == 1);
  }
  const Recurrent network = network_of(Cell::lstm, 1024, 32);
  const SparseGeometry narrow = geometry_of(network, Storage::packed_pair, 256, 4);
  CHECK(narrow.planes == 4);
  CHECK(passes_over_tiles(narrow) == 4);
  const SparseGeometry wide = geometry_of(network, Storage::packed_pair, 256, 4, 4);
  CHECK(lane_outputs(wide) == 4);
  CHECK(passes_over_tiles(wide) == 1);
}

TEST_CASE("instructions of a loop longer than the cache take their time, if one warp has to wait for all", "[fast]") {
  ChipFile file = find_chip("h200");
  set_chip_key(file, "timing.instruction_cache=16 KiB");
  set_chip_key(file, "timing.instruction_supply=3");
  set_chip_key(file, "timing.sm_instruction_cache=64 KiB");
  set_chip_key(file, "timing.sm_instruction_supply=7");
  CHECK(instruction_supply_cycles(file.chip, 1024) == 0);
  CHECK(instruction_supply_cycles(file.chip, 1025) == 3);
  CHECK(instruction_supply_cycles(file.chip, 4096) == 3);
  CHECK(instruction_supply_cycles(file.chip, 4097) == 7);

  ChipFile large = file;
  set_chip_key(large, "timing.instruction_cache=1 MiB");
  const Recurrent network = network_of(Cell::lstm, 1024, 8, Precision::bf16);
  const auto gathering = [&](const Chip& chip, int threads) {
    const Terms terms = price(chip, geometry_of(network, Storage::packed_pair, threads, 16)).terms;
    return terms["gather"] + terms["arithmetic"];
  };
  REQUIRE(step_instructions(geometry_of(network, Storage::packed_pair, 128, 16)) > 1024);
  CHECK(gathering(file.chip, 128) > 1.2 * gathering(large.chip, 128));  // one warp per partition
  CHECK(gathering(file.chip, 512) == gathering(large.chip, 512));       // four of them
}
