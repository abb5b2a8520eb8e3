// SPDX-License-Identifier: Apache-2.0
// Executes PTX: what a kernel computes, not how long it takes. For machines without a GPU.
//
//   memory     One thing after another, in one order for all. The weaker orders of a GPU are not tried out, so a fence
//              too few is not found. Asynchronous copies land when they are waited for, not before; until then whoever
//              reads there gets NaN. Nothing is zero by itself: registers begin as garbage.
//   warps      Lanes that part are executed one after another, the smallest place in the program first, so that they
//   meet again;
//              warps round-robin, some hundred instructions each. The same order in every run.
//   faults     An access outside the registered memory or not aligned, a read of shared memory that nothing has
//              written, a barrier that not all lanes of a warp come to, lanes that a warp-wide instruction names in
//              vain, threads that all wait, more instructions than allowed: one Fault each, with line, block, thread.
//   counts     Wavefronts of shared memory, by the rules of sim/machine/banks.hpp. ptxas may make one access of several
//              loads or stores of PTX; of matrices, atomics and copies it does not.
//   numbers    See numerics.hpp; products of matrices: warp_instructions.cpp.
#pragma once

#include "sim/machine/banks.hpp"
#include "sim/ptx/module.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace onchip::ptx {

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Launch {
  int blocks = 1, threads = 32;
  std::size_t dynamic_shared_bytes = 0;
  bool cooperative = false;  // all blocks at once; otherwise one after another, of a cluster all
  std::span<const std::byte> parameters;
  u64 most_instructions = u64{1} << 40;    // of warps
  std::optional<BankGeometry> banks = {};  // accesses to memory are counted, too
};

// Of shared memory, by warps.
struct AccessCounts {
  u64 instructions = 0, wavefronts = 0;
  u64 ideal = 0;  // wavefronts without conflicts
};

struct Counts {
  u64 warp_instructions = 0, lane_instructions = 0, clock_reads = 0;
  std::array<AccessCounts, kAccesses> shared = {};
  u64 global_bytes = 0;  // that are loaded, in sectors of 32 bytes

  const AccessCounts& of(Access access) const { return shared[static_cast<std::size_t>(access)]; }
};

// Host memory that kernels may use. An address of global memory is the host's.
class GlobalMemory {
 public:
  void add(std::span<std::byte> bytes) { insert(bytes, true); }
  void add(std::span<const std::byte> bytes) { insert(bytes, false); }  // read only
  void remove(const void* begin);
  // Null if not all of it lies in one range, or it is to be written and must not be.
  std::byte* find(u64 address, std::size_t bytes, bool writes) const;

 private:
  struct Range {
    u64 begin, end;
    bool writable;
  };
  void insert(std::span<const std::byte> bytes, bool writable);
  std::vector<Range> ranges_;
  mutable std::size_t last_ = 0;
};

class Machine {
 public:
  explicit Machine(Module module);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  GlobalMemory& memory() { return memory_; }
  std::size_t parameter_bytes(std::string_view kernel) const { return find(kernel).parameter_bytes; }
  // Throws InputError for an unknown kernel or a launch that it does not allow, Fault for what goes wrong.
  Counts launch(std::string_view kernel, const Launch& launch);

 private:
  const Kernel& find(std::string_view kernel) const;
  Module module_;
  GlobalMemory memory_;
};

}  // namespace onchip::ptx
