// SPDX-License-Identifier: Apache-2.0
// One warp's instructions as they are generated: straight lines of code, each in the order in which the compiler would
// issue it (list_schedule) once it ends.
//
// Registers stand for what they hold: only dependences matter, not their numbers.
//   0 ... 95     the fp32 sums
//   96 ... 235   everything else, in turn
//   236 ... 251  copies from L2 that are under way, four registers (16 bytes) each
//   256 ... 511  what is kept from one line to later ones (sim/training/simulate_recurrence.cpp)
#pragma once

#include "model/banks/bank_rule.hpp"
#include "model/sparse/plan.hpp"
#include "sim/machine/list_schedule.hpp"
#include "sim/trace/trace.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace onchip {

inline constexpr int kLoopInstructions = 8;  // of the loop over the steps, at its end
inline constexpr int kSumRegisters = 96, kTemporaries = 140;
inline constexpr int kFirstCopyRegister = kSumRegisters + kTemporaries;
static_assert(kFirstCopyRegister + 4 * kMostRingChunks <= kNoRegister);

class WarpWriter {
 public:
  explicit WarpWriter(const CompilerView& view) : view_(view) {}

  bool as_compiled() const { return view_.reorders; }

  static int sum(int value) { return value % kSumRegisters; }
  int temporary(int count = 1) {
    next_ = next_ + count > kTemporaries ? 0 : next_;
    const int first = kSumRegisters + next_;
    next_ += count;
    return first;
  }

  // Returns the destination.
  int operate(Operation operation, int destination, std::array<int, 4> sources) {
    Instruction instruction;
    instruction.operation = operation;
    instruction.destination = static_cast<Register>(destination);
    std::ranges::transform(sources, instruction.sources.begin(), [](int r) { return static_cast<Register>(r); });
    line_.add(instruction);
    return destination;
  }
  int operate(Operation operation, int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) {
    return operate(operation, temporary(), {a, b, c, kNoRegister});
  }
  int fp32(int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) { return operate(Operation::fp32, a, b, c); }
  int integer(int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) {
    return operate(Operation::integer, a, b, c);
  }
  int conversion(int a, int b = kNoRegister) { return operate(Operation::conversion, a, b); }
  // `count` integer operations, each on the result of the one before.
  int integers(int count, int on = kNoRegister) {
    for (int i = 0; i < count; ++i) {
      on = operate(Operation::integer, on);
    }
    return on;
  }
  // `count` operations that depend on nothing, for two pipes in turn.
  void fill(int count) {
    for (int i = 0; i < count; ++i) {
      operate(i % 2 ? Operation::integer : Operation::fp32);
    }
  }
  // `address`: of a lane; negative: the lane is not active. What no lane does is left out, unless it is issued anyway.
  template <typename Address>
  void access(Operation operation, int width, int destination, int source, Address&& address, bool anyway = false) {
    Instruction instruction;
    instruction.operation = operation;
    instruction.width = static_cast<std::uint8_t>(width);
    instruction.destination = static_cast<Register>(destination);
    instruction.sources[0] = static_cast<Register>(source);
    instruction.mask = 0;
    std::array<std::uint64_t, kWarpLanes> addresses;
    std::size_t active = 0;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      if (const std::int64_t at = address(lane); at >= 0) {
        instruction.mask |= 1u << lane;
        addresses[active++] = static_cast<std::uint64_t>(at);
      }
    }
    if (active > 0 || anyway) {
      line_.add(instruction, {addresses.data(), active});
    }
  }
  template <typename Address>
  int load(int width, int source, Address&& address) {
    const int destination = temporary(std::max(1, width / 4));
    access(Operation::shared_load, width, destination, source, address);
    return destination;
  }

  // 1 / (1 + exp(value)): an exponential and a reciprocal, with the arithmetic before them.
  int logistic(int value) {
    const int e = operate(Operation::special, operate(Operation::fp32, value));
    return operate(Operation::special, operate(Operation::fp32, e));
  }
  int tanh(int value) { return fp32(logistic(fp32(value))); }

  // A comparison of `on` and a branch, across which nothing is moved.
  void branch(int on = kNoRegister) {
    const int condition = operate(Operation::integer, on);
    operate(Operation::branch, kNoRegister, {condition, kNoRegister, kNoRegister, kNoRegister});
    flush();
  }
  // Where the warp's lanes come together again.
  void converge() {
    operate(Operation::branch, kNoRegister, {kNoRegister, kNoRegister, kNoRegister, kNoRegister});
    flush();
  }
  void barrier() {
    flush();
    Instruction instruction;
    instruction.operation = Operation::barrier;
    trace_.add(instruction);
  }
  // What has been written down so far, in the compiler's order.
  void flush() {
    for (const std::uint32_t i : list_schedule(line_.instructions, view_)) {
      const Instruction& instruction = line_.instructions[i];
      trace_.add(instruction, line_.addresses_of(instruction));
    }
    line_ = {};
    view_.addresses_first = 0;
  }
  // Of the line that begins here.
  void begin_with_addresses(int count) { view_.addresses_first = count; }
  // Instructions before this line.
  std::size_t written() {
    flush();
    return trace_.instructions.size();
  }
  WarpTrace take() {
    flush();
    return std::move(trace_);
  }

 private:
  CompilerView view_;
  WarpTrace line_, trace_;
  int next_ = 0;
};

}  // namespace onchip
