// SPDX-License-Identifier: Apache-2.0
// Instructions that touch memory: loads, stores, atomics; and where an address lies.
#pragma once

#include "sim/ptx/instructions.hpp"
#include "sim/ptx/warp.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace onchip::ptx {

// Of ld, st, atom and red, whose opcodes are put together: `parts` are those between the dots. Null if they make none.
std::optional<Meaning> memory_meaning(std::span<const std::string_view> parts, std::string_view operands);

// Adds the wavefronts of what these lanes are about to access to the launch's counts.
void count_access(Warp& warp, const Instruction& i, u32 lanes);

// ---- where an operand's address lies; LaneFault says what a thread may not touch ------------------------------------

// Of the bytes in Block::written.
inline constexpr std::uint8_t kNeverWritten = 0, kWritten = 1, kBeingCopied = 2;

std::string hex(u64 value);

// The lane's address in an operand; `which` of the instruction's addresses it is.
u64 address_of(Warp& warp, const Instruction& i, int operand, int which, int lane);

void check_aligned(int lane, u64 address, std::size_t bytes);

std::byte* in_global(Warp& warp, int lane, u64 address, std::size_t bytes, bool writes);

// In any space, by what the address says where it is generic. While a copy is under way, what is read is neither the
// old nor the new but all ones, a NaN in every type: whoever uses it has a wrong result.
std::byte* at_place(Warp& warp, Space space, int lane, u64 address, std::size_t bytes, bool writes);

// The lane's part of a register.
std::byte* lane_bytes(Warp& warp, u32 at, int lane, int bytes);

}  // namespace onchip::ptx
