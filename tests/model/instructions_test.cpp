// SPDX-License-Identifier: Apache-2.0
// What of a plan's instructions can be counted by hand; kernels/instructions_test.cpp has the compiler's counts.
#include "model/plan/instructions.hpp"

#include "model/plan/step_time.hpp"
#include "tests/catch.hpp"

using namespace onchip;

namespace {

Network network_of(Cell cell, int hidden, int batch, Precision precision = Precision::fp16) {
  return {cell, precision, hidden, batch, 256, 1};
}

// Without a tail: every row as many slots.
Plan plan_of(const Network& network, Storage storage, int threads, int slots) {
  const int rows = info(network.cell).gates;
  std::string text = "sparse_persistent ";
  text += name(storage);
  text += " bank_aware lamport sms=128 threads=" + std::to_string(threads) + " lanes_per_row=32 slots=";
  for (int r = 0; r < rows; ++r) {
    text += (r > 0 ? "/" : "") + std::to_string(slots);
  }
  text += " tile_rows=" + std::to_string(rows > 1 ? 4 : 1) +
          " pass_planes=1 batch_padded=" + std::to_string(network.batch) +
          " load_bytes=16 loads_in_flight=4 promote_every=8 tail_chunks=0 longest_tail=0 " +
          "shared_chunks=0 chunks_in_flight=1 ring_chunks=0";
  return parse_plan(text);
}

}  // namespace

TEST_CASE("rows stored dense share their loads, but for those with a tail", "[fast]") {
  const Network network = network_of(Cell::lstm, 1024, 4);
  Plan plan = plan_of(network, Storage::dense, 256, 32);
  CHECK(rows_per_load(network, plan) == 4);
  CHECK(state_loads(network, plan) == 32);
  plan.tail_chunks = 8;
  CHECK(rows_per_load(network, plan) == 1);
  CHECK(state_loads(network, plan) == 4 * 32 + 8 * 4 / 8.0);
  const Plan packed = plan_of(network, Storage::packed_pair, 256, 32);
  CHECK(rows_per_load(network, packed) == 1);
  CHECK(state_loads(network, packed) == 4 * 32);
  const Network relu = network_of(Cell::relu, 1024, 4);
  CHECK(rows_per_load(relu, plan_of(relu, Storage::dense, 256, 32)) == 1);
}

TEST_CASE("a lane finishes as many of a tile's sums as lanes are too few", "[fast]") {
  for (const int batch : {1, 4, 8}) {
    const Network network = network_of(Cell::lstm, 1024, batch);
    CHECK(lane_outputs(network, plan_of(network, Storage::packed_pair, 256, 4)) == 1);
  }
  const Network network = network_of(Cell::lstm, 1024, 32);
  Plan plan = plan_of(network, Storage::packed_pair, 256, 4);
  CHECK(planes(network, plan) == 4);
  CHECK(passes_over_tiles(network, plan) == 4);
  plan.pass_planes = 4;
  CHECK(lane_outputs(network, plan) == 4);
  CHECK(passes_over_tiles(network, plan) == 1);
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
  const Network network = network_of(Cell::lstm, 1024, 8, Precision::bf16);
  const auto gathering = [&](const Chip& chip, int threads) {
    const Prediction prediction = predict(chip, network, plan_of(network, Storage::packed_pair, threads, 16));
    return prediction.parts_us[static_cast<int>(Part::gather)] +
           prediction.parts_us[static_cast<int>(Part::arithmetic)];
  };
  REQUIRE(step_instructions(network, plan_of(network, Storage::packed_pair, 128, 16)) > 1024);
  CHECK(gathering(file.chip, 128) > 1.2 * gathering(large.chip, 128));  // one warp per partition
  CHECK(gathering(file.chip, 512) == gathering(large.chip, 512));       // four of them
}
