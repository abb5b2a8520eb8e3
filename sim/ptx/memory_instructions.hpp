// SPDX-License-Identifier: Apache-2.0
// Instructions that touch memory: loads, stores, atomics, asynchronous copies and stores, transaction barriers.
#pragma once

#include "sim/ptx/instructions.hpp"
#include "sim/ptx/warp.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace onchip::ptx {

// Of ld, st, atom and red, whose opcodes are put together: `parts` are those between the dots. Null if they make none.
std::optional<Meaning> memory_meaning(std::span<const std::string_view> parts, std::string_view operands);

void cp_async(Warp& warp, const Instruction& i, u32 lanes);
void cp_async_commit(Warp& warp, const Instruction& i, u32 lanes);
void cp_async_wait(Warp& warp, const Instruction& i, u32 lanes);  // at[0]: groups that may be left
void cp_async_wait_all(Warp& warp, const Instruction& i, u32 lanes);
void st_async(Warp& warp, const Instruction& i, u32 lanes);
void cp_async_bulk(Warp& warp, const Instruction& i, u32 lanes);  // [shared], [global], bytes, [barrier]
void mapa(Warp& warp, const Instruction& i, u32 lanes);
void mbarrier_init(Warp& warp, const Instruction& i, u32 lanes);
void mbarrier_arrive(Warp& warp, const Instruction& i, u32 lanes);         // _, [barrier]
void mbarrier_arrive_expect(Warp& warp, const Instruction& i, u32 lanes);  // _, [barrier], bytes
void mbarrier_wait_parity(Warp& warp, const Instruction& i, u32 lanes);    // p, [barrier], parity

}  // namespace onchip::ptx
