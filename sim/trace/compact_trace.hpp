// SPDX-License-Identifier: Apache-2.0
// A compact binary file of instruction and address streams: what `simulate --record` and `measure --capture` write, and
// what `simulate --trace` reads.
//
//   file         "onchip trace 2\n", number of blocks, what a block has (threads, registers per thread, bytes of shared
//                memory; threads 0: not known), one byte: 1 if it is a step of a plan (TraceSource::step()), else 0; of
//                a step the numbers of its StepShape in the order of kStepFields; then every block
//   of a step    every block and its body in each pass, each behind 8 bytes: its loop_instructions as a double, little
//                endian
//   block        number of warps, then every warp
//   warp         number of instructions, then every instruction
//   instruction  one byte: operation (its number in sim/trace/trace.hpp), one byte: flags
//                  16  mask: 4 bytes, little endian; else all lanes are active
//                  32  registers: destination and four sources, each one more than its number, 0 for none; else none
//                  64  clock: what has passed since the warp's last one (from 0 on), signed
//                if the operation has addresses: one byte, the binary logarithm of the width; and, if a lane is active,
//                one byte of form: 0 base and stride, 1 base and the difference from lane to lane; the base is relative
//                to the base of the warp's last instruction with addresses
//
// Numbers are LEB128: 7 bits a byte, lowest first, the top bit set in all but the last; signed ones in zigzag
// (0, -1, 1, -2, ...). Which SM a block ran on is its place in the file. Version 1 is read, too: it has no
// steps, does not know what a block has, its operation is the low 4 bits of the flags, and registers are one byte each,
// 255 for none.
#pragma once

#include "sim/trace/trace.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace onchip {

inline constexpr std::string_view kCompactTraceMagic = "onchip trace 2\n";
// Whether a file begins like one of any version.
bool is_compact_trace(std::string_view bytes);

std::string compact_trace_header(int blocks, const std::optional<BlockResources>& resources = std::nullopt,
                                 const StepShape* step = nullptr);
std::string encode_block(const BlockTrace& block);
// A source's block as its file has it: with its bodies, if it is a step's.
std::string encode_block(const TraceSource& source, int index);

// Reads all once, and complains of anything wrong in it; blocks are decoded when they are asked for. Throws InputError
// with the byte. The bytes must outlive the source; `file_name` is for messages only.
std::unique_ptr<TraceSource> parse_compact_trace(std::string_view bytes, std::string_view file_name);

}  // namespace onchip
