// SPDX-License-Identifier: Apache-2.0
// Synthetic kernels whose cycles can be counted by hand, on a chip of round numbers.
#include "sim/machine/sm.hpp"

#include "tests/catch.hpp"

#include <numeric>
#include <random>

using namespace onchip;

namespace {

Chip round_chip(std::initializer_list<const char*> changes = {}) {
  ChipFile file = find_chip("h200");
  for (const char* change :
       {"timing.lds_latency=20", "timing.lds_wavefront=1", "timing.lds_instruction=1", "timing.lds_latency_per_word=3",
        "timing.fp32_issue=1", "timing.half2_issue=1.25", "timing.half2_latency=8", "timing.integer_issue=2",
        "timing.arithmetic_latency=4", "timing.shuffle_latency=24", "timing.block_barrier=10",
        "timing.block_barrier_per_warp=2", "timing.special_issue=8", "timing.tanh_latency=60"}) {
    set_chip_key(file, change);
  }
  for (const char* change : changes) {
    set_chip_key(file, change);
  }
  return file.chip;
}

Instruction arithmetic(Operation operation, int destination, int source = kNoRegister) {
  Instruction instruction;
  instruction.operation = operation;
  instruction.destination = static_cast<std::uint8_t>(destination);
  instruction.sources[0] = static_cast<std::uint8_t>(source);
  return instruction;
}

// So many warps, each with so many independent instructions.
BlockTrace block_of(int warps, int instructions, Operation operation) {
  WarpTrace warp;
  for (int i = 0; i < instructions; ++i) {
    warp.add(arithmetic(operation, i % 64));
  }
  return {std::vector<WarpTrace>(static_cast<std::size_t>(warps), warp)};
}

// Lane l asks for word l * stride.
void load(WarpTrace& warp, int destination, int stride = 1, int width = 4) {
  Instruction instruction = arithmetic(Operation::shared_load, destination);
  instruction.width = static_cast<std::uint8_t>(width);
  std::vector<std::uint64_t> addresses;
  for (int lane = 0; lane < 32; ++lane) {
    addresses.push_back(static_cast<std::uint64_t>(lane * stride * width));
  }
  warp.add(instruction, addresses);
}

SmRun run(const BlockTrace& block, const SmOptions& options = {}, const Chip& chip = round_chip()) {
  SmRun result = run_sm(chip, {&block, 1}, options);
  REQUIRE_THAT(std::accumulate(result.causes.begin(), result.causes.end(), 0.0),
               Catch::Matchers::WithinAbs(static_cast<double>(result.cycles), 1e-6));
  return result;
}

std::int64_t cause(const SmRun& run, Cause cause) {
  return std::llround(run.causes[static_cast<int>(cause)]);
}

}  // namespace

TEST_CASE("a chain of dependent instructions takes their latencies", "[fast]") {
  BlockTrace block{{WarpTrace()}};
  for (int i = 0; i < 10; ++i) {
    block.warps[0].add(arithmetic(Operation::fp32, i + 1, i));
  }
  REQUIRE(run(block).cycles == 10 * 4);
  REQUIRE(cause(run(block), Cause::issue) == 10);
  REQUIRE(run(block, {.scoreboard = false}).cycles == 9 + 4);  // one issues per cycle, and the last takes its time
}

TEST_CASE("a pipe takes instructions at its interval, and each partition has its own", "[fast]") {
  for (const int warps : {1, 2, 4, 8}) {
    const int of_partition = std::max(1, warps / 4) * 40;
    CAPTURE(warps);
    REQUIRE(run(block_of(warps, 40, Operation::integer)).cycles == 2 * (of_partition - 1) + 4);
  }
  REQUIRE(run(block_of(1, 41, Operation::half2)).cycles == 80 + 4);  // 40 intervals of 2, as conversions
}

