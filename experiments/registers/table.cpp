// SPDX-License-Identifier: Apache-2.0
// model/register_table.inc, made of what was measured.
#include "experiments/registers/limits.hpp"
#include "experiments/registers/verbs.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <vector>

namespace onchip::registers {
namespace {

// What plans of one key need: all of them at least, and with how many each is within kClose.
struct Need {
  int enough = 0, close = std::numeric_limits<int>::max();

  void add(const Measured& m) {
    enough = std::max(enough, m.most);
    close = std::min(close, m.least + kClose);
  }
  // Some registers within, for plans that are alike, but were not measured. Above all none may spill.
  RegisterBounds bounds() const {
    constexpr int kSpare = 3;
    const int spare = std::clamp((close - enough) / 2, 0, kSpare);
    return {.least = enough + spare, .most = std::max(enough + spare, close - spare)};
  }
  bool holds(const RegisterBounds& b) const { return enough <= b.least && b.most <= close; }
};

}  // namespace

// Prints model/register_table.inc. On sm_120 kernels take what they take on sm_100, as far as was measured: what is
// known of either is taken for both.
int print_table(const std::vector<std::string>& paths) {
  std::map<std::uint64_t, Need> shapes, staged;
  std::map<std::uint64_t, std::uint64_t> staged_of;
  for (const Measured& m : read_limits(paths)) {
    for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
      const auto keys = register_keys(kMajors[a], m.shape.network, m.shape.plan);
      if (!keys || (a != m.architecture && (a < 2 || m.architecture < 2))) {
        continue;
      }
      shapes[keys->shape].add(m);
      staged_of[keys->shape] = keys->staged;
      if (keys->staged != 0) {
        staged[keys->staged].add(m);
      }
    }
  }
  std::map<std::uint64_t, RegisterBounds> entries;
  for (const auto& [key, need] : staged) {
    entries[key] = need.bounds();
  }
  for (const auto& [key, need] : shapes) {
    const std::uint64_t coarse = staged_of.at(key);
    if (coarse == 0 || !need.holds(entries.at(coarse))) {
      entries[key] = need.bounds();
    }
  }
  std::puts("// `register_limits table`: key (register_keys), the least and the most working registers.");
  int column = 0;
  for (const auto& [key, bounds] : entries) {
    constexpr int kColumns = 5;
    std::printf("{0x%llx, %d, %d},%s", static_cast<unsigned long long>(key), bounds.least, bounds.most,
                ++column % kColumns == 0 ? "\n" : " ");
  }
  std::puts("");
  return 0;
}

}  // namespace onchip::registers
