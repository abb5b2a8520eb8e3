// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/capture_difference.hpp"

#include <algorithm>
#include <bit>

namespace onchip {
namespace {

std::vector<Instruction> captured_of(const WarpTrace& warp) {
  std::vector<Instruction> accesses;
  std::ranges::copy_if(warp.instructions, std::back_inserter(accesses), is_shared_access, &Instruction::operation);
  return accesses;
}

std::string text(const Instruction& access) {
  return std::to_string(access.width) + "-byte " + std::string(name(access.operation)) + " of " +
         std::to_string(std::popcount(access.mask)) + " lanes";
}

std::optional<std::string> difference(const WarpTrace& generated, const Instruction& a, const WarpTrace& captured,
                                      const Instruction& b) {
  if (a.operation != b.operation || a.width != b.width || a.mask != b.mask) {
    return text(a) + ", captured " + text(b) +
           (a.operation == b.operation && a.width == b.width ? ", others than those generated" : "");
  }
  const auto addresses = generated.addresses_of(a), found = captured.addresses_of(b);
  const auto [at, other] = std::ranges::mismatch(addresses, found);
  if (at == addresses.end()) {
    return {};
  }
  const auto lane = static_cast<std::size_t>(at - addresses.begin());
  return text(a) + ": active lane " + std::to_string(lane) + " at " + std::to_string(*at) + ", captured at " +
         std::to_string(*other);
}

}  // namespace

std::optional<std::string> first_difference(const BlockTrace& generated, const BlockTrace& captured) {
  if (generated.warps.size() != captured.warps.size()) {
    return std::to_string(generated.warps.size()) + " warps, captured " + std::to_string(captured.warps.size());
  }
  for (std::size_t warp = 0; warp < generated.warps.size(); ++warp) {
    const std::string where = "warp " + std::to_string(warp) + ", ";
    const std::vector<Instruction> expected = captured_of(generated.warps[warp]);
    const std::vector<Instruction> found = captured_of(captured.warps[warp]);
    for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
      if (const auto what = difference(generated.warps[warp], expected[i], captured.warps[warp], found[i])) {
        return where + "access " + std::to_string(i) + ": " + *what;
      }
    }
    if (expected.size() != found.size()) {
      return where + std::to_string(expected.size()) + " accesses, captured " + std::to_string(found.size());
    }
  }
  return {};
}

}  // namespace onchip
