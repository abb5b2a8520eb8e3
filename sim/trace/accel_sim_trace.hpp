// SPDX-License-Identifier: Apache-2.0
// Kernels traced by Accel-Sim's tracer (github.com/accel-sim/accel-sim-framework, tracer versions 3 to 5), one
// kernel-*.traceg file as text:
//
//   -kernel name = ..., -block dim = (x,y,z), -shmem = N, -nregs = N, -shmem base_addr = 0x..., -enable lineinfo = 0|1
//   #BEGIN_TB / thread block = x,y,z / cluster ... = ... / warp = N / insts = N / instructions / #END_TB
//   instruction: [line] PC mask destinations [R..] opcode sources [R..] width [form addresses] [immediate]
//   form 0: an address for every active lane; 1: base and stride; 2: base and the differences from lane to lane
//
// The machine's opcodes become the simulator's classes (accel_sim_trace.cpp). Double precision counts as
// fp32, loads of constants and textures as other instructions; tensor copies (UTMALDG, ...) have no addresses here.
// Generic accesses whose first address lies within 16 MiB of the base of shared memory are accesses to it. LDGSTS,
// which the tracer writes as two lines, is one copy to shared memory. Registers from R256 on are the uniform ones.
#pragma once

#include "sim/trace/trace.hpp"

#include <memory>
#include <string_view>

namespace onchip {

// As for compact traces: read once whole, decoded block by block; errors with line and column.
std::unique_ptr<TraceSource> parse_accel_sim_trace(std::string_view text, std::string_view file_name);

}  // namespace onchip
