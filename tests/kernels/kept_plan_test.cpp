// SPDX-License-Identifier: Apache-2.0
// Plans that the compiler, too, keeps in registers. Needs no GPU.
#include "kernels/kept_plan.hpp"

#include "kernels/program.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <string>

namespace onchip {
namespace {

constexpr const char* kArchitecture = "sm_90";

bool spills(const PlannedNetwork& planned) {
  const ResourceReport report = compile(compile_request(planned.network, planned.plan, kArchitecture)).resources;
  return report.spill_bytes > 0 || report.stack_bytes > 0;
}

// Of the first the plan with the best price spills 8 bytes (NVRTC 13.0), of the second none.
TEST_CASE("where the best plan spills, one is taken that leaves the compiler more registers", "[slow]") {
  const Chip chip = find_chip("h200").chip;
  const int hidden = GENERATE(23232, 2304);
  const Network network{Cell::relu, Precision::fp16, hidden, 1, 1, 0.03};
  const RowProfile rows = RowProfile::uniform(network);
  PlanWishes wishes;
  wishes.family = Family::sparse_persistent;
  const PlannedNetwork best = choose_plan(chip, network, rows, wishes);
  const PlannedNetwork kept = choose_kept_plan(chip, network, rows, wishes, kArchitecture);
  REQUIRE(best.prediction.footprint.fits);
  CHECK(kept.prediction.footprint.fits);
  CHECK_FALSE(spills(kept));
  CHECK((to_string(kept.plan) == to_string(best.plan)) == !spills(best));
  CHECK(kept.prediction.step_us >= best.prediction.step_us);
  CHECK(kept.prediction.step_us < 1.1 * best.prediction.step_us);

  const std::vector<RankedPlan> ranking = rank_kept_families(chip, network, rows, {}, kArchitecture);
  const auto sparse = std::ranges::find(ranking, Family::sparse_persistent, &RankedPlan::family);
  REQUIRE(sparse != ranking.end());
  CHECK(to_string(sparse->planned->plan) == to_string(kept.plan));
}

}  // namespace
}  // namespace onchip
