// SPDX-License-Identifier: Apache-2.0
// A family that is added takes part in all that the others do, with no other file touched: docs/add-a-family.md.
#include "tests/model/toy/toy_plan.hpp"

#include "model/base/error.hpp"
#include "model/dense/family.hpp"
#include "model/families/planner.hpp"
#include "model/library/family.hpp"
#include "model/plan/search.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>
#include <vector>

using namespace onchip;

namespace {

using AnyPlan = std::variant<SparsePlan, DensePlan, CublasPlan, CudnnPlan, CusparsePlan, ToyPlan>;
constexpr std::type_identity<AnyPlan> kAny{};

const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
}

const Recurrent kSmall{Cell::relu, Precision::fp16, 48, 1, 256, 0.2},
    kLarge{Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};

Planned<AnyPlan> choose(const Recurrent& network, const Constraints& constraints = {}) {
  return choose_of(kAny, h200(), network, RowProfile::uniform(network), constraints);
}

}  // namespace

TEST_CASE("an added family's plans are written and read, beside those of the others", "[fast]") {
  const AnyPlan plan = ToyPlan{.threads = 256, .row_slots = 3, .tile_rows = 2};
  CHECK(plan_text_of(plan) == "one_block threads=256 row_slots=3 tile_rows=2");
  CHECK(parse_plan_of(kAny, plan_text_of(plan)) == plan);
  CHECK(plan_text_of(AnyPlan(ToyPlan{})) == "one_block threads=32 row_slots=1");  // tile_rows is as usual
  CHECK(std::holds_alternative<CudnnPlan>(parse_plan_of(kAny, "cudnn")));
  CHECK_THROWS_WITH(parse_plan_of(kAny, "one_blok"), "plan: unknown family 'one_blok'; did you mean 'one_block'?");
  CHECK_THROWS_WITH(parse_plan_of(kAny, "one_block thread=1"), "plan: unknown key 'thread'; did you mean 'threads'?");
  CHECK_THROWS_AS(parse_recurrent_plan("one_block"), InputError);  // which the production variant does not have
}

TEST_CASE("an added family's fields have ranges, and its rows have to fit", "[fast]") {
  CHECK_NOTHROW(check_ranges(ToyPlan{}));
  CHECK_THROWS_WITH(check_ranges(ToyPlan{.threads = 16}),
                    "plan: expected threads to be a whole number from 32 to 1024, found 16");
  CHECK_THROWS_WITH(check_ranges(ToyPlan{.tile_rows = 3}),
                    "plan: expected tile_rows to be a power of two from 1 to 8, found 3");
  CHECK_THROWS_WITH(check(kSmall, ToyPlan{.threads = 48}), "plan: expected threads in whole warps of 32, found 48");
  const RowProfile rows = RowProfile::uniform(kLarge);
  CHECK_THROWS_AS(check_rows(kLarge, ToyPlan{}, rows), InputError);
  CHECK_NOTHROW(check_rows(kLarge, ToyPlan{.row_slots = 72}, rows));
}

TEST_CASE("an added family is constrained by the fields that it has, whichever families share them", "[fast]") {
  Constraints constraints;
  fix<&SparsePlan::tile_rows>(constraints, 4);
  CHECK(why_not_possible<ToyPlan>(constraints).empty());
  constraints.family = ToyPlan::kName;
  CHECK(std::get<ToyPlan>(choose(kSmall, constraints).plan).tile_rows == 4);
  fix<&ToyPlan::threads>(constraints, 64);
  CHECK(std::get<ToyPlan>(choose(kSmall, constraints).plan).threads == 64);
  fix<&ToyPlan::threads>(constraints, 96);
  CHECK_THROWS_WITH(choose(kSmall, constraints),
                    Catch::Matchers::EndsWith("with what is asked for: one_block has 32, 64, 128, ... 1024 threads"));
  Constraints on_many;
  fix<&SparsePlan::sms>(on_many, 16);
  CHECK(why_not_possible<ToyPlan>(on_many) == "one_block has no sms");
  CHECK_FALSE(std::holds_alternative<ToyPlan>(choose(kSmall, on_many).plan));
  Constraints only_its_own;
  fix<&ToyPlan::row_slots>(only_its_own, 2);
  CHECK(std::get<ToyPlan>(choose(kSmall, only_its_own).plan).row_slots == 2);
}

TEST_CASE("an added family is priced, and chosen where it is fastest", "[fast]") {
  const Planned<AnyPlan> small = choose(kSmall);
  CAPTURE(plan_text_of(small.plan));
  REQUIRE(std::holds_alternative<ToyPlan>(small.plan));
  CHECK(small.prediction.footprint.fits);
  CHECK(small.prediction.step_us < choose_plan(h200(), kSmall, RowProfile::uniform(kSmall)).prediction.step_us);
  CHECK(small.prediction.step_us == predict_one(h200(), kSmall, std::get<ToyPlan>(small.plan)).step_us);
  double sum = 0;
  for (const Term& term : small.prediction.terms) {
    CHECK(term.us > 0);
    sum += term.us;
  }
  CHECK_THAT(sum, Catch::Matchers::WithinRel(small.prediction.step_us, 1e-12));
  CHECK(small.prediction.floor_us < small.prediction.step_us);
  // What one SM cannot hold is the others', with the same plan as without the new family.
  const Planned<AnyPlan> large = choose(kLarge);
  CHECK(plan_text_of(large.plan) == to_string(choose_plan(h200(), kLarge, RowProfile::uniform(kLarge)).plan));
}

TEST_CASE("an added family is ranked with its reason", "[fast]") {
  const auto ranking = [&](const Recurrent& network) {
    return rank_of(kAny, h200(), network, RowProfile::uniform(network), {});
  };
  const std::vector<Ranked<AnyPlan>> of_small = ranking(kSmall), of_large = ranking(kLarge);
  CHECK(of_small.size() == std::variant_size_v<AnyPlan>);
  CHECK(of_small.front().family == ToyPlan::kName);
  CHECK(of_small.front().why == "the fastest that fits");
  const auto last = std::ranges::find(of_large, ToyPlan::kName, &Ranked<AnyPlan>::family);
  REQUIRE(last == of_large.end() - 1);
  CHECK_THAT(last->why, Catch::Matchers::StartsWith("does not fit: needs ") &&
                            Catch::Matchers::EndsWith("of 232448 bytes per SM"));
}
