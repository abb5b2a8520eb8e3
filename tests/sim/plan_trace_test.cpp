// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/plan_trace.hpp"
#include "sim/sparse/gather_trace.hpp"

#include "sim/trace/compact_trace.hpp"
#include "sim/machine/list_schedule.hpp"
#include "sim/trace/trace_run.hpp"
#include "sim/sparse/warp_writer.hpp"
#include "tests/catch.hpp"
#include "tests/sim/plans.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace onchip;

namespace {

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

// The place in the state that a lane's slot reads. Dense weights say none: what lies behind the state is all zeros.
std::uint64_t read_unit(const Layout& layout, std::size_t warp_row, int slot, int lane) {
  const Plan& plan = layout.plan;
  const auto thread = static_cast<int>(warp_row % static_cast<std::size_t>(plan.warps())) * 32 + lane;
  return static_cast<std::uint64_t>(plan.storage == Storage::dense
                                        ? slot * plan.lanes_per_row + group_lane_of(layout.network, plan, thread).lane
                                        : layout.place[layout.entry(warp_row, slot, lane)]);
}

// What a warp reads of the tails table and of chunks, in order of issue: addresses of the first lane, and widths.
struct TailReads {
  std::map<std::uint64_t, int> table;  // how often
  std::vector<std::uint64_t> shared;   // chunks, by where they begin
  std::vector<std::uint64_t> ring, copied;
};

TailReads tail_reads(const WarpTrace& warp, const KernelMap& map) {
  TailReads reads;
  const int loads_of_chunk = map.chunk_words % 2 ? map.chunk_words : 1;
  const int width = map.chunk_words % 2 ? 4 : 4 * map.chunk_words;
  std::map<std::uint64_t, int> parts;  // of chunks that are not complete
  for (const Instruction& instruction : warp.instructions) {
    const auto at = warp.addresses_of(instruction);
    if (instruction.operation == Operation::async_copy && at.front() >= map.ring_at) {
      REQUIRE(instruction.width == 16);
      REQUIRE(at.size() == static_cast<std::size_t>(map.chunk_bytes / 16));
      REQUIRE(at.back() == at.front() + static_cast<std::uint64_t>(map.chunk_bytes - 16));
      reads.copied.push_back(at.front());
    } else if (instruction.operation == Operation::shared_load && at.front() >= map.tails_at) {
      if (at.front() < map.chunks_at) {
        REQUIRE(std::set<std::uint64_t>(at.begin(), at.end()).size() == 1);
        ++reads.table[at.front()];
        continue;
      }
      REQUIRE(instruction.width == width);
      for (std::size_t lane = 0; lane < 32; ++lane) {
        REQUIRE(at[lane] == at[0] + lane * static_cast<std::uint64_t>(width));
      }
      const std::uint64_t first = map.chunks_at + (at.front() - map.chunks_at) /
                                                      static_cast<std::uint64_t>(map.chunk_bytes) *
                                                      static_cast<std::uint64_t>(map.chunk_bytes);
      if (++parts[first] == loads_of_chunk) {
        parts.erase(first);
        (first < map.ring_at ? reads.shared : reads.ring).push_back(first);
      }
    }
  }
  REQUIRE(parts.empty());
  return reads;
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
      for (std::size_t i = made.layout.warp_row(sm, 0, 0); i < made.layout.warp_row(sm + 1, 0, 0); ++i) {
        for (int slot = 0; slot < made.layout.slots(i); ++slot) {
          for (int lane = 0; lane < 32; ++lane) {
            for (int plane = 0; plane < map.planes; ++plane) {
              ++expected[static_cast<std::uint64_t>(plane) * map.plane_bytes +
                         read_unit(made.layout, i, slot, lane) * static_cast<std::uint64_t>(map.plane_unit_bytes)];
            }
          }
        }
      }
      auto read = addresses(trace, sm, [&](const Instruction& i) { return i.operation == Operation::shared_load; });
      read.erase(read.lower_bound(map.outbox_at), read.end());
      REQUIRE(read == expected);
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

TEST_CASE("every chunk that encode() puts in a warp's list is loaded, in its order and from where it is", "[fast]") {
  bool streams = false;
  for (const Made& made : plans_with_tails()) {
    const Plan& plan = made.layout.plan;
    REQUIRE(plan.has_tail());
    CAPTURE(describe(made.network), to_string(plan));
    const PlanTrace trace(made.layout);
    const KernelMap& map = trace.map();
    const std::vector<std::int32_t> tails = encode(made.layout).tails;
    const std::size_t of_sm =
        static_cast<std::size_t>(plan.rows_per_group + 3) * static_cast<std::size_t>(plan.warps());
    const int passes = map.passes / trace.turns();  // of a body
    for (int body = 0; body < trace.blocks() * trace.turns(); ++body) {
      const int sm = body / trace.turns();
      const BlockTrace block = trace.body(sm, body % trace.turns());
      for (int warp = 0; warp < plan.warps(); ++warp) {
        const auto entry = [&](int r) {
          return tails[static_cast<std::size_t>(sm) * of_sm + static_cast<std::size_t>(r * plan.warps() + warp)];
        };
        const TailReads reads = tail_reads(block.warps[static_cast<std::size_t>(warp)], map);
        std::map<std::uint64_t, int> table;
        for (int r = 0; r <= plan.rows_per_group; ++r) {
          table[map.tails_at + 4 * static_cast<std::uint64_t>(r * plan.warps() + warp)] =
              r < plan.rows_per_group ? passes : 1;
        }
        REQUIRE(reads.table == table);
        std::vector<std::uint64_t> shared;
        auto begin = static_cast<std::uint64_t>(entry(plan.rows_per_group));
        for (int tile = 0; tile < map.tiles; ++tile) {
          std::uint64_t at = begin;
          for (int pass = 0; pass < passes; ++pass) {
            at = begin;
            for (int r = tile * map.tile_height; r < std::min(plan.rows_per_group, (tile + 1) * map.tile_height); ++r) {
              for (int i = 0; i < (entry(r) & 0xffff); ++i, at += static_cast<std::uint64_t>(map.chunk_bytes)) {
                shared.push_back(at);
              }
            }
          }
          begin = at;
        }
        REQUIRE(reads.shared == shared);
        // The ring goes round: what is used next, and ring_chunks - 1 further on what is asked for then.
        const int streamed = entry(plan.rows_per_group + 2);
        REQUIRE(reads.ring.size() == static_cast<std::size_t>(streamed));
        REQUIRE(reads.copied.size() == static_cast<std::size_t>(streamed));
        for (int i = 0; i < streamed; ++i) {
          const auto place = [&](int of_step) {
            const int chunk = kTracedStep * streamed + of_step;
            return map.ring_at +
                   static_cast<std::uint64_t>((warp * plan.ring_chunks + chunk % plan.ring_chunks) * map.chunk_bytes);
          };
          REQUIRE(reads.ring[static_cast<std::size_t>(i)] == place(i));
          REQUIRE(reads.copied[static_cast<std::size_t>(i)] == place(i + plan.ring_chunks - 1));
        }
        streams = streams || streamed > 0;
      }
    }
  }
  REQUIRE(streams);
}

TEST_CASE("a streamed chunk is waited for if it was asked for in the same step", "[fast]") {
  for (const Made& made : plans_with_tails()) {
    const PlanTrace trace(made.layout);
    const int ahead = made.layout.plan.ring_chunks - 1;
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

TEST_CASE("the kernel's shared memory is as long as the plan says", "[fast]") {
  for (const Made& made : some_plans()) {
    CAPTURE(describe(made.network), to_string(made.layout.plan));
    const KernelMap map(made.network, made.layout.plan);
    REQUIRE(map.end == static_cast<std::uint64_t>(shared_bytes(made.network, made.layout.plan)));
    REQUIRE(map.chunks_at == static_cast<std::uint64_t>(state_bytes(made.network, made.layout.plan)));
  }
}

TEST_CASE("every element of the next state is put in the outbox once, by the unit's own lanes", "[fast]") {
  for (const Made& made : some_plans()) {
    const Layout& layout = made.layout;
    CAPTURE(describe(made.network), to_string(layout.plan));
    const PlanTrace trace(layout);
    const KernelMap& map = trace.map();
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      std::map<std::uint64_t, int> stored;
      for (int turn = 0; turn < trace.turns(); ++turn) {
        for (const WarpTrace& warp : trace.body(sm, turn).warps) {
          for (const Instruction& instruction : warp.instructions) {
            for (const std::uint64_t at : warp.addresses_of(instruction)) {
              stored[at] +=
                  instruction.operation == Operation::shared_store && at >= map.outbox_at && at < map.input_at;
            }
          }
        }
      }
      for (const std::int32_t place : layout.order) {
        for (int sample = 0; place / map.units_per_sm == sm && sample < layout.plan.batch_padded; ++sample) {
          const std::int64_t index = map.outbox_index(place % map.units_per_sm, sample);
          REQUIRE(stored[map.outbox_at + static_cast<std::uint64_t>(index * map.element_bytes)] == 1);
        }
      }
    }
  }
}

TEST_CASE("the turns of a step access what a whole step does, each its share of the state", "[fast]") {
  int with_turns = 0;
  for (const Made& made : some_plans()) {
    const PlanTrace trace(made.layout);
    if (made.layout.plan.exchange_warps == 0) {
      REQUIRE(trace.turns() == 1);
      continue;
    }
    ++with_turns;
    CAPTURE(to_string(made.layout.plan));
    REQUIRE(trace.turns() > 1);
    REQUIRE(trace.turn_words() * trace.turns() == trace.map().state_words);
    const auto add = [](std::map<std::pair<Operation, std::uint64_t>, int>& to, const BlockTrace& block) {
      for (const WarpTrace& warp : block.warps) {
        for (const Instruction& instruction : warp.instructions) {
          for (const std::uint64_t address : warp.addresses_of(instruction)) {
            ++to[{instruction.operation, address}];
          }
        }
      }
    };
    std::map<std::pair<Operation, std::uint64_t>, int> whole, turns;
    // A whole step hands out what it has computed, too.
    BlockTrace block = trace.block(1);
    REQUIRE(block.warps.size() == static_cast<std::size_t>(made.layout.plan.block_threads() / 32));
    block.warps.pop_back();
    add(whole, block);
    for (int turn = 0; turn < trace.turns(); ++turn) {
      add(turns, trace.body(1, turn));
    }
    REQUIRE(turns == whole);
  }
  REQUIRE(with_turns > 3);
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
  const PlanTrace trace(make(Cell::lstm, Precision::fp16, 400, 4, 0.2).layout);
  std::string file = compact_trace_header(trace.blocks());
  std::size_t addresses = 0, instructions = 0;
  for (int sm = 0; sm < trace.blocks(); ++sm) {
    file += encode_block(trace.block(sm));
    for (const WarpTrace& warp : trace.block(sm).warps) {
      addresses += warp.addresses.size();
      instructions += warp.instructions.size();
    }
  }
  CAPTURE(file.size(), addresses, instructions);
  REQUIRE(file.size() <
          2 * addresses + 10 * instructions);  // compact: most addresses in two bytes, instructions in nine
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
    view.addresses_first = static_cast<int>(random() % 16);
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

TEST_CASE("the addresses that a schedule has first come before its first load, as far as there are any", "[fast]") {
  std::vector<Instruction> block;
  constexpr int kLoads = 9;
  for (int i = 0; i < kLoads; ++i) {  // an address, and the load from there
    Instruction address, load;
    address.operation = Operation::integer;
    address.destination = static_cast<std::uint8_t>(2 * i);
    load.operation = Operation::shared_load;
    load.sources[0] = address.destination;
    load.destination = static_cast<std::uint8_t>(2 * i + 1);
    block.push_back(address);
    block.push_back(load);
  }
  for (const int first : {0, 1, 5, kLoads, kLoads + 3}) {
    const std::vector<std::uint32_t> order = list_schedule(block, {.addresses_first = first});
    const auto load =
        std::ranges::find_if(order, [&](std::uint32_t i) { return block[i].operation == Operation::shared_load; });
    REQUIRE(load - order.begin() >= std::min(first, kLoads));
    REQUIRE((first < kLoads || load - order.begin() == kLoads));
  }
}
