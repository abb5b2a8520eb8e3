// SPDX-License-Identifier: Apache-2.0
// Plans that the compiler, too, keeps in registers. Needs no GPU.
#include "kernels/api/confirmed_plan.hpp"

#include "kernels/recurrent/program.hpp"
#include "tests/catch.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr const char* kArchitecture = "sm_90";

bool spills(const PlannedNetwork& planned) {
  return compile(compile_request(planned.network, planned.plan, kArchitecture)).resources.spills();
}

// A chip of 8 SMs and an eighth more registers than the compiler knows of: the model counts on 144 for each of 512
// threads, of which there are 128.
Chip promising_chip() {
  Chip chip = find_chip("h200").chip;
  chip.sm_count.value = 8;
  chip.registers_per_sm.value = chip.registers_per_block.value = 73728;
  return chip;
}

TEST_CASE("where the best plan spills, one is taken that leaves the compiler more registers", "[fast]") {
  const Chip chip = promising_chip();
  const Recurrent network{Cell::relu, Precision::fp16, 2048, 1, 1, 0.1};
  const RowProfile rows = RowProfile::uniform(network);
  Constraints constraints;
  constraints.family = SparsePlan::kName;
  fix<&SparsePlan::storage>(constraints, Storage::packed_pair);
  constraints.tier = Tier::registers;
  const PlannedNetwork best = choose_plan(chip, network, rows, constraints);
  const Confirmed<PlannedNetwork> confirmed = confirmed_plan(chip, network, rows, constraints, kArchitecture);
  const PlannedNetwork& kept = confirmed.chosen;
  REQUIRE(best.prediction.footprint.fits);
  REQUIRE(spills(best));
  CHECK(kept.prediction.footprint.fits);
  CHECK_FALSE(spills(kept));
  REQUIRE(confirmed.refused);
  CHECK(to_string(confirmed.refused->plan) == to_string(best.plan));
  CHECK(kept.prediction.step_us >= best.prediction.step_us);
  CHECK(kept.prediction.step_us < 1.1 * best.prediction.step_us);

  const std::vector<RankedPlan> ranking = confirmed_ranking(chip, network, rows, constraints, kArchitecture).chosen;
  const auto sparse = std::ranges::find(ranking, SparsePlan::kName, &RankedPlan::family);
  REQUIRE(sparse != ranking.end());
  CHECK(to_string(sparse->planned->plan) == to_string(kept.plan));
}

TEST_CASE("where the compiler keeps the best plan, it is taken", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const Recurrent network{Cell::relu, Precision::fp16, 2304, 1, 1, 0.03};
  const RowProfile rows = RowProfile::uniform(network);
  const PlannedNetwork best = choose_plan(chip, network, rows);
  REQUIRE_FALSE(spills(best));
  const Confirmed<PlannedNetwork> confirmed = confirmed_plan(chip, network, rows, {}, kArchitecture);
  CHECK(to_string(confirmed.chosen.plan) == to_string(best.plan));
  CHECK_FALSE(confirmed.refused);
}

}  // namespace
}  // namespace onchip
