// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/trace.hpp"

#include <bit>
#include <cassert>

namespace onchip {

void WarpTrace::add(Instruction instruction, std::span<const std::uint64_t> lane_addresses) {
  assert(lane_addresses.size() ==
         (has_addresses(instruction.operation) ? static_cast<std::size_t>(std::popcount(instruction.mask)) : 0));
  instruction.first_address = static_cast<std::uint32_t>(addresses.size());
  addresses.insert(addresses.end(), lane_addresses.begin(), lane_addresses.end());
  instructions.push_back(instruction);
}

std::span<const std::uint64_t> WarpTrace::addresses_of(const Instruction& instruction) const {
  if (!has_addresses(instruction.operation)) {
    return {};
  }
  return std::span(addresses).subspan(instruction.first_address,
                                      static_cast<std::size_t>(std::popcount(instruction.mask)));
}

}  // namespace onchip
