// SPDX-License-Identifier: Apache-2.0
// A chip and what it may be changed to, each with its answer, whatever is asked of it.
#pragma once

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/chip.hpp"

#include <optional>
#include <string>
#include <vector>

namespace onchip {

// One change of several. Alone it may be impossible.
template <typename Answer>
struct ChangeOf {
  std::string change;  // "sm.count=+10%"
  std::optional<Answer> side = {};
  std::string problem = {};  // why there is none
};

template <typename Answer>
struct ComparedOf {
  Answer base;
  std::vector<std::string> changes = {};
  std::vector<ChangeOf<Answer>> alone = {};  // of several changes
  std::optional<Answer> changed = {};
};

// Answers of the chip as it is, with each of several changes alone, and with all together. Throws InputError where all
// together cannot be.
template <typename Answer, typename Of>
ComparedOf<Answer> compare_chips(const ChipFile& base, const std::vector<std::string>& changes, const Of& answer_of) {
  ChipFile together = base;
  for (const std::string& change : changes) {
    set_chip_key(together, change);
  }
  ComparedOf<Answer> compared;
  compared.changes = changes;
  if (changes.size() > 1) {
    for (const std::string& change : changes) {
      compared.alone.push_back({change});
    }
  }
  parallel_for(static_cast<int>(compared.alone.size()) + 2, all_cores(), [&](int i) {
    if (i == 0) {
      compared.base = answer_of(base);
    } else if (i == 1) {
      if (!changes.empty()) {
        compared.changed = answer_of(together);
      }
    } else {
      ChangeOf<Answer>& one = compared.alone[static_cast<std::size_t>(i) - 2];
      ChipFile changed = base;
      try {
        set_chip_key(changed, one.change);
      } catch (const InputError& error) {
        one.problem = error.what();
        return;
      }
      one.side = answer_of(changed);
    }
  });
  return compared;
}

// The same answers in another form.
template <typename To, typename From, typename Of>
ComparedOf<To> with_sides(const ComparedOf<From>& compared, const Of& of) {
  ComparedOf<To> all{of(compared.base), compared.changes};
  for (const ChangeOf<From>& one : compared.alone) {
    all.alone.push_back({one.change, one.side ? std::optional<To>(of(*one.side)) : std::nullopt, one.problem});
  }
  if (compared.changed) {
    all.changed = of(*compared.changed);
  }
  return all;
}

}  // namespace onchip
