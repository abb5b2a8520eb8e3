// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/plan_trace.hpp"
#include "sim/sparse/gather_trace.hpp"

#include "sim/machine/trace_run.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/trace/compact_trace.hpp"
#include "tests/catch.hpp"
#include "tests/sim/plans.hpp"

#include <algorithm>
#include <map>
#include <set>

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

// The place in the state that a lane's slot reads. Dense weights say none: what lies behind the state is all zeros.
std::uint64_t read_unit(const SparseLayout& layout, std::size_t warp_row, int slot, int lane) {
  const SparseGeometry& geometry = layout.geometry;
  const auto thread = static_cast<int>(warp_row % static_cast<std::size_t>(geometry.warps())) * 32 + lane;
  return static_cast<std::uint64_t>(geometry.storage == Storage::dense
                                        ? slot * geometry.lanes_per_row + geometry.group_lane_of(thread).lane
                                        : layout.place[layout.entry(warp_row, slot, lane)]);
}

// What a warp reads of the overflow table and of chunks, in order of issue: addresses of the first lane, and widths.
struct OverflowReads {
  std::map<std::uint64_t, int> table;  // how often
  std::vector<std::uint64_t> shared;   // chunks, by where they begin
  std::vector<std::uint64_t> ring, copied;
};

OverflowReads overflow_reads(const WarpTrace& warp, const SparseGeometry& geometry) {
  OverflowReads reads;
  const int loads_of_chunk = geometry.chunk_words % 2 ? geometry.chunk_words : 1;
  const int width = geometry.chunk_words % 2 ? 4 : 4 * geometry.chunk_words;
  std::map<std::uint64_t, int> parts;  // of chunks that are not complete
  for (const Instruction& instruction : warp.instructions) {
    const auto at = warp.addresses_of(instruction);
    if (instruction.operation == Operation::async_copy && at.front() >= begin_of(geometry, SparseRegion::ring)) {
      REQUIRE(instruction.width == 16);
      REQUIRE(at.size() == static_cast<std::size_t>(geometry.chunk_bytes / 16));
      REQUIRE(at.back() == at.front() + static_cast<std::uint64_t>(geometry.chunk_bytes - 16));
      reads.copied.push_back(at.front());
    } else if (instruction.operation == Operation::shared_load &&
               at.front() >= begin_of(geometry, SparseRegion::overflow)) {
      if (at.front() < begin_of(geometry, SparseRegion::chunks)) {
        REQUIRE(std::set<std::uint64_t>(at.begin(), at.end()).size() == 1);
        ++reads.table[at.front()];
        continue;
      }
      REQUIRE(instruction.width == width);
      for (std::size_t lane = 0; lane < 32; ++lane) {
        REQUIRE(at[lane] == at[0] + lane * static_cast<std::uint64_t>(width));
      }
      const std::uint64_t first =
          begin_of(geometry, SparseRegion::chunks) + (at.front() - begin_of(geometry, SparseRegion::chunks)) /
                                                         static_cast<std::uint64_t>(geometry.chunk_bytes) *
                                                         static_cast<std::uint64_t>(geometry.chunk_bytes);
      if (++parts[first] == loads_of_chunk) {
        parts.erase(first);
        (first < begin_of(geometry, SparseRegion::ring) ? reads.shared : reads.ring).push_back(first);
      }
    }
  }
  REQUIRE(parts.empty());
  return reads;
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

TEST_CASE("a step reads every slot, stages every word once and publishes every word once", "[fast]") {
  for (const Made& made : some_plans()) {
    const SparsePlan& plan = made.layout.geometry;
    CAPTURE(plan_text(plan));
    const PlanTrace trace(made.layout);
    const SparseGeometry& geometry = trace.geometry();
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
      std::map<std::uint64_t, int> expected;
      for (std::size_t i = made.layout.warp_row(sm, 0, 0); i < made.layout.warp_row(sm + 1, 0, 0); ++i) {
        for (int slot = 0; slot < made.layout.slots(i); ++slot) {
          for (int lane = 0; lane < 32; ++lane) {
            for (int plane = 0; plane < geometry.planes; ++plane) {
              ++expected[static_cast<std::uint64_t>(plane * trace.state().plane_bytes) +
                         read_unit(made.layout, i, slot, lane) * static_cast<std::uint64_t>(geometry.plane_unit_bytes)];
            }
          }
        }
      }
      auto read = addresses(trace, sm, [&](const Instruction& i) { return i.operation == Operation::shared_load; });
      read.erase(read.lower_bound(begin_of(geometry, SparseRegion::outbox)), read.end());
      REQUIRE(read == expected);
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

TEST_CASE("every chunk that encode() puts in a warp's list is loaded, in its order and from where it is", "[fast]") {
  bool streams = false;
  for (const Made& made : plans_with_overflow()) {
    const SparsePlan& plan = made.layout.geometry;
    REQUIRE(plan.has_overflow());
    CAPTURE(describe(made.network), plan_text(plan));
    const PlanTrace trace(made.layout);
    const SparseGeometry& geometry = trace.geometry();
    const std::vector<std::int32_t> table_words = encode(made.layout).overflow;
    const std::size_t of_sm =
        static_cast<std::size_t>(plan.rows_per_group + 3) * static_cast<std::size_t>(plan.warps());
    const int passes = geometry.passes / trace.bodies();  // of a body
    for (int body = 0; body < trace.blocks() * trace.bodies(); ++body) {
      const int sm = body / trace.bodies();
      const BlockTrace block = trace.body(sm, body % trace.bodies());
      for (int warp = 0; warp < plan.warps(); ++warp) {
        const auto entry = [&](int r) {
          return table_words[static_cast<std::size_t>(sm) * of_sm + static_cast<std::size_t>(r * plan.warps() + warp)];
        };
        const OverflowReads reads = overflow_reads(block.warps[static_cast<std::size_t>(warp)], geometry);
        std::map<std::uint64_t, int> table;
        for (int r = 0; r <= plan.rows_per_group; ++r) {
          table[begin_of(geometry, SparseRegion::overflow) + 4 * static_cast<std::uint64_t>(r * plan.warps() + warp)] =
              r < plan.rows_per_group ? passes : 1;
        }
        REQUIRE(reads.table == table);
        std::vector<std::uint64_t> shared;
        auto begin = static_cast<std::uint64_t>(entry(plan.rows_per_group));
        for (int tile = 0; tile < geometry.tiles; ++tile) {
          std::uint64_t at = begin;
          for (int pass = 0; pass < passes; ++pass) {
            at = begin;
            for (int r = tile * geometry.tile_height;
                 r < std::min(plan.rows_per_group, (tile + 1) * geometry.tile_height); ++r) {
              for (int i = 0; i < (entry(r) & 0xffff); ++i, at += static_cast<std::uint64_t>(geometry.chunk_bytes)) {
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
            return begin_of(geometry, SparseRegion::ring) +
                   static_cast<std::uint64_t>((warp * plan.ring_chunks + chunk % plan.ring_chunks) *
                                              geometry.chunk_bytes);
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

TEST_CASE("every element of the next state is put in the outbox once, by the unit's own lanes", "[fast]") {
  for (const Made& made : some_plans()) {
    const SparseLayout& layout = made.layout;
    CAPTURE(describe(made.network), plan_text(plan_of(made)));
    const PlanTrace trace(layout);
    const SparseGeometry& geometry = trace.geometry();
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      std::map<std::uint64_t, int> stored;
      for (int pass = 0; pass < trace.bodies(); ++pass) {
        for (const WarpTrace& warp : trace.body(sm, pass).warps) {
          for (const Instruction& instruction : warp.instructions) {
            for (const std::uint64_t at : warp.addresses_of(instruction)) {
              stored[at] += instruction.operation == Operation::shared_store &&
                            at >= begin_of(geometry, SparseRegion::outbox) &&
                            at < begin_of(geometry, SparseRegion::input);
            }
          }
        }
      }
      for (const std::int32_t place : layout.order) {
        for (int sample = 0; place / geometry.units_per_sm == sm && sample < layout.geometry.batch_padded; ++sample) {
          const std::int64_t index = trace.state().outbox_index(place % geometry.units_per_sm, sample);
          REQUIRE(stored[begin_of(geometry, SparseRegion::outbox) +
                         static_cast<std::uint64_t>(index * info(made.network.precision).bytes)] == 1);
        }
      }
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
