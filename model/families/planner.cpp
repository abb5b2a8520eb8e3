// SPDX-License-Identifier: Apache-2.0
#include "model/families/planner.hpp"

#include "model/dense/family.hpp"
#include "model/library/family.hpp"
#include "model/plan/search.hpp"
#include "model/sparse/family.hpp"
#include "model/training/recurrence_family.hpp"

#include <array>
#include <cstdio>
#include <type_traits>

namespace onchip {
namespace {

std::string microseconds(double us) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3f", us);
  return text.data();
}

}  // namespace

// It does not fit, or the term by which it falls behind most.
std::string why_slower(const Prediction& best, const Prediction& other) {
  if (!other.footprint.fits) {
    return explain(other.footprint);
  }
  const Term* most = nullptr;
  const auto more = [&](const Term& term) { return term.us - best.terms[term.name]; };
  for (const Term& term : other.terms) {
    most = most == nullptr || more(term) > more(*most) ? &term : most;
  }
  return microseconds(other.step_us - best.step_us) + " us slower, most of it " + std::string(most->name) + ": " +
         microseconds(most->us) + " instead of " + microseconds(best.terms[most->name]) + " us";
}

PlannedNetwork choose_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                           const Constraints& constraints, Effort effort) {
  return choose_of(std::type_identity<RecurrentPlan>{}, chip, network, rows, constraints, effort);
}

bool any_plan_fits(const Chip& chip, const Recurrent& network, const RowProfile& rows, const Constraints& constraints) {
  return choose_plan(chip, network, rows, constraints, Effort::whether_fits).prediction.footprint.fits;
}

PlannedNetwork fastest_library(const Chip& chip, const Recurrent& network) {
  std::optional<PlannedNetwork> best;
  const auto offer = [&](const RecurrentPlan& plan) {
    PlannedNetwork other{network, plan, predict(chip, network, plan)};
    if (!best || is_better(other.prediction, best->prediction)) {
      best = std::move(other);
    }
  };
  offer(CublasPlan{});
  offer(CudnnPlan{});
  offer(CusparsePlan{});
  return *best;
}

std::vector<RankedPlan> rank_families(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                      const Constraints& constraints) {
  std::vector<RankedPlan> ranking;
  for (Ranked<RecurrentPlan>& ranked : rank_of(std::type_identity<RecurrentPlan>{}, chip, network, rows, constraints)) {
    ranking.push_back({ranked.family, std::move(ranked.planned), std::move(ranked.why)});
  }
  return ranking;
}

}  // namespace onchip
