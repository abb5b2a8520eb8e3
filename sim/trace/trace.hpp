// SPDX-License-Identifier: Apache-2.0
// Instruction and address streams: what a simulation replays. A stream comes from a plan's layout
// (sim/sparse/plan_trace.hpp), from a file (sim/trace/compact_trace.hpp, sim/trace/accel_sim_trace.hpp), or from
// whatever else implements TraceSource.
#pragma once

#include "model/chip/occupancy.hpp"
#include "sim/trace/step_shape.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace onchip {

// What an instruction occupies, and how long it takes: one row per class in sim/machine/sm.cpp.
enum class Operation : std::uint8_t {
  integer,
  half2,
  conversion,
  fp32,
  special,
  tensor,
  shuffle,
  shared_load,
  shared_store,
  global_load,
  global_store,
  async_copy,     // from global to shared memory, its address the one there; its destination: that it is complete
  barrier,        // of the block
  other,          // issues, and that is all: moves of special registers, ...
  branch,         // also where lanes come together again: nothing of the warp issues until it is taken
  matrix_load,    // of shared memory: the active lanes point at rows of 16 bytes, 8 lanes a matrix (LDSM)
  shared_atomic,  // ATOMS
};
inline constexpr std::array<std::string_view, 17> kOperationNames{
    "integer", "half2",       "conversion",   "fp32",        "special",      "tensor",
    "shuffle", "shared_load", "shared_store", "global_load", "global_store", "async_copy",
    "barrier", "other",       "branch",       "matrix_load", "shared_atomic"};
constexpr std::string_view name(Operation operation) {
  return kOperationNames[static_cast<int>(operation)];
}
// Addresses of them lie in shared memory; of an asynchronous copy those that it writes.
constexpr bool is_shared_access(Operation operation) {
  return operation == Operation::shared_load || operation == Operation::shared_store ||
         operation == Operation::async_copy || operation == Operation::matrix_load ||
         operation == Operation::shared_atomic;
}
constexpr bool has_addresses(Operation operation) {
  return is_shared_access(operation) || operation == Operation::global_load || operation == Operation::global_store;
}

// Registers of a warp's lanes are numbered from 0 to 254, those of the warp as a whole from 256 on.
using Register = std::uint16_t;
inline constexpr Register kNoRegister = 255;
inline constexpr int kRegisters = 512;

struct Instruction {
  Operation operation = Operation::other;
  std::uint8_t width = 4;  // bytes per lane, if it has addresses: 1, 2, 4, 8 or 16
  Register destination = kNoRegister;
  std::array<Register, 4> sources{kNoRegister, kNoRegister, kNoRegister, kNoRegister};
  std::uint32_t mask = ~0u;         // active lanes
  std::uint32_t first_address = 0;  // of as many as there are active lanes, if it has any
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

// Words of 4 bytes that come to each lane, or go from it; each is a register.
constexpr int words_of_a_lane(const Instruction& instruction) {
  const bool wide = instruction.width > 4 && has_addresses(instruction.operation);
  return instruction.operation == Operation::matrix_load ? std::max(1, std::popcount(instruction.mask) / 8)
         : wide                                          ? instruction.width / 4
                                                         : 1;
}

struct WarpTrace {
  std::vector<Instruction> instructions;
  std::vector<std::uint64_t> addresses;  // bytes; shared memory: from the block's first
  std::vector<std::uint64_t> clocks;     // of each instruction, if they were captured; else empty

  // An instruction with one address per active lane, lowest lane first; none if it has no addresses.
  void add(Instruction instruction, std::span<const std::uint64_t> lane_addresses = {}) {
    assert(lane_addresses.size() ==
           (has_addresses(instruction.operation) ? static_cast<std::size_t>(std::popcount(instruction.mask)) : 0));
    instruction.first_address = static_cast<std::uint32_t>(addresses.size());
    addresses.insert(addresses.end(), lane_addresses.begin(), lane_addresses.end());
    instructions.push_back(instruction);
  }
  std::span<const std::uint64_t> addresses_of(const Instruction& instruction) const {
    if (!has_addresses(instruction.operation)) {
      return {};
    }
    return std::span(addresses).subspan(instruction.first_address,
                                        static_cast<std::size_t>(std::popcount(instruction.mask)));
  }
  friend bool operator==(const WarpTrace&, const WarpTrace&) = default;
};

struct BlockTrace {
  std::vector<WarpTrace> warps;
  double loop_instructions = 0;  // of the loops in which the warps go round, if the trace is one round of them
  friend bool operator==(const BlockTrace&, const BlockTrace&) = default;
};

// The most that a file of a trace may ask for.
inline constexpr int kMostBlocks = 1 << 20, kMostWarps = 64;               // of a kernel, of a block
inline constexpr std::uint64_t kMostSharedBytes = std::uint64_t{1} << 28;  // as many as the bank model takes

// What a user plugs in. Blocks run side by side on as many SMs as there are, on each as many as fit together by their
// resources, or one if those are not known; the others follow as these end.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  virtual int blocks() const = 0;
  virtual std::optional<BlockResources> resources() const { return std::nullopt; }
  // May be called by several threads at once. Throws InputError.
  virtual BlockTrace block(int index) const = 0;

  // Of a source that is one step of a plan, block by SM: how the SMs exchange the state, and what each does in one pass
  // from when it has its part of the state. Null: blocks that know nothing of one another.
  virtual const StepShape* step() const { return nullptr; }
  virtual BlockTrace body(int index, [[maybe_unused]] int pass = 0) const { return block(index); }
};

}  // namespace onchip
