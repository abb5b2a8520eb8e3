// SPDX-License-Identifier: Apache-2.0
// What must a chip have at least, so that a network fits or a step is fast enough? From a target to the least of each
// number alone, and of two numbers to what more of one saves of the other.
#pragma once

#include "model/base/parallel.hpp"
#include "model/chip/chip.hpp"
#include "model/workload/recurrent.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

struct Target {
  int hidden = 0;                 // a network of so many units fits
  std::optional<double> step_us;  // a step takes no longer
  std::optional<double> ms = {};  // an inference of a feed-forward network takes no longer
};
// Gives a recurrent network the target's size. Throws InputError where it has another or there is none, and for a
// target of feed-forward networks.
void take_hidden(Recurrent& network, const Target& target);

// What a user pays for more of a number, for a base unit.
struct UnitPrice {
  const ChipKey* key = nullptr;
  double per_unit = 0;
};

struct TargetQuestion {
  Target target = {};                  // nothing: that the network fits
  std::vector<std::string> vary = {};  // keys; none: those that the workload's answer hangs on most
  std::vector<UnitPrice> prices = {};

  std::vector<std::string> vary_or(std::span<const std::string_view> usual) const {
    return vary.empty() ? std::vector<std::string>(usual.begin(), usual.end()) : vary;
  }
};
// From words: "hidden=8192", "step_us<=2", "ms<=5"; keys; "shared_memory.per_sm=0.5/KiB". Throws InputError.
TargetQuestion target_question(std::span<const std::string> targets, std::span<const std::string> vary,
                               std::span<const std::string> prices);

// ---- numbers of a chip, whatever is asked of it ---------------------------------------------------------------------

// Varied numbers, and the answer with them.
template <typename Answer>
struct VariedOf {
  std::vector<double> values;  // as ReachedOf::vary
  std::string option;          // "--set 'shared_memory.per_sm=244 KiB'"
  Answer answer;
  std::optional<double> cost;  // of what is more than the chip has, by the user's prices; less than 0 where it is less
};

// Of one number alone, the others as they are.
template <typename Answer>
struct LeastOf {
  bool reaches = false;
  VariedOf<Answer> at;  // the least that reaches the target, or the nearest miss
  std::vector<std::pair<double, double>>
      fails_again;  // better values that do not reach it: the first and last in a row
};

struct VariedKey {
  const ChipKey* key = nullptr;
  double from = 0;   // what the chip has
  std::string unit;  // of its file
};

template <typename Answer>
struct ReachedOf {
  Answer base;
  bool base_reaches = false;
  std::vector<VariedKey> vary = {};
  std::vector<LeastOf<Answer>> alone = {};        // of each, in their order
  std::vector<VariedOf<Answer>> trade_off = {};   // of two: the least of the second for a value of the first
  std::optional<VariedOf<Answer>> cheapest = {};  // of all, where there are prices

  bool reaches() const {
    return base_reaches || !trade_off.empty() || std::ranges::any_of(alone, &LeastOf<Answer>::reaches);
  }
};

struct Sought {
  ChipFile chip;
  std::vector<std::string> vary;  // keys
  std::vector<UnitPrice> prices;
  std::function<double(const ChipFile&)> misses;  // by how much the target is missed; 0 or less: it is not
};
// What does not fit misses by more than what is slow.
inline constexpr double kDoesNotFit = 1e9;

// Chips for answers. Throws InputError for keys and prices that cannot be.
ReachedOf<ChipFile> find_least(const Sought& sought);

template <typename To, typename From, typename Of>
ReachedOf<To> with_answers(const ReachedOf<From>& reached, const Of& of) {
  const auto varied = [&](const VariedOf<From>& from) {
    return VariedOf<To>{from.values, from.option, of(from.answer), from.cost};
  };
  ReachedOf<To> answers{of(reached.base), reached.base_reaches, reached.vary};
  for (const LeastOf<From>& least : reached.alone) {
    answers.alone.push_back({least.reaches, varied(least.at), least.fails_again});
  }
  answers.trade_off.resize(reached.trade_off.size());
  parallel_for(static_cast<int>(reached.trade_off.size()), all_cores(), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    answers.trade_off[at] = varied(reached.trade_off[at]);
  });
  if (reached.cheapest) {
    answers.cheapest = varied(*reached.cheapest);
  }
  return answers;
}

}  // namespace onchip
