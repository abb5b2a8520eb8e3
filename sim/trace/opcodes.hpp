// SPDX-License-Identifier: Apache-2.0
// What the opcodes of machine code, such as "LDS.U.128", are to the simulator.
#pragma once

#include "sim/trace/trace.hpp"

#include <cstdint>
#include <string_view>

namespace onchip {

Operation operation_of(std::string_view opcode);

// The same, where its addresses lie in shared memory: generic accesses are accesses to it.
Operation operation_in_shared_memory(std::string_view opcode);

// Bytes per lane: "128" in LDG.E.128, "U16" in LDS.U16; what the tracer reports is not always right. Of LDSM and STSM
// those of the rows that lanes point at.
int width_of(std::string_view opcode);

// The lanes that can access: of LDSM and STSM 8 for each of 1, 2 or 4 matrices ("LDSM.16.M88.4"), else all.
std::uint32_t accessing_lanes(std::string_view opcode);

}  // namespace onchip
