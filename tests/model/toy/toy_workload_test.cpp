// SPDX-License-Identifier: Apache-2.0
// A workload that the project does not have, with a family for it beside those of recurrences: each question goes to
// the families of its workload.
#include "model/dense/family.hpp"
#include "model/families/planner.hpp"
#include "model/plan/search.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"
#include "tests/model/toy/toy_plan.hpp"

#include <string>
#include <type_traits>
#include <variant>

namespace onchip {
namespace {

// Layers of a recurrent network, one behind another, each step of all of which is computed by one SM a layer.
struct Stack {
  Recurrent layer;
  int layers = 1;
};

std::string describe(const Stack& stack) {
  return std::to_string(stack.layers) + " layers of " + describe(stack.layer);
}

struct StackPlan {
  using Workload = Stack;
  static constexpr std::string_view kName = "block_per_layer";
  static constexpr bool kIsOnChip = true;
  ToyPlan of_layer;
};

std::span<const Field<StackPlan>> fields(const StackPlan&) {
  return {};
}

struct StackGeometry {
  ToyGeometry layer;
  int layers;
};

StackGeometry geometry(const Stack& stack, const StackPlan& plan) {
  return {geometry(stack.layer, plan.of_layer), stack.layers};
}

std::string beyond_limits(const Stack& stack, const StackPlan&) {
  return stack.layers <= 100 ? "" : "takes at most 100 layers";
}
[[maybe_unused]] void check(const Stack& stack, const StackPlan& plan) {
  check(stack.layer, plan.of_layer);
}
[[maybe_unused]] void check_rows(const Stack& stack, const StackPlan& plan, const RowProfile& rows) {
  check_rows(stack.layer, plan.of_layer, rows);
}

Footprint footprint(const Chip& chip, const StackGeometry& geometry) {
  Footprint result = footprint(chip, geometry.layer);
  result.resources[static_cast<std::size_t>(Resource::sms)].used = geometry.layers;
  conclude(result);
  return result;
}
Price price(const Chip& chip, const StackGeometry& geometry) {
  return price(chip, geometry.layer);
}

void for_each_candidate(const Chip& chip, const Stack& stack, const RowProfile& rows, const Constraints& constraints,
                        const Consider<StackPlan>& consider) {
  for_each_candidate(chip, stack.layer, rows, constraints,
                     Consider<ToyPlan>([&](const ToyPlan& of_layer) { consider({of_layer}); }));
}
StackPlan settled(const Chip&, const Stack&, const RowProfile&, const Constraints&, const StackPlan& plan) {
  return plan;
}
std::string why_none(const Chip&, const Stack&, const Constraints&, const StackPlan&) {
  return "";
}

using AnyPlan = std::variant<SparsePlan, DensePlan, ToyPlan, StackPlan>;
constexpr std::type_identity<AnyPlan> kAny;

TEST_CASE("a question goes to the families of its workload", "[fast]") {
  const Chip h200 = find_chip("h200").chip;
  const Recurrent layer{Cell::relu, Precision::fp16, 64, 1, 16, 0.5};
  const RowProfile rows = RowProfile::uniform(layer);

  const Planned<AnyPlan, Stack> stacked = choose_of(kAny, h200, Stack{layer, 100}, rows, {});
  REQUIRE(std::holds_alternative<StackPlan>(stacked.plan));
  CHECK(stacked.prediction.footprint.fits);
  CHECK(stacked.network.layers == 100);
  CHECK(std::holds_alternative<ToyPlan>(choose_of(kAny, h200, layer, rows, {}).plan));

  const auto of_stack = rank_of(kAny, h200, Stack{layer, 100}, rows, {});
  REQUIRE(of_stack.size() == 1);
  CHECK(of_stack.front().family == StackPlan::kName);
  CHECK(rank_of(kAny, h200, layer, rows, {}).size() == 3);
}

TEST_CASE("a family says what it cannot take", "[fast]") {
  const Chip h200 = find_chip("h200").chip;
  const Recurrent layer{Cell::relu, Precision::fp16, 64, 1, 16, 0.5};
  CHECK_THROWS_WITH(choose_of(kAny, h200, Stack{layer, 101}, RowProfile::uniform(layer), {}),
                    Catch::Matchers::EndsWith("block_per_layer takes at most 100 layers"));
  // Of recurrences, those that exchange a state have a largest batch; libraries take any.
  Recurrent wide = layer;
  wide.batch = kMostSamples + 1;
  CHECK_THROWS_WITH(choose_plan(h200, wide, RowProfile::uniform(wide)),
                    Catch::Matchers::Contains("sparse_persistent takes at most 64 samples") &&
                        Catch::Matchers::Contains("dense_persistent takes at most 64 samples"));
  CHECK_THROWS_WITH(check_plan(wide, SparsePlan{}), Catch::Matchers::EndsWith("takes at most 64 samples"));
  CHECK_NOTHROW(check_plan(wide, CublasPlan{}));
  CHECK(fastest_library(h200, wide).prediction.step_us > 0);
}

}  // namespace
}  // namespace onchip
