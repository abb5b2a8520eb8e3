// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/ablation.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <iterator>

namespace onchip {

std::vector<std::string> Ablation::names() const {
  std::vector<std::string> names;
  std::ranges::transform(terms, std::back_inserter(names),
                         [](const CostTerm* term) { return std::string(term->name); });
  return names;
}

std::vector<Ablation> read_ablations(std::span<const std::string> names) {
  std::vector<Ablation> ablations;
  if (std::ranges::find(names, kEveryTerm) != names.end()) {
    if (names.size() > 1) {
      throw InputError("--without all: expected no other --without");
    }
    for (const CostTerm& term : kCostTerms) {
      ablations.push_back({{&term}});
    }
    return ablations;
  }
  for (const std::string& name : names) {
    const auto term = std::ranges::find(kCostTerms, name, &CostTerm::name);
    if (term == kCostTerms.end()) {
      std::vector<std::string_view> known{kEveryTerm};
      std::ranges::transform(kCostTerms, std::back_inserter(known), &CostTerm::name);
      throw InputError("--without: unknown cost term '" + name + "'" + did_you_mean(name, known));
    }
    if (ablations.empty()) {
      ablations.emplace_back();
    }
    ablations.front().terms.push_back(term);
  }
  return ablations;
}

Chip without(Chip chip, const Ablation& ablation) {
  for (const CostTerm* term : ablation.terms) {
    chip.cost.set(term->cost, term->neutral);
  }
  return chip;
}

}  // namespace onchip
