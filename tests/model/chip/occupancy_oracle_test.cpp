// SPDX-License-Identifier: Apache-2.0
// Our occupancy against the CUDA toolkit's own calculator, which is a plain C header and needs no GPU.
#include "model/chip/occupancy.hpp"
#include "tests/catch.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop

#include <array>
#include <climits>
#include <random>

using namespace onchip;

namespace {

int whole(const Number& number) {
  return static_cast<int>(number.value);
}

cudaOccDeviceProp properties(const Chip& chip) {
  cudaOccDeviceProp result;
  result.computeMajor = whole(chip.compute_capability_major);
  result.computeMinor = whole(chip.compute_capability_minor);
  result.maxThreadsPerBlock = whole(chip.max_threads_per_block);
  result.maxThreadsPerMultiprocessor = whole(chip.max_threads_per_sm);
  result.regsPerBlock = whole(chip.registers_per_block);
  result.regsPerMultiprocessor = whole(chip.registers_per_sm);
  result.warpSize = 32;
  result.sharedMemPerBlock = 48 * 1024;
  result.sharedMemPerMultiprocessor = static_cast<size_t>(chip.smem_bytes_per_sm.value);
  result.numSms = whole(chip.sm_count);
  result.sharedMemPerBlockOptin = static_cast<size_t>(chip.smem_bytes_per_block.value);
  result.reservedSharedMemPerBlock = static_cast<size_t>(chip.smem_reserved_bytes_per_block.value);
  return result;
}

// A kernel that has asked for all the shared memory it is launched with.
int oracle(const Chip& chip, const BlockResources& block) {
  const cudaOccDeviceProp device = properties(chip);
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = INT_MAX;
  function.numRegs = block.registers_per_thread;
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = static_cast<size_t>(block.smem_bytes);
  function.numBlockBarriers = 1;
  cudaOccDeviceState state;
  state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
  cudaOccResult result{};
  REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, block.threads,
                                                  static_cast<size_t>(block.smem_bytes)) == CUDA_OCC_SUCCESS);
  return result.activeBlocksPerMultiprocessor;
}

// What occupancy depends on, per compute capability; chips of which no file is shipped are made from one that is.
Chip chip_of(int major, int minor) {
  struct Row {
    int major, minor, max_threads, max_blocks, smem_kib;
  };
  constexpr std::array<Row, 9> kRows{{{7, 5, 1024, 16, 64},
                                      {8, 0, 2048, 32, 164},
                                      {8, 6, 1536, 16, 100},
                                      {8, 7, 1536, 16, 164},
                                      {8, 9, 1536, 24, 100},
                                      {9, 0, 2048, 32, 228},
                                      {10, 0, 2048, 32, 228},
                                      {10, 3, 2048, 32, 228},
                                      {12, 0, 1536, 24, 100}}};
  Chip chip = find_chip("h200").chip;
  for (const Row& row : kRows) {
    if (row.major == major && row.minor == minor) {
      const bool reserves = major >= 8;
      chip.compute_capability_major = {static_cast<double>(major)};
      chip.compute_capability_minor = {static_cast<double>(minor)};
      chip.max_threads_per_sm = {static_cast<double>(row.max_threads)};
      chip.max_blocks_per_sm = {static_cast<double>(row.max_blocks)};
      chip.smem_bytes_per_sm = {row.smem_kib * 1024.0};
      chip.smem_bytes_per_block = {(row.smem_kib - (reserves ? 1 : 0)) * 1024.0};
      chip.smem_reserved_bytes_per_block = {reserves ? 1024.0 : 0.0};
      chip.smem_allocation_unit_bytes = {reserves ? 128.0 : 256.0};
      return chip;
    }
  }
  FAIL("no such compute capability");
  return chip;
}

// Returns how many of the configurations fit at least once.
int compare(const Chip& chip, int configurations, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](long low, long high) { return low + static_cast<long>(random() % (high - low + 1)); };
  int resident = 0;
  for (int i = 0; i < configurations; ++i) {
    // Half of the shared-memory sizes are small, so that every limit binds often; some exceed what a block can have.
    const long most_smem = static_cast<long>(chip.smem_bytes_per_block.value) + 2048;
    const BlockResources block{.threads = static_cast<int>(draw(0, 3) == 0 ? 32 * draw(1, 33) : draw(1, 1056)),
                               .registers_per_thread = static_cast<int>(draw(0, 255)),
                               .smem_bytes = draw(0, 1) == 0 ? draw(0, 16 * 1024) : draw(0, most_smem)};
    const int expected = oracle(chip, block);
    const int actual = occupancy(chip, block).blocks_per_sm;
    if (actual != expected) {
      CAPTURE(chip.compute_capability_major.value, chip.compute_capability_minor.value, block.threads,
              block.registers_per_thread, block.smem_bytes);
      REQUIRE(actual == expected);
    }
    resident += expected > 0;
  }
  return resident;
}

}  // namespace

TEST_CASE("occupancy equals the toolkit's on every shipped chip", "[fast]") {
  for (const std::string& name : shipped_chips()) {
    CAPTURE(name);
    const int resident = compare(find_chip(name).chip, 5000, 1);
    REQUIRE(resident > 1000);  // the draw is not all misfits
    REQUIRE(resident < 5000);
  }
}

TEST_CASE("occupancy equals the toolkit's on every compute capability it knows", "[fast]") {
  constexpr std::array<std::pair<int, int>, 9> kCapabilities{
      {{7, 5}, {8, 0}, {8, 6}, {8, 7}, {8, 9}, {9, 0}, {10, 0}, {10, 3}, {12, 0}}};
  for (const auto& [major, minor] : kCapabilities) {
    CAPTURE(major, minor);
    REQUIRE(compare(chip_of(major, minor), 20000, 2) > 4000);
  }
}

TEST_CASE("occupancy equals the toolkit's where a limit is met exactly", "[fast]") {
  for (const std::string& name : shipped_chips()) {
    const Chip chip = find_chip(name).chip;
    for (int threads = 1; threads <= 1024; threads += threads < 64 ? 1 : 31) {
      const int cap = max_registers_per_thread(chip, threads);
      for (const int registers : {cap - 1, cap, std::min(cap + 1, 255)}) {
        const BlockResources block{threads, registers, 0};
        CAPTURE(name, threads, registers);
        REQUIRE(occupancy(chip, block).blocks_per_sm == oracle(chip, block));
      }
    }
    const long most = static_cast<long>(chip.smem_bytes_per_block.value);
    for (int blocks = 1; blocks <= 32; ++blocks) {
      const long share = static_cast<long>(chip.smem_bytes_per_sm.value) / blocks;
      for (const long bytes :
           {share - 1024 - 128, share - 1024 - 1, share - 1024, share - 1024 + 1, share, most, most + 1}) {
        const BlockResources block{32, 16, std::max(bytes, 0L)};
        CAPTURE(name, block.smem_bytes);
        REQUIRE(occupancy(chip, block).blocks_per_sm == oracle(chip, block));
      }
    }
  }
}