TEST_CASE("instructions of a loop too long for the cache come at their interval, and serve all warps", "[fast]") {
  constexpr int kInstructions = 2000;
  for (const int warps : {1, 2, 4, 8}) {  // up to two in a partition
    BlockTrace block = block_of(warps, kInstructions, Operation::fp32);
    const Chip chip = round_chip({"timing.instruction_cache=32 KiB", "timing.instruction_supply=3",
                                  "timing.sm_instruction_cache=64 KiB", "timing.sm_instruction_supply=5"});
    const int in_turn = std::max(1, warps / 4) * kInstructions - 1 + 4;
    CAPTURE(warps);
    REQUIRE(run(block, {}, chip).cycles == in_turn);
    block.loop_instructions = 2048;
    REQUIRE(run(block, {}, chip).cycles == in_turn);
    block.loop_instructions = 2049;
    REQUIRE(run(block, {.fetch = false}, chip).cycles == in_turn);
    REQUIRE(run(block, {}, chip).cycles == 3 * (kInstructions - 1) + 4 + (warps > 4 ? 1 : 0));
    block.loop_instructions = 4096;
    REQUIRE(run(block, {}, chip).cycles == 3 * (kInstructions - 1) + 4 + (warps > 4 ? 1 : 0));
    block.loop_instructions = 4097;
    REQUIRE(run(block, {.fetch = false}, chip).cycles == in_turn);
    REQUIRE(run(block, {}, chip).cycles == 5 * (kInstructions - 1) + 4 + (warps > 4 ? 1 : 0));
  }
  // A wait lets as many come as the prefetcher holds, no more.
  BlockTrace block = block_of(1, kInstructions, Operation::fp32);
  block.loop_instructions = 4096;
  const Chip chip = round_chip({"timing.instruction_supply=3"});
  const std::int64_t without_wait = run(block, {}, chip).cycles;
  for (int i = 0; i < 500; ++i) {
    block.warps[0].add(arithmetic(Operation::fp32, 64, 64));  // 4 cycles each: what follows has come
  }
  for (int i = 0; i < kInstructions; ++i) {
    block.warps[0].add(arithmetic(Operation::fp32, i % 64));
  }
  const std::int64_t with_wait = run(block, {}, chip).cycles;
  REQUIRE(with_wait < 2 * without_wait + 500 * 4 - kInstructionsAhead);
  REQUIRE(with_wait > 2 * without_wait + 500 * 4 - 3 * kInstructionsAhead - 16);
}

TEST_CASE("a branch holds its own warp up, and no other", "[fast]") {
  for (const int warps : {1, 5}) {  // 5: two in the first partition
    BlockTrace block;
    for (int w = 0; w < warps; ++w) {
      WarpTrace warp;
      Instruction branch;
      branch.operation = Operation::branch;
      for (int i = 0; i < 10; ++i) {
        warp.add(branch);
      }
      warp.add(arithmetic(Operation::fp32, 0));
      block.warps.push_back(warp);
    }
    CAPTURE(warps);
    REQUIRE(run(block).cycles == 10 * 13 + 4 + (warps > 4 ? 1 : 0));
  }
}

TEST_CASE("two kinds of work overlap in different pipes and add up in one", "[fast]") {
  BlockTrace block{{WarpTrace()}};
  for (int i = 0; i < 40; ++i) {
    block.warps[0].add(arithmetic(i % 2 ? Operation::integer : Operation::special, i));
  }
  REQUIRE(cause(run(block), Cause::issue) == 40);
  REQUIRE(run(block, {}, round_chip({"timing.special_issue=2"})).cycles ==
          38 + 20);  // the last special one is the 39th
}

TEST_CASE("what comes from L2 comes one after another through the SM's port, and is waited for where it is used",
          "[fast]") {
  // Copies of 512 bytes, 32 cycles each at 16 B/cycle; the first is there after the latency, as if it came alone.
  const Chip chip = round_chip({"exchange.l2_latency=300", "exchange.bytes_per_cycle_per_sm=16 B/cycle"});
  for (const int copies : {1, 2, 5}) {
    BlockTrace block{{WarpTrace()}};
    for (int i = 0; i < copies; ++i) {
      load(block.warps[0], 4 * i, 1, 16);
      block.warps[0].instructions.back().operation = Operation::async_copy;
    }
    block.warps[0].add(arithmetic(Operation::fp32, 100, 4 * (copies - 1)));
    CAPTURE(copies);
    REQUIRE(run(block, {}, chip).cycles == 300 + 32 * (copies - 1) + 4);
  }
  BlockTrace unused{{WarpTrace()}};
  load(unused.warps[0], kNoRegister, 1, 16);
  unused.warps[0].instructions.back().operation = Operation::async_copy;
  REQUIRE(run(unused, {}, chip).cycles < 20);
}

