// SPDX-License-Identifier: Apache-2.0
// A compact binary file of instruction and address streams: what `simulate --record` and `measure --capture` write, and
// what `simulate --trace` reads.
//
//   file         "onchip trace 1\n", number of blocks, then every block
//   block        number of warps, then every warp
//   warp         number of instructions, then every instruction
//   instruction  one byte: operation (low 4 bits, its number in sim/trace/trace.hpp) and flags
//                  16  mask: 4 bytes, little endian; else all lanes are active
//                  32  registers: destination and four sources, one byte each, 255 for none; else none
//                  64  clock: what has passed since the warp's last one (from 0 on), signed
//                if the operation has addresses: one byte, the binary logarithm of the width; and, if a lane is active,
//                one byte of form: 0 base and stride, 1 base and the difference from lane to lane; the base is relative
//                to the base of the warp's last instruction with addresses
//
// Numbers are LEB128: 7 bits a byte, lowest first, the top bit set in all but the last; signed ones in zigzag
// (0, -1, 1, -2, ...). Which SM a block ran on is its place in the file.
#pragma once

#include "sim/trace/trace.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace onchip {

inline constexpr std::string_view kCompactTraceMagic = "onchip trace 1\n";

std::string compact_trace_header(int blocks);
std::string encode_block(const BlockTrace& block);

// Reads the whole file once, and complains of anything wrong in it; blocks are decoded when they are asked for. Throws
// InputError with the byte. `parse_` takes the bytes, which must outlive the source; `file_name` is for messages only.
std::unique_ptr<TraceSource> read_compact_trace(const std::filesystem::path& file);
std::unique_ptr<TraceSource> parse_compact_trace(std::string_view bytes, std::string_view file_name);

}  // namespace onchip
