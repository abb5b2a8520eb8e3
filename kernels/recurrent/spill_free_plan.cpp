// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/spill_free_plan.hpp"

#include "kernels/recurrent/program.hpp"

#include <algorithm>
#include <utility>

namespace onchip {
namespace {

constexpr int kSpareStep = 2, kMostSpare = 8;

// Or is no kernel, or none that runs; what does not compile at all is said where it is needed.
bool is_kept(const PlannedNetwork& planned, const std::string& architecture) {
  if (!planned.prediction.footprint.fits || is_library(planned.plan.family)) {
    return true;
  }
  try {
    return !compile(compile_request(planned.network, planned.plan, architecture)).resources.spills();
  } catch (const CudaError&) {
    return true;
  }
}

// `choose(wishes)` with more and more registers to spare, until the compiler keeps all that it gives; the first choice
// where that no longer fits.
template <typename Choose, typename Fits, typename IsKept>
auto choose_kept(PlanWishes wishes, const Choose& choose, const Fits& fits, const IsKept& is_kept) {
  const auto first = choose(wishes);
  auto choice = first;
  while (!is_kept(choice)) {
    wishes.spare_registers += kSpareStep;
    if (wishes.spare_registers > kMostSpare) {
      return first;
    }
    choice = choose(wishes);
    if (!fits(choice)) {
      return first;
    }
  }
  return choice;
}

}  // namespace

PlannedNetwork choose_kept_plan(const Chip& chip, const Network& network, const RowProfile& rows, PlanWishes wishes,
                                const std::string& architecture) {
  return choose_kept(
      std::move(wishes), [&](const PlanWishes& w) { return choose_plan(chip, network, rows, w); },
      [](const PlannedNetwork& planned) { return planned.prediction.footprint.fits; },
      [&](const PlannedNetwork& planned) { return is_kept(planned, architecture); });
}

std::vector<RankedPlan> rank_kept_families(const Chip& chip, const Network& network, const RowProfile& rows,
                                           PlanWishes wishes, const std::string& architecture) {
  return choose_kept(
      std::move(wishes), [&](const PlanWishes& w) { return rank_families(chip, network, rows, w); },
      [](const std::vector<RankedPlan>&) { return true; },  // a library always does
      [&](const std::vector<RankedPlan>& ranking) {
        return std::ranges::all_of(ranking, [&](const RankedPlan& ranked) {
          return !ranked.planned || is_kept(*ranked.planned, architecture);
        });
      });
}

}  // namespace onchip
