// SPDX-License-Identifier: Apache-2.0
// Claims set side by side with what is computed and measured (experiments/claims/), as table, CSV, JSON, and as the
// page docs/replication.md.
#pragma once

#include "experiments/claims/replicate.hpp"
#include "experiments/command/output.hpp"

#include <span>
#include <string>

namespace onchip {

Report report_recipes(std::span<const Recipe> recipes);                   // reproduce list
Report report_replications(std::span<const Replication> replications);    // one with all its networks, or many
Report report_term_effects(std::span<const TermEffect> effects);          // reproduce all --terms
std::string replication_page(std::span<const Replication> replications);  // Markdown

}  // namespace onchip