TEST_CASE("the load/store unit serves one wavefront per cycle, and conflicts come on top of the latency", "[fast]") {
  for (const int stride : {1, 2, 4, 32}) {
    BlockTrace block{{WarpTrace()}};
    for (int i = 0; i < 6; ++i) {
      load(block.warps[0], i, stride);
    }
    CAPTURE(stride);
    REQUIRE(run(block).cycles == 5 * stride + 20 + stride - 1);
    REQUIRE(run(block, {.banks = false}).cycles == 5 + 20);
    REQUIRE(run(block).loads().wavefronts == 6 * stride);
  }
  BlockTrace wide{{WarpTrace()}};
  load(wide.warps[0], 0, 1, 16);
  REQUIRE(run(wide).cycles == 20 + 3 * 3);
}

TEST_CASE("a full queue holds up its own partition only", "[fast]") {
  // Conflicts of 32: an access lasts 32 cycles. With room for two, the first starts at once, two wait, and the fourth
  // issues when the second starts, at 32; the arithmetic behind it comes one cycle later.
  const Chip chip = round_chip({"timing.load_store_queue=2"});
  BlockTrace block{{WarpTrace(), WarpTrace()}};
  for (int i = 0; i < 4; ++i) {
    load(block.warps[0], i, 32);
  }
  block.warps[0].add(arithmetic(Operation::fp32, 10));
  block.warps[1].add(arithmetic(Operation::fp32, 10));
  const SmRun result = run(block, {.events = true}, chip);
  REQUIRE(result.warp_end[0] == 32 + 1 + 1);
  REQUIRE(result.warp_end[1] == 1);
  REQUIRE(run(block, {}, round_chip({"timing.load_store_queue=4"})).warp_end[0] == 5);
}

TEST_CASE("a load is used when it is there, by all registers that it writes", "[fast]") {
  BlockTrace block{{WarpTrace()}};
  load(block.warps[0], 0, 1, 16);
  block.warps[0].add(arithmetic(Operation::fp32, 10, 3));
  REQUIRE(run(block).cycles == 29 + 4);
}

TEST_CASE("a barrier waits for the last warp and costs what is measured", "[fast]") {
  const Instruction barrier = arithmetic(Operation::barrier, kNoRegister);
  for (const int warps : {1, 2, 4, 8}) {
    BlockTrace block{std::vector<WarpTrace>(warps)};
    for (WarpTrace& warp : block.warps) {
      warp.add(barrier);
      warp.add(arithmetic(Operation::fp32, 0));
    }
    CAPTURE(warps);
    // Arrivals at the rate of a scheduler are as good as together; then one instruction of each warp.
    REQUIRE(run(block).cycles == 10 + 2 * warps + std::max(1, warps / 4) - 1 + 4);
  }
  BlockTrace late{std::vector<WarpTrace>(2)};
  for (int i = 0; i < 25; ++i) {
    late.warps[0].add(arithmetic(Operation::fp32, i + 1, i));
  }
  for (WarpTrace& warp : late.warps) {
    warp.add(barrier);
    warp.add(arithmetic(Operation::fp32, 0));
  }
  REQUIRE(run(late).cycles == 24 * 4 + 1 + 2 + 10 + 4);
  REQUIRE(cause(run(late), Cause::barrier) == 11);
}

TEST_CASE("a warp that has ended is not waited for", "[fast]") {
  BlockTrace block{std::vector<WarpTrace>(3)};
  block.warps[0].add(arithmetic(Operation::barrier, kNoRegister));
  block.warps[0].add(arithmetic(Operation::fp32, 0));
  block.warps[1].add(arithmetic(Operation::fp32, 0));
  REQUIRE(run(block).cycles > 10);
}

TEST_CASE("greedy scheduling stays with a warp, round robin goes on to the next", "[fast]") {
  BlockTrace block{std::vector<WarpTrace>(8)};  // warps 0 and 4 share a partition
  for (WarpTrace& warp : block.warps) {
    for (int i = 0; i < 3; ++i) {
      warp.add(arithmetic(Operation::fp32, i));
    }
  }
  const auto order = [&](Scheduling scheduling) {
    std::vector<int> warps;
    for (const IssueEvent& event : run(block, {.scheduling = scheduling, .events = true}).events) {
      if (event.warp % 4 == 0) {
        warps.push_back(event.warp);
      }
    }
    return warps;
  };
  REQUIRE(order(Scheduling::greedy_then_youngest) == std::vector<int>{4, 4, 4, 0, 0, 0});
  REQUIRE(order(Scheduling::greedy_then_oldest) == std::vector<int>{0, 0, 0, 4, 4, 4});
  REQUIRE(order(Scheduling::round_robin) == std::vector<int>{4, 0, 4, 0, 4, 0});
}

