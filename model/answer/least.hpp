// SPDX-License-Identifier: Apache-2.0
// The least value of a chip's number that does something, among the values that hardware can have.
#pragma once

#include "model/chip/chip.hpp"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

// The values of a number that are tried: whole steps of what hardware can have, from the least possible to eight times
// what the chip has. A step is an allocation unit, a unit, or 1/256 (of bytes) or 1/1000 of the number, where that is
// more. They are numbered from the worst to the best: by their steps, less than 0 where less is better.
struct Choices {
  const ChipKey* key = nullptr;
  double step = 0;
  int worst = 0, now = 0, best = 0;  // now: what the chip has, or the next worse

  double value(int choice) const;
  std::string assignment(int choice) const;  // "shared_memory.per_sm=244 KiB"
};
// Throws InputError for a number of which more or less means nothing, such as a way of counting.
Choices choices(const Chip& chip, std::string_view key);

// Units and ways of counting, of which more means nothing, and limits per block, which follow those per SM.
bool is_structural(std::string_view key);

// What a network that does not fit may need more of.
inline constexpr std::array<std::string_view, 3> kCapacityKeys{"sm.count", "registers.per_sm", "shared_memory.per_sm"};

// By how much a choice misses what is sought; 0 or less: it does not.
using Misses = std::function<double(int choice)>;

struct Reach {
  std::optional<int> least;                      // that reaches what is sought
  std::vector<std::pair<int, int>> fails_again;  // better ones that do not: the first and the last in a row
  int nearest = 0;                               // the least of those that miss by least
};
// Asks `samples` choices, evenly in the logarithm and on all cores; between two that differ the middle, until they are
// neighbours; and around such neighbours the `ripple` nearest. With two samples and no ripple: halving.
Reach find_reach(int worst, int best, const Misses& misses, int samples = 32, int ripple = 4);

}  // namespace onchip
