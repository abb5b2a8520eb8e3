// SPDX-License-Identifier: Apache-2.0
// The instructions of PTX (ISA 9.0, "Instruction Set") that are known: how their operands look and what they do.
#pragma once

#include "sim/ptx/module.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip::ptx {

// What an opcode with operands of a form does. A form has a letter for each operand: h, w, q, x for registers or
// immediates of 2, 4, 8, 16 bytes, p for predicates, upper case if written; [ for an address; # for a number that must
// be known; _ for a sink; { } around vectors, | between two results.
struct Meaning : Effect {
  std::string form;
};

// `operands`: those of the text as a form, with # for numbers and variables. Null if there is no such instruction;
// `known` says whether there is one with other operands.
std::optional<Meaning> find_meaning(std::string_view opcode, std::string_view operands, bool& known);

// Whether operands as they are written fit a form.
bool fits(std::string_view form, std::string_view operands);

// ---- how the tables say it ------------------------------------------------------------------------------------------

inline Meaning as(std::string form, Execute execute, Flow flow = Flow::plain, bool polls = false) {
  return {{.execute = execute, .flow = flow, .polls = polls}, std::move(form)};
}

// Of shared memory, of so many matrices if it is of them.
inline Meaning accessing(Meaning meaning, Access access, std::uint8_t count = 0) {
  meaning.space = Space::shared;
  meaning.access = access;
  meaning.count = count;
  return meaning;
}

struct InstructionRow {
  const char* opcodes;  // with spaces in between
  Meaning meaning;
};

// Those of warp_instructions.cpp and async_instructions.cpp.
std::vector<InstructionRow> warp_rows();
std::vector<InstructionRow> async_rows();

// Bytes of "b32" and its like; 0: no type of numbers.
int type_bytes(std::string_view type);

// A register's bytes into another: st.param and ld.param of a function's parameters. `bytes` of it count.
void copy_parameter(Warp& warp, const Instruction& instruction, u32 lanes);

}  // namespace onchip::ptx
