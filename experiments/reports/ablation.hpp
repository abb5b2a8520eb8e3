// SPDX-License-Identifier: Apache-2.0
// Cost terms that are left out of the prices, each at its neutral value: `validate --without`.
#pragma once

#include "model/chip/chip.hpp"
#include "model/chip/cost_terms.hpp"

#include <span>
#include <string>
#include <vector>

namespace onchip {

struct Ablation {
  std::vector<const CostTerm*> terms;  // left out together

  std::vector<std::string> names() const;
};

inline constexpr std::string_view kEveryTerm = "all";

// "all" is an ablation for each term, other names are one together; none is none. Throws InputError for unknown names,
// with the nearest.
std::vector<Ablation> read_ablations(std::span<const std::string> names);

Chip without(Chip chip, const Ablation& ablation);

}  // namespace onchip
