// SPDX-License-Identifier: Apache-2.0
// Small texts of PTX for the tests of its interpreter, and what they leave in memory.
#pragma once

#include "sim/ptx/machine.hpp"
#include "tests/error_of.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

using ptx::Fault;
using ptx::Launch;
using ptx::Machine;

// A kernel with one parameter, the address of its memory; %rd1: of this thread's `stride` bytes of it.
inline std::string kernel(const std::string& body, int stride = 4, const std::string& before = "") {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n" + before +
         ".visible .entry k(.param .u64 k_param_0)\n{\n"
         ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .b32 %f<40>;\n.reg .b64 %rd<9>;\n"
         "ld.param.u64 %rd0, [k_param_0];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, " +
         std::to_string(stride) + ";\nadd.s64 %rd1, %rd0, %rd1;\n" + body + "\nret;\n}\n";
}

struct Shape {
  int blocks = 1, threads = 32;
  std::size_t shared = 0;
  bool cooperative = true;
  std::uint64_t most = 1 << 20;
  std::optional<BankGeometry> banks = {};
};

inline ptx::Counts run(const std::string& text, std::span<std::uint32_t> memory, const Shape& shape = {}) {
  Machine machine(ptx::parse(text, "test.ptx"));
  machine.memory().add(std::as_writable_bytes(memory));
  const std::uint32_t* const pointer = memory.data();
  return machine.launch("k", {.blocks = shape.blocks,
                              .threads = shape.threads,
                              .dynamic_shared_bytes = shape.shared,
                              .cooperative = shape.cooperative,
                              .parameters = std::as_bytes(std::span(&pointer, 1)),
                              .most_instructions = shape.most,
                              .banks = shape.banks});
}

inline std::string fault_of(const std::string& text, const Shape& shape = {}, std::size_t words = 64) {
  std::vector<std::uint32_t> memory(words);
  return error_of<Fault>([&] { run(text, memory, shape); });
}

// "", or the text if one of the phrases is not in it.
inline std::string unsaid(const std::string& text, std::initializer_list<const char*> phrases) {
  const bool says_all =
      std::ranges::all_of(phrases, [&](const char* phrase) { return text.find(phrase) != std::string::npos; });
  return says_all ? "" : text;
}

// "op %r4, %r1, %r2, %r3;" of 32 lanes with these operands.
inline std::vector<std::uint32_t> computed(const std::string& instructions,
                                           const std::vector<std::array<std::uint32_t, 3>>& operands) {
  std::vector<std::uint32_t> memory(4 * operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::copy(operands[i].begin(), operands[i].end(), &memory[4 * i]);
  }
  const int threads = static_cast<int>(operands.size());
  run(kernel("ld.global.v2.u32 {%r1, %r2}, [%rd1];\nld.global.u32 %r3, [%rd1+8];\n" + instructions +
                 "\nst.global.u32 [%rd1+12], %r4;",
             16),
      memory, {.threads = threads});
  std::vector<std::uint32_t> results;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    results.push_back(memory[4 * i + 3]);
  }
  return results;
}

using Word = std::uint32_t;

inline float as_float(Word word) {
  return std::bit_cast<float>(word);
}

inline Word bits(float value) {
  return value == value ? std::bit_cast<Word>(value) : 0x7fffffffu;
}

// The nearest half, by trying all of them.
inline std::uint16_t nearest_half(double value) {
  if (value != value) {
    return 0x7fff;
  }
  const double magnitude = std::abs(value);
  std::uint16_t best = 0;
  double best_error = magnitude;
  for (std::uint16_t half = 1; half <= 0x7c00; ++half) {
    const int exponent = half >> 10;
    const double of = exponent == 0 ? (half & 1023) * 0x1p-24 : std::ldexp(1024 + (half & 1023), exponent - 25);
    const double error = std::abs(of - magnitude);  // infinity counts as 2^16
    if (error < best_error || (error == best_error && half % 2 == 0)) {
      best = half;
      best_error = error;
    }
  }
  return static_cast<std::uint16_t>(magnitude > 65536 ? 0x7c00 : best) |
         static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
}

}  // namespace onchip
