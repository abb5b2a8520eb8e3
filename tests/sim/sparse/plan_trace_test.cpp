// SPDX-License-Identifier: Apache-2.0
// Loads and stores of shared memory are compared with the kernels' own, address by address, in
// tests/experiments/simulation/interpret_test.cpp.
#include "sim/sparse/plan_trace.hpp"
#include "sim/sparse/gather_trace.hpp"

#include "sim/machine/trace_run.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/trace/compact_trace.hpp"
#include "tests/catch.hpp"
#include "tests/sim/plans.hpp"

#include <algorithm>
#include <map>

using namespace onchip;

namespace {

std::uint64_t begin_of(const SparseGeometry& geometry, SparseRegion region) {
  return static_cast<std::uint64_t>(geometry.memory.at(region));
}

// How often each address is accessed by instructions of this kind, over all SMs and lanes.
template <typename Wanted>
std::map<std::uint64_t, int> addresses(const PlanTrace& trace, int sm, Wanted&& wanted) {
  std::map<std::uint64_t, int> count;
  for (const WarpTrace& warp : trace.block(sm).warps) {
    for (const Instruction& instruction : warp.instructions) {
      if (wanted(instruction)) {
        for (const std::uint64_t address : warp.addresses_of(instruction)) {
          ++count[address];
        }
      }
    }
  }
  return count;
}

}  // namespace

TEST_CASE("the gathers of a trace have the wavefronts that the layout counts", "[fast]") {
  for (const Made& made : some_plans()) {
    CAPTURE(plan_text(plan_of(made)));
    const PlanTrace trace(made.layout);
    const Chip chip = find_chip("h200").chip;
    std::int64_t wavefronts = 0;
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      const BlockTrace block = trace.block(sm);
      for (const AccessCost& access : count_accesses(chip, trace, sm).accesses) {
        const WarpTrace& warp = block.warps[access.warp];
        const auto at = warp.addresses_of(warp.instructions[access.instruction]).front();
        wavefronts +=
            access.operation == Operation::shared_load && at < begin_of(trace.geometry(), SparseRegion::outbox)
                ? access.cost.wavefronts
                : 0;
      }
    }
    const std::int64_t counted = gather_wavefronts(made.layout).total;
    if (trace.geometry().plane_unit_bytes <= 4) {
      REQUIRE(wavefronts == counted);
    } else {
      // Neighbouring phases of equal pairs merge, which the layout's count does not know.
      REQUIRE(wavefronts <= counted);
      REQUIRE(static_cast<double>(wavefronts) >= 0.9 * static_cast<double>(counted));
    }
  }
}

TEST_CASE("a step stages every word once and publishes every word once", "[fast]") {
  for (const Made& made : some_plans()) {
    const SparsePlan& plan = made.layout.geometry;
    CAPTURE(plan_text(plan));
    const PlanTrace trace(made.layout);
    std::map<std::uint64_t, int> published;
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      const auto staged = addresses(
          trace, sm, [&](const Instruction& i) { return i.operation == Operation::shared_store && i.width == 16; });
      REQUIRE(staged.size() == static_cast<std::size_t>(trace.state().all));
      for (std::int64_t word = 0; word < trace.state().all; ++word) {
        REQUIRE(staged.at(static_cast<std::uint64_t>(trace.state().staged_at(word))) == 1);
      }
      for (const auto& [address, count] :
           addresses(trace, sm, [](const Instruction& i) { return i.operation == Operation::global_store; })) {
        published[address] += count;
      }
    }
    const std::uint64_t state = 16 * static_cast<std::uint64_t>(trace.state().all);
    for (const std::uint64_t later : {std::uint64_t{1}, std::uint64_t{1 + kEmptiedAhead}}) {
      for (std::uint64_t at = 0; at < state; at += 16) {
        REQUIRE(published[later * state + at] == 1);
      }
    }
    REQUIRE(published.size() == 2 * static_cast<std::size_t>(trace.state().all));
  }
}

