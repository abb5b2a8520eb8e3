// SPDX-License-Identifier: Apache-2.0
// One SM, cycle by cycle: partitions of warps, each with a scheduler that issues one instruction per cycle, scoreboards
// and arithmetic pipes, the load/store unit with the banks of shared memory (banks.hpp), and barriers
// (block_barrier.hpp). Cycles in which nothing can issue are skipped. Instructions of a loop that is longer than a
// partition's instruction cache come to it one after another, at most kInstructionsAhead before the first warp needs
// them, slower still if the SM's does not hold the loop; they serve the other warps, too.
//
// Not modelled: other misses of the instruction caches, register banks, the L1 cache (a global load takes what L2
// takes), registers that are overwritten while an earlier instruction still reads them.
#pragma once

#include "model/chip/chip.hpp"
#include "model/chip/instructions.hpp"
#include "sim/machine/banks.hpp"
#include "sim/machine/published.hpp"
#include "sim/trace/trace.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace onchip {

// Every cycle has one cause: the first of these that is true of it.
enum class Cause : std::uint8_t {
  shared_memory,  // the load/store unit serves an access
  issue,          // some partition issues
  barrier,        // all warps wait at barriers
  scoreboard,     // warps wait for results, for pipes, or for instructions
};
inline constexpr std::array<std::string_view, 4> kCauseNames{"shared_memory", "issue", "barrier", "scoreboard"};
using Causes = std::array<double, kCauseNames.size()>;  // cycles, by Cause

// Of a stream buffer that prefetches: 16 lines (Huerta et al., "Analyzing Modern NVIDIA GPU cores", 2025), of 128
// bytes.
inline constexpr int kInstructionsAhead = 16 * 128 / kInstructionBytes;

// In which order a partition's scheduler looks at its warps. Warp w of a block belongs to partition w mod partitions.
// NVIDIA's since Turing are greedy, then take the youngest: R. Huerta, M. Abaie Shoushtary, J.-L. Cruz, A. Gonzalez,
// "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, 2025. Warps of a block are the younger the higher their
// number.
enum class Scheduling : std::uint8_t {
  greedy_then_youngest,  // the warp that issued last while it can, then the highest number
  greedy_then_oldest,    // the same, then the lowest number
  round_robin,           // the warp after the one that issued last
};
inline constexpr std::array<std::string_view, 3> kSchedulingNames{"greedy_then_youngest", "greedy_then_oldest",
                                                                  "round_robin"};

struct SmOptions {
  Scheduling scheduling = Scheduling::greedy_then_youngest;
  // Parts of the model that can be left out, to see what each is worth.
  bool banks = true;                          // else: no access has a conflict
  bool issue = true;                          // else: schedulers issue without limit and pipes take no time
  bool scoreboard = true;                     // else: results are there at once
  bool fetch = true;                          // else: instructions are there at once
  bool heat = false;                          // count the words that each bank delivers
  bool events = false;                        // record every issue
  std::span<const Published> published = {};  // words that other SMs store as this one does
  double l2_line_cycles = 0;  // of the load/store unit, for a line of L2 or a part of it; 0: a wavefront's
};

// What the load/store unit takes for a line of L2 where states are exchanged through registers: as long for a part of
// the line as for all of it, which comes at the rate at which SMs copy.
inline double l2_line_cycles(const Chip& chip) {
  constexpr double kLineBytes = 128;
  return kLineBytes / chip.exchange_bytes_per_cycle_per_sm;
}

struct IssueEvent {
  std::int64_t cycle = 0;
  std::int32_t warp = 0;  // of all blocks, one block's after another's
  std::uint32_t instruction = 0;
};

struct SmRun {
  std::int64_t cycles = 0;                                    // until the last result
  Causes causes{};                                            // they sum to the cycles
  std::array<std::int64_t, kOperationNames.size()> issued{};  // by Operation
  std::vector<BankCost> warp_loads, warp_stores;              // of shared memory, [warps]
  std::vector<std::int64_t> heat;                             // [banks] words delivered
  std::vector<std::int64_t> warp_end;                         // [warps]: cycle after the last issue
  std::vector<IssueEvent> global_stores;                      // in order of issue
  std::vector<IssueEvent> events;
  std::int64_t polls_in_vain = 0;  // loads of published words that had to be repeated

  BankCost loads() const;
  BankCost stores() const;

  // What another run of the same warps took, after this one. The events stay those of this run.
  SmRun& operator+=(const SmRun& after);
};

// Calls of(address, cycle) for each address of the global stores.
template <typename Of>
void for_each_stored(const BlockTrace& block, const SmRun& run, Of&& of) {
  for (const IssueEvent& store : run.global_stores) {
    const WarpTrace& warp = block.warps[store.warp];
    for (const std::uint64_t address : warp.addresses_of(warp.instructions[store.instruction])) {
      of(address, static_cast<double>(store.cycle));
    }
  }
}

// An instruction that accesses shared memory, for the banks.
SharedAccess shared_access(const WarpTrace& warp, const Instruction& instruction);

// The blocks start together at cycle 0; warp w of all belongs to partition w mod partitions. Throws InputError for
// banks that cannot be counted, see bank_geometry.
SmRun run_sm(const Chip& chip, std::span<const BlockTrace> blocks, const SmOptions& options = {});

// `resident` of the blocks start together; where one ends the next begins, and takes its warps' places.
using BlockSupply = std::function<std::shared_ptr<const BlockTrace>(int index)>;
SmRun run_sm(const Chip& chip, int blocks, int resident, const BlockSupply& block, const SmOptions& options);

}  // namespace onchip
