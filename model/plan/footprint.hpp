// SPDX-License-Identifier: Apache-2.0
// What a plan needs of one SM and what the chip has, resource by resource. "Does not fit" is a result with numbers.
//
//   registers per thread   weight words in registers + working registers <= cap of the block size
//   shared memory          state, zeros, outbox, input; weights of the shared tier; ring <= shared memory of a block
//   L2                     streamed weights of all SMs <= L2
//   threads, SMs           limits of the hardware and of the kernel
//
// Beside these, stored indices of 16 bits must tell the units of the state and the zeros behind them apart.
#pragma once

#include "model/chip/chip.hpp"

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
  double weights = 0, state = 0;  // of what is used: what holds either; the rest is staging
  double share() const { return available > 0 ? used / available : used > 0 ? 1e9 : 0; }
};

inline constexpr int kMostIndexedUnits = 1 << 16;

struct Footprint {
  std::array<ResourceUse, kResources.size()> resources;  // indexed by Resource
  Resource binding = Resource::registers;                // the largest share
  int indexed_units = 0;                                 // that stored indices tell apart; 0 where none are stored
  bool fits = false;
  // The registers are so near their limit that the compiler may say otherwise: of 5030 shapes that were compiled it
  // needed at most 7 more than the formula says, but for 2 % of them that multiply several planes together.
  bool registers_in_doubt = false;

  ResourceUse& operator[](Resource resource) { return resources[static_cast<std::size_t>(resource)]; }
  const ResourceUse& operator[](Resource resource) const { return resources[static_cast<std::size_t>(resource)]; }
};

// Derives `fits`, `binding` and `registers_in_doubt` from the resources and the indexed units.
void conclude(Footprint& footprint);

// One sentence: whether it fits, and the binding resource with its numbers.
//   "does not fit: needs 300 of 255 registers per thread"
//   "fits: registers bind, 166 of 168 registers per thread; in doubt, the compiler decides"
//   "does not fit: needs indices of 65724 units, of which 16 bits tell 65536 apart"
//   "fits: registers bind, 85 of 168 registers per thread"
std::string explain(const Footprint& footprint);

}  // namespace onchip