TEST_CASE("a streamed chunk is waited for if it was asked for in the same step", "[fast]") {
  for (const Made& made : plans_with_overflow()) {
    const PlanTrace trace(made.layout);
    const int ahead = made.layout.geometry.ring_chunks - 1;
    for (const WarpTrace& warp : trace.body(0).warps) {
      int copies = 0, kept = 0, waits = 0;
      for (const Instruction& instruction : warp.instructions) {
        if (instruction.operation == Operation::async_copy && instruction.width == 16) {
          ++copies;
          kept += instruction.destination != kNoRegister;
        }
        waits += instruction.operation == Operation::other && instruction.sources[0] >= kFirstCopyRegister &&
                 instruction.sources[0] != kNoRegister;
      }
      REQUIRE(kept == std::max(0, copies - std::max(0, ahead)));  // the last are for the next step
      REQUIRE(waits == kept);
    }
  }
}

TEST_CASE("the pipelined passes of a step access what a whole step does, each its share of the state", "[fast]") {
  int pipelined = 0;
  for (const Made& made : some_plans()) {
    const PlanTrace trace(made.layout);
    if (made.layout.geometry.producer_warps == 0) {
      REQUIRE(trace.bodies() == 1);
      continue;
    }
    ++pipelined;
    CAPTURE(plan_text(plan_of(made)));
    REQUIRE(trace.bodies() > 1);
    REQUIRE(trace.body_words() * trace.bodies() == trace.state().all);
    const auto add = [](std::map<std::pair<Operation, std::uint64_t>, int>& to, const BlockTrace& block) {
      for (const WarpTrace& warp : block.warps) {
        for (const Instruction& instruction : warp.instructions) {
          for (const std::uint64_t address : warp.addresses_of(instruction)) {
            ++to[{instruction.operation, address}];
          }
        }
      }
    };
    std::map<std::pair<Operation, std::uint64_t>, int> whole, passes;
    // A whole step publishes what it has computed, too.
    BlockTrace block = trace.block(1);
    REQUIRE(block.warps.size() == static_cast<std::size_t>(made.layout.geometry.block_threads() / 32));
    block.warps.pop_back();
    add(whole, block);
    for (int pass = 0; pass < trace.bodies(); ++pass) {
      add(passes, trace.body(1, pass));
    }
    REQUIRE(passes == whole);
  }
  REQUIRE(pipelined > 3);
}

TEST_CASE("a plan of another family is refused by name", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, 256, 8, 16, 1};
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, 1, 1, network.precision);
  Constraints constraints;
  constraints.family = DensePlan::kName;
  const RecurrentPlan plan =
      choose_plan(find_chip("h200").chip, network, RowProfile::from_matrix(matrix), constraints).plan;
  REQUIRE_THROWS_WITH(replayable(make_layout(network, plan, matrix)),
                      "the addresses of sparse_persistent plans are known, not those of dense_persistent");
}

TEST_CASE("no shared address lies beyond the block's shared memory", "[fast]") {
  for (const Made& made : some_plans()) {
    const PlanTrace trace(made.layout);
    const auto bytes = static_cast<std::uint64_t>(made.layout.geometry.shared_bytes());
    for (const WarpTrace& warp : trace.block(0).warps) {
      for (const Instruction& instruction : warp.instructions) {
        for (const std::uint64_t address : warp.addresses_of(instruction)) {
          REQUIRE(address % instruction.width == 0);
          if (is_shared_access(instruction.operation) || instruction.operation == Operation::async_copy) {
            REQUIRE(address + instruction.width <= bytes);
          }
        }
      }
    }
  }
}

TEST_CASE("a plan's trace reads back from a compact file", "[fast]") {
  const PlanTrace trace(make(Cell::lstm, Precision::fp16, 400, 4, 0.2).layout);
  std::string file = compact_trace_header(trace.blocks(), trace.resources(), trace.step());
  std::size_t addresses = 0, instructions = 0;
  for (int sm = 0; sm < trace.blocks(); ++sm) {
    file += encode_block(trace, sm);
    for (const BlockTrace& block : {trace.block(sm), trace.body(sm)}) {
      for (const WarpTrace& warp : block.warps) {
        addresses += warp.addresses.size();
        instructions += warp.instructions.size();
      }
    }
  }
  CAPTURE(file.size(), addresses, instructions);
  REQUIRE(file.size() <
          2 * addresses + 10 * instructions);  // compact: most addresses in two bytes, instructions in nine
  const auto source = parse_compact_trace(file, "t.trace");
  REQUIRE(*source->step() == *trace.step());
  for (int sm = 0; sm < trace.blocks(); ++sm) {
    REQUIRE(source->block(sm) == trace.block(sm));
    REQUIRE(source->body(sm) == trace.body(sm));
  }
}
