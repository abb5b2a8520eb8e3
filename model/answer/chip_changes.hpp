// SPDX-License-Identifier: Apache-2.0
// A chip and what it may be changed to, each with its answer, whatever is asked of it.
#pragma once

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/chip.hpp"
#include "model/chip/chip_keys.hpp"

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
  ComparedOf<To> all{of(compared.base)};
  for (const ChangeOf<From>& one : compared.alone) {
    all.alone.push_back({one.change, one.side ? std::optional<To>(of(*one.side)) : std::nullopt, one.problem});
  }
  if (compared.changed) {
    all.changed = of(*compared.changed);
  }
  return all;
}

// How much more the changes together do than the sum of what each does alone, of the base's; nothing where one of them
// has no answer.
struct Interaction {
  double hidden_percent = 0, step_percent = 0;
};
struct AnswerNumbers {
  bool fits = false;
  double step_us = 0;
  int largest_hidden = 0;
};
template <typename Answer, typename NumbersOf>
std::optional<Interaction> interaction(const ComparedOf<Answer>& answer, const NumbersOf& numbers_of) {
  if (answer.alone.empty() || !answer.changed) {
    return std::nullopt;
  }
  const AnswerNumbers base = numbers_of(answer.base);
  Interaction more;
  bool all_fit = base.fits && base.largest_hidden > 0;
  const auto add = [&](const Answer& side, double times) {
    const AnswerNumbers of = numbers_of(side);
    all_fit &= of.fits && of.largest_hidden > 0;
    more.step_percent += times * 100 * (of.step_us / base.step_us - 1);
    more.hidden_percent += times * 100 * (static_cast<double>(of.largest_hidden) / base.largest_hidden - 1);
  };
  add(*answer.changed, 1);
  for (const ChangeOf<Answer>& one : answer.alone) {
    if (!one.side) {
      return std::nullopt;
    }
    add(*one.side, -1);
  }
  return all_fit ? std::optional(more) : std::nullopt;
}

}  // namespace onchip
