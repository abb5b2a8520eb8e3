// SPDX-License-Identifier: Apache-2.0
// What a plan needs of one SM and what the chip has, resource by resource. "Does not fit" is a result with numbers.
//
//   registers per thread   weight words in registers + working registers <= cap of the block size
//   shared memory          state, zero units, outbox, input; weights of the shared tier; ring <= shared memory per
//   block L2                     streamed weights of all SMs <= L2 threads, SMs           limits of the hardware and of
//   the kernel
#pragma once

#include "model/chip.hpp"
#include "model/plan.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace onchip {

enum class Resource : std::uint8_t { registers, shared_memory, l2, threads, sms };

struct ResourceInfo {
  std::string_view name;
  std::string_view unit;
};
inline constexpr std::array<ResourceInfo, 5> kResources{{
    {"registers", "registers per thread"},
    {"shared_memory", "bytes per SM"},
    {"l2", "bytes"},
    {"threads", "threads per block"},
    {"sms", "SMs"},
}};
constexpr const ResourceInfo& info(Resource resource) {
  return kResources[static_cast<int>(resource)];
}

struct ResourceUse {
  double used = 0, available = 0;
  double share() const { return available > 0 ? used / available : used > 0 ? 1e9 : 0; }
};

struct Footprint {
  std::array<ResourceUse, kResources.size()> resources;  // indexed by Resource
  Resource binding = Resource::registers;                // the largest share
  bool fits = false;
};

// Registers of a thread beyond its weights: accumulators, loads in flight, addresses. A fit to
// what NVRTC 13.0 compiles for sm_80, sm_90, sm_100 and sm_120 (model/registers.cpp).
int working_registers(const Network& network, const Plan& plan);

Footprint footprint(const Chip& chip, const Network& network, const Plan& plan);

// One sentence: whether it fits, and what binds it with its numbers.
//   "does not fit: needs 300 of 255 registers per thread"
//   "fits: registers bind, 85 of 168 registers per thread"
std::string explain(const Footprint& footprint);

}  // namespace onchip
