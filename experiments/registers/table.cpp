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
#include <set>
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
  // Some registers within, for plans that are alike, but were not measured. Above all none may spill; where several
  // planes are multiplied together, plans of one key differ most.
  RegisterBounds bounds(bool together) const {
    const int room = std::max(0, close - enough);
    const int spare = together ? room - room / 4 : room / 2;
    return {.least = enough + spare, .most = std::max(enough + spare, close - (together ? room / 4 : room / 2))};
  }
  bool is_within() const { return enough <= close; }
  bool holds(const RegisterBounds& b) const { return enough <= b.least && b.most <= close; }
  // Where some take many more than others, what is enough for all says too little of one that was not measured.
  bool are_alike() const {
    constexpr int kApart = kClose + kClose / 2;
    return enough <= close - kClose + kApart;
  }
};

struct KeyedNeed {
  Need need;
  RegisterKeys keys;
  bool together = false;

  RegisterBounds bounds() const { return need.bounds(together); }
};

}  // namespace

// Prints model/register_table.inc. On sm_120 most kernels take what they take on sm_100: what is known of either is
// taken for the other, too, where that was not measured.
int print_table(const std::vector<std::string>& paths) {
  constexpr std::size_t kFirstAlike = 2;  // sm_100
  const std::vector<Measured> limits = read_limits(paths);
  std::set<std::uint64_t> measured;  // shapes
  for (const Measured& m : limits) {
    if (const auto keys = register_keys(kMajors[m.architecture], m.shape.network, m.shape.plan)) {
      measured.insert(keys->shape);
    }
  }
  std::map<std::uint64_t, KeyedNeed> shapes, padded, fine;
  std::map<std::uint64_t, Need> coarse;
  for (const Measured& m : limits) {
    for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
      const auto keys = register_keys(kMajors[a], m.shape.network, m.shape.plan);
      const bool stands_in = keys && std::min(a, m.architecture) >= kFirstAlike && !measured.contains(keys->shape);
      if (!keys || (a != m.architecture && !stands_in)) {
        continue;
      }
      for (KeyedNeed* const of_key : {&shapes[keys->shape], &padded[keys->padded], &fine[keys->fine]}) {
        of_key->need.add(m);
        of_key->keys = *keys;
        of_key->together = m.shape.plan.pass_planes > 1;
      }
      if (keys->coarse != 0) {
        coarse[keys->coarse].add(m);
      }
    }
  }
  std::map<std::uint64_t, RegisterBounds> entries;
  for (const auto& [key, need] : coarse) {
    if (need.are_alike()) {
      entries[key] = need.bounds(false);
    }
  }
  for (const auto& [key, shape] : shapes) {
    const auto entry = entries.find(shape.keys.coarse);
    if (entry == entries.end() || !shape.need.holds(entry->second)) {
      entries[key] = shape.bounds();
    }
  }
  for (const auto& [key, part] : padded) {
    if (!shapes[part.keys.shape].need.is_within()) {
      entries[key] = part.bounds();
    }
  }
  for (const auto& [key, part] : fine) {
    if (!padded[part.keys.padded].need.is_within()) {
      entries[key] = part.bounds();
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
