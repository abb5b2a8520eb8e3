// SPDX-License-Identifier: Apache-2.0
// A PTX text (PTX ISA 9.0), decoded: every instruction as a function over the lanes of a warp and the places of its
// operands in the warp's registers. Calls are expanded where they stand.
//
// A warp's registers are bytes; a register is 32 lanes of its 2, 4, 8 or 16 bytes one after another, a predicate one
// bit for each lane in 4 bytes. Immediate operands, addresses of variables and special registers are registers too,
// filled when the warp begins.
#pragma once

#include "sim/ptx/numerics.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace onchip::ptx {

inline constexpr int kLanes = 32;

struct Warp;
struct Instruction;
using Execute = void (*)(Warp& warp, const Instruction& instruction, u32 lanes);

// How an instruction accesses memory: with which lanes, and what they share (sim/machine/banks.hpp).
enum class Access : std::uint8_t { none, load, store, atomic, copy, matrix_load, matrix_store };
inline constexpr int kAccesses = 7;

enum class Space : std::uint8_t { generic, global, shared, cluster, local, param };  // cluster: shared, of any block

// What an instruction means for the order of execution. `warp_sync` waits for the lanes that its last operand names.
enum class Flow : std::uint8_t {
  plain,
  branch,
  exit,
  warp_sync,
  block_barrier,
  block_any,  // a barrier that tells whether a predicate holds for any thread
  block_arrive,
  cluster_arrive,
  cluster_wait
};

// What an instruction does.
struct Effect {
  Execute execute = nullptr;
  Flow flow = Flow::plain;
  Space space = Space::generic;
  std::uint8_t bytes = 0, count = 0;  // of each element in memory, and how many
  std::uint8_t register_bytes = 0;    // of a lane's register for one
  Access access = Access::none;
  bool is_signed = false, polls = false;  // polls: reads what another thread may be about to write
  bool needs_warp = false;                // warp_sync: waits for all lanes
};

struct Instruction : Effect {
  std::array<u32, 18> at{};  // bytes in the warp's registers, of each operand in order; of an address, of its base
  std::array<std::int64_t, 3> offset{};  // of the first, second and third address
  std::array<bool, 3> wide{};            // whether their bases have 64 bits
  u32 guard = 0;                         // place of the predicate
  u32 guard_flip = 0;                    // all ones: lanes whose predicate is false
  u32 target = 0;                        // of a branch
  u32 line = 0, name = 0;                // in the text; of the opcode in Kernel::names
  std::uint8_t operands = 0;
  std::uint8_t address = 0;  // operand: the first address
};

// Special registers of 32 bits; special_value() of machine.cpp has their values in this order.
inline constexpr std::array<std::string_view, 24> kSpecials{
    "%tid.x",       "%ntid.x",          "%ctaid.x",         "%nctaid.x",         "%laneid",
    "%warpid",      "%cluster_ctarank", "%cluster_ctaid.x", "%cluster_nctarank", "%cluster_nctaid.x",
    "%clusterid.x", "%lanemask_eq",     "%lanemask_lt",     "%lanemask_le",      "%lanemask_gt",
    "%lanemask_ge", "%ntid.y",          "%ntid.z",          "%nctaid.y",         "%nctaid.z",
    "%tid.y",       "%tid.z",           "%ctaid.y",         "%ctaid.z"};

// What a register is filled with: the same in every lane, or a special register.
struct Filling {
  enum class What : std::uint8_t { value, global_address, special };
  u32 at = 0;
  std::uint8_t bytes = 4;
  What what = What::value;
  u64 value = 0;  // of a global address: bytes in the module's variables; of a special register: which
};

struct Kernel {
  std::vector<Instruction> code;
  std::vector<std::string> names;  // of opcodes
  std::vector<Filling> fillings;
  std::size_t register_bytes = 0;  // of a warp
  std::size_t parameter_bytes = 0;
  std::size_t shared_bytes = 0;  // static
  std::size_t local_bytes = 0;   // of a thread
  int most_threads = 1024;       // of a block
  int cluster = 1;               // blocks
};

struct Module {
  std::string name;  // of the text, for messages
  std::map<std::string, Kernel, std::less<>> kernels;
  std::vector<std::byte> variables;  // in global memory, as they are before the first launch
};

// Shared memory begins here, so that 0 is no address of it; see shared_place in machine.hpp for those of a cluster.
inline constexpr u32 kSharedBegin = 1024;
// Added to addresses in shared and local memory by cvta.
inline constexpr u64 kSharedWindow = u64{1} << 56, kLocalWindow = u64{1} << 57;

// Throws InputError with file, line and column for what is not PTX or not among the instructions of instructions.cpp.
Module parse(std::string_view text, const std::string& name);

}  // namespace onchip::ptx
