// SPDX-License-Identifier: Apache-2.0
#include "sim/plan_trace.hpp"

#include "model/planner.hpp"
#include "sim/compact_trace.hpp"
#include "sim/list_schedule.hpp"
#include "sim/trace_run.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <map>
#include <random>

using namespace onchip;

namespace {

struct Made {
  Network network;
  Layout layout;
};

Made make(Cell cell, Precision precision, int hidden, int batch, double density, const PlanWishes& wishes = {},
          MaskKind kind = MaskKind::uniform) {
  Network network;
  network.cell = cell;
  network.precision = precision;
  network.hidden = hidden;
  network.batch = batch;
  network.density = density;
  const SparseMatrix matrix = generate_mask(network.rows(), hidden, density, 3, precision, kind);
  const Chip chip = find_chip("h200").chip;
  const Plan plan = choose_plan(chip, network, RowProfile::from_matrix(matrix), wishes).plan;
  return {network, make_layout(network, plan, matrix)};
}

std::vector<Made> some_plans() {
  PlanWishes natural, shared, dense;
  natural.order = RowOrder::natural;
  shared.tier = Tier::shared_memory;
  dense.storage = Storage::dense;
  std::vector<Made> plans;
  plans.push_back(make(Cell::relu, Precision::fp16, 300, 1, 0.2));
  plans.push_back(make(Cell::relu, Precision::fp16, 300, 2, 0.1, natural));
  plans.push_back(make(Cell::tanh, Precision::bf16, 257, 4, 0.3));
  plans.push_back(make(Cell::relu, Precision::fp16, 512, 8, 0.1, {}, MaskKind::power_law));
  plans.push_back(make(Cell::lstm, Precision::fp16, 200, 3, 0.2, natural));
  plans.push_back(make(Cell::gru, Precision::fp32, 130, 4, 0.3));
  plans.push_back(make(Cell::lstm, Precision::fp8, 256, 16, 0.1));
  plans.push_back(make(Cell::relu, Precision::fp32, 256, 8, 0.2));
  plans.push_back(make(Cell::relu, Precision::fp16, 320, 4, 1, dense));
  return plans;
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
    CAPTURE(to_string(made.layout.plan));
    const PlanTrace trace(made.layout);
    const Chip chip = find_chip("h200").chip;
    std::int64_t wavefronts = 0;
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      const BlockTrace block = trace.block(sm);
      for (const AccessCost& access : count_accesses(chip, trace, sm)) {
        const WarpTrace& warp = block.warps[access.warp];
        const auto at = warp.addresses_of(warp.instructions[access.instruction]).front();
        wavefronts +=
            access.operation == Operation::shared_load && at < trace.map().outbox_at ? access.cost.wavefronts : 0;
      }
    }
    const std::int64_t counted = gather_wavefronts(made.layout).total;
    if (trace.map().plane_unit_bytes <= 4) {
      REQUIRE(wavefronts == counted);
    } else {
      // Neighbouring phases of equal pairs merge, which the layout's count does not know.
      REQUIRE(wavefronts <= counted);
      REQUIRE(static_cast<double>(wavefronts) >= 0.9 * static_cast<double>(counted));
    }
  }
}

