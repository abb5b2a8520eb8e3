// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/sm.hpp"

#include <algorithm>

namespace onchip {
namespace {

BankCost total(const std::vector<BankCost>& costs) {
  BankCost sum;
  for (const BankCost& cost : costs) {
    sum += cost;
  }
  return sum;
}

}  // namespace

BankCost SmRun::loads() const {
  return total(warp_loads);
}
BankCost SmRun::stores() const {
  return total(warp_stores);
}

SmRun& SmRun::operator+=(const SmRun& after) {
  if (warp_end.empty()) {
    return *this = after;
  }
  const auto add = [](auto& to, const auto& from) {
    std::transform(to.begin(), to.end(), from.begin(), to.begin(), [](auto a, const auto& b) { return a += b; });
  };
  add(causes, after.causes);
  add(issued, after.issued);
  add(warp_loads, after.warp_loads);
  add(warp_stores, after.warp_stores);
  add(heat, after.heat);
  for (std::size_t w = 0; w < warp_end.size(); ++w) {
    warp_end[w] = cycles + after.warp_end[w];
  }
  cycles += after.cycles;
  return *this;
}

}  // namespace onchip