TEST_CASE("random kernels end, issue everything once, and no part left out makes them slower", "[fast]") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    BlockTrace block{std::vector<WarpTrace>(1 + random() % 9)};
    std::int64_t instructions = 0;
    const int barriers = static_cast<int>(random() % 3);
    for (WarpTrace& warp : block.warps) {
      for (int part = 0; part <= barriers; ++part) {
        for (auto i = random() % 40; i > 0; --i) {
          switch (random() % 4) {
            case 0:
              load(warp, static_cast<int>(random() % 64), 1 << random() % 6, 4 << random() % 3);
              break;
            default:
              warp.add(arithmetic(static_cast<Operation>(random() % 7), static_cast<int>(random() % 64),
                                  static_cast<int>(random() % 64)));
          }
        }
        if (part < barriers) {
          warp.add(arithmetic(Operation::barrier, kNoRegister));
        }
      }
      instructions += static_cast<std::int64_t>(warp.instructions.size());
    }
    const SmRun whole = run(block);
    REQUIRE(std::accumulate(whole.issued.begin(), whole.issued.end(), std::int64_t{0}) == instructions);
    REQUIRE(run(block, {.banks = false}).loads().wavefronts == whole.loads().wavefronts);
    // Schedules are not monotonic (Graham's anomalies), hence a margin.
    const double margin = 1.25 * static_cast<double>(whole.cycles) + 20;
    REQUIRE(static_cast<double>(run(block, {.banks = false}).cycles) <= margin);
    REQUIRE(static_cast<double>(run(block, {.issue = false}).cycles) <= margin);
    REQUIRE(static_cast<double>(run(block, {.scoreboard = false}).cycles) <= margin);
  }
}

TEST_CASE("a load of published words is repeated until what is stored is visible", "[fast]") {
  constexpr std::uint64_t kBegin = 1 << 20;
  constexpr int kOperations = 200, kVisible = 50;
  const Chip chip =
      round_chip({"exchange.l2_latency=100cycles", "exchange.look=10cycles", "exchange.look_per_word=0cycles"});
  const auto access = [](Operation operation, int destination) {
    Instruction instruction = arithmetic(operation, destination);
    instruction.mask = 1;
    return instruction;
  };
  BlockTrace block;
  block.warps.resize(2);
  block.warps[0].add(access(Operation::global_load, 1), std::array{kBegin});
  block.warps[0].add(arithmetic(Operation::fp32, 2, 1));
  for (int i = 0; i < kOperations; ++i) {
    block.warps[1].add(arithmetic(Operation::fp32, 1, 1));
  }
  block.warps[1].add(access(Operation::global_store, kNoRegister), std::array{kBegin});
  const Published published{kBegin, 4, 1, kVisible};
  SmOptions options;
  options.published = {&published, 1};

  const SmRun waits = run(block, options, chip), alone = run(block, {}, chip);
  REQUIRE(waits.global_stores.size() == 1);
  const std::int64_t stored = waits.global_stores[0].cycle;
  CHECK(stored >= 4 * (kOperations - 1));
  CHECK(alone.polls_in_vain == 0);
  CHECK(alone.warp_end[0] < stored);
  // Every poll takes a way to L2 and back, and a look at what came; the last one begins once the word is visible.
  constexpr int kPoll = 100 + 10;
  CHECK(waits.warp_end[0] >= stored + kVisible + 100);
  CHECK(waits.warp_end[0] <= stored + kVisible + 100 + kPoll + 10);
  CHECK(std::abs(static_cast<double>(waits.polls_in_vain) - static_cast<double>(stored + kVisible) / kPoll) < 1.5);
}

TEST_CASE("a part of a line of L2 takes the load/store unit as long as is asked for", "[fast]") {
  WarpTrace warp;
  for (int i = 0; i < 64; ++i) {
    Instruction store = arithmetic(Operation::global_store, kNoRegister);
    store.mask = 3;
    warp.add(store, std::array{std::uint64_t{256} * i, std::uint64_t{256} * i + 128});
  }
  BlockTrace block;
  block.warps.push_back(warp);
  SmOptions options;
  options.l2_line_cycles = 5;
  CHECK(run(block).cycles == 64 * 2);
  CHECK(run(block, options).cycles == 64 * 2 * 5);
}