TEST_CASE("a step reads every slot, stages every word once and emits every word once", "[fast]") {
  for (const Made& made : some_plans()) {
    const Plan& plan = made.layout.plan;
    CAPTURE(to_string(plan));
    const PlanTrace trace(made.layout);
    const KernelMap& map = trace.map();
    std::map<std::uint64_t, int> emitted;
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      const auto staged = addresses(
          trace, sm, [&](const Instruction& i) { return i.operation == Operation::shared_store && i.width == 16; });
      REQUIRE(staged.size() == static_cast<std::size_t>(map.state_words));
      for (std::int64_t word = 0; word < map.state_words; ++word) {
        REQUIRE(staged.at(map.staged_at(word)) == 1);
      }
      for (const auto& [address, count] :
           addresses(trace, sm, [](const Instruction& i) { return i.operation == Operation::global_store; })) {
        emitted[address] += count;
      }
      std::map<std::uint64_t, int> expected;
      for (int slot = 0; slot < plan.slots_total(); ++slot) {
        for (int thread = 0; thread < plan.threads; ++thread) {
          for (int plane = 0; plane < map.planes && !plan.skips(); ++plane) {
            ++expected[static_cast<std::uint64_t>(plane) * map.plane_bytes +
                       static_cast<std::uint64_t>(made.layout.place[made.layout.entry(sm, slot, thread)]) *
                           static_cast<std::uint64_t>(map.plane_unit_bytes)];
          }
        }
      }
      auto read = addresses(trace, sm, [&](const Instruction& i) { return i.operation == Operation::shared_load; });
      read.erase(read.lower_bound(map.outbox_at), read.end());
      if (!plan.skips()) {
        REQUIRE(read == expected);
      }
    }
    const std::uint64_t state = 16 * static_cast<std::uint64_t>(map.state_words);
    for (const std::uint64_t later : {std::uint64_t{1}, std::uint64_t{1 + kEmptiedAhead}}) {
      for (std::uint64_t at = 0; at < state; at += 16) {
        REQUIRE(emitted[later * state + at] == 1);
      }
    }
    REQUIRE(emitted.size() == 2 * static_cast<std::size_t>(map.state_words));
  }
}

TEST_CASE("no shared address lies beyond the block's shared memory", "[fast]") {
  for (const Made& made : some_plans()) {
    const PlanTrace trace(made.layout);
    const auto bytes = static_cast<std::uint64_t>(shared_bytes(made.network, made.layout.plan));
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
  const PlanTrace trace(make(Cell::lstm, Precision::fp16, 200, 4, 0.2).layout);
  std::string file = compact_trace_header(trace.blocks());
  std::size_t accesses = 0;
  for (int sm = 0; sm < trace.blocks(); ++sm) {
    file += encode_block(trace.block(sm));
    for (const WarpTrace& warp : trace.block(sm).warps) {
      accesses += warp.addresses.size();
    }
  }
  REQUIRE(file.size() < 4 * accesses);  // compact: most addresses in two bytes, instructions in nine
  const auto source = parse_compact_trace(file, "t.trace");
  for (int sm = 0; sm < trace.blocks(); ++sm) {
    REQUIRE(source->block(sm) == trace.block(sm));
  }
}

TEST_CASE("a schedule has every instruction once, values before their users, barriers in place", "[fast]") {
  std::mt19937 random(9);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Instruction> block;
    for (auto i = random() % 120; i > 0; --i) {
      Instruction instruction;
      instruction.operation = static_cast<Operation>(random() % kOperationNames.size());
      instruction.destination = static_cast<std::uint8_t>(random() % 40);
      instruction.sources[0] = static_cast<std::uint8_t>(random() % 40);
      instruction.sources[1] = static_cast<std::uint8_t>(random() % 40);
      block.push_back(instruction);
    }
    CompilerView view;
    view.loads_ahead = 1 + static_cast<int>(random() % 12);
    view.window = 1 + static_cast<int>(random() % 100);
    const std::vector<std::uint32_t> order = list_schedule(block, view);
    REQUIRE(order.size() == block.size());
    std::vector<std::size_t> position(block.size(), block.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      REQUIRE(position[order[at]] == block.size());
      position[order[at]] = at;
    }
    std::map<int, std::size_t> writer;
    for (std::size_t i = 0; i < block.size(); ++i) {
      for (const std::uint8_t source : block[i].sources) {
        if (writer.contains(source)) {
          REQUIRE(position[writer.at(source)] < position[i]);
        }
      }
      writer[block[i].destination] = i;
      if (block[i].operation == Operation::barrier) {
        REQUIRE(std::all_of(position.begin(), position.begin() + static_cast<std::ptrdiff_t>(i),
                            [&](std::size_t p) { return p < position[i]; }));
      }
    }
  }
}
