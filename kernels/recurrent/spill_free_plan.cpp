// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/spill_free_plan.hpp"

#include "kernels/recurrent/program.hpp"

#include <algorithm>
#include <utility>

namespace onchip {
namespace {

constexpr int kSpareStep = 2, kMostSpare = 8;

// Or is no kernel, or none that runs; what does not compile at all is said where it is needed.
bool is_spill_free(const PlannedNetwork& planned, const std::string& architecture) {
  if (!planned.prediction.footprint.fits || !is_on_chip(planned.plan)) {
    return true;
  }
  try {
    return !compile(compile_request(planned.network, planned.plan, architecture)).resources.spills();
  } catch (const CudaError&) {
    return true;
  }
}

// `choose(constraints)` with more and more registers to spare, until nothing spills; the first choice where that no
// longer fits.
template <typename Choose, typename Fits, typename IsSpillFree>
auto choose_spill_free(Constraints constraints, const Choose& choose, const Fits& fits,
                       const IsSpillFree& is_spill_free) {
  const auto first = choose(constraints);
  auto choice = first;
  while (!is_spill_free(choice)) {
    constraints.spare_registers += kSpareStep;
    if (constraints.spare_registers > kMostSpare) {
      return first;
    }
    choice = choose(constraints);
    if (!fits(choice)) {
      return first;
    }
  }
  return choice;
}

}  // namespace

PlannedNetwork choose_spill_free_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                      Constraints constraints, const std::string& architecture) {
  return choose_spill_free(
      std::move(constraints), [&](const Constraints& asked) { return choose_plan(chip, network, rows, asked); },
      [](const PlannedNetwork& planned) { return planned.prediction.footprint.fits; },
      [&](const PlannedNetwork& planned) { return is_spill_free(planned, architecture); });
}

std::vector<RankedPlan> rank_spill_free_families(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                                 Constraints constraints, const std::string& architecture) {
  return choose_spill_free(
      std::move(constraints), [&](const Constraints& asked) { return rank_families(chip, network, rows, asked); },
      [](const std::vector<RankedPlan>&) { return true; },  // a library always does
      [&](const std::vector<RankedPlan>& ranking) {
        return std::ranges::all_of(ranking, [&](const RankedPlan& ranked) {
          return !ranked.planned || is_spill_free(*ranked.planned, architecture);
        });
      });
}

}  // namespace onchip
