// SPDX-License-Identifier: Apache-2.0
// What is predicted, replayed and launched of a feed-forward network is one plan.
#include "experiments/feed_forward/simulation.hpp"
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/api/inference_plan.hpp"
#include "kernels/api/kernel_inference.hpp"
#include "model/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"

#include <map>
#include <set>
#include <string>

namespace onchip {
namespace {

InferenceTarget target_of(const Chip& chip) {
  InferenceTarget target;
  target.chip = chip;
  target.architecture = chip.architecture;
  target.sms = static_cast<int>(chip.sm_count);
  target.available_bytes = [] { return std::size_t{1} << 26; };
  target.load = inference_on<InterpretedProgram>;
  return target;
}

}  // namespace

TEST_CASE("each family's plan is the same text where it is predicted, replayed and launched", "[fast]") {
  const ChipFile chip = find_chip("h100_sxm");
  const InferenceTarget target = target_of(chip.chip);
  std::map<std::string_view, int> compared;
  for (int seed = 1; seed <= 50; ++seed) {
    const std::string text = seed % 2 == 0 ? random_blocks_network(seed, 200, 5) : random_network_text(seed, 120, 5);
    INFO(text);
    const FeedForward network = read_network(text);
    const FeedForwardQuestion question = question_of(chip, {text, {.images = "digits:300"}});
    const ExaminedNetwork& examined = *question.network;
    const Activity& activity = *question.activity;
    InferencePlanner planner(network, target, plan_images(activity));
    const auto launched = [&](const InferenceConstraints& constraints) {
      const Found<FeedForwardPlan> plan = planner.best(constraints);
      REQUIRE(plan);
      return planner.program(*plan).text;
    };
    CHECK(launched({}) == predict(question).answer.plan_text());
    for (const RankedInference& ranked : rank_plans(chip.chip, examined, activity)) {
      INFO(ranked.family);
      const InferenceConstraints of_family{.family = std::string(ranked.family)};
      if (!ranked.planned) {
        CHECK_FALSE(ranked.planned.why().empty());
        CHECK_FALSE(planner.best(of_family));
        continue;
      }
      ++compared[ranked.family];
      const std::string predicted = to_string(ranked.planned->plan);
      // As a text it is that plan, with that price.
      const InferenceConstraints given = read_inference_constraints(predicted);
      if (ranked.family.ends_with("_layers")) {  // a library's
        CHECK_THROWS_AS(launched(of_family), InputError);
        CHECK_THROWS_AS(launched(given), InputError);
      } else {
        CHECK(launched(of_family) == predicted);
        CHECK(launched(given) == predicted);
      }
      CHECK(price_plan(chip.chip, examined, activity, *given.plan).us == ranked.planned->price.us);
      if (ranked.family == BlocksPlan::kName || ranked.family == DenseLayerPlan::kName) {
        CHECK(to_string(replayed_plan(chip.chip, examined, activity, of_family)) == predicted);
      } else {
        CHECK_THROWS_AS(replayed_plan(chip.chip, examined, activity, of_family), InputError);
      }
    }
  }
  CHECK(compared.size() == std::variant_size_v<FeedForwardPlan>);
  for (const auto& [family, networks] : compared) {
    INFO(family);
    CHECK(networks >= 10);
  }
}

TEST_CASE("what C and Python run is what predict prices where no images are given", "[fast]") {
  const ChipFile chip = find_chip("h100_sxm");
  for (const char* text : {"random:neurons=50-70-20,values=uniform:-1..1,degree=9", "random:neurons=300,layers=3"}) {
    INFO(text);
    const FeedForward network = read_network(text);
    CHECK(kernel_inference(network, target_of(chip.chip))->plan() ==
          predict(question_of(chip, {text})).answer.plan_text());
  }
}

TEST_CASE("the families of a ranking follow the rule: blocks, streamed, then what is cheaper", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  const FeedForward network =
      read_network("random:neurons=128,layers=12,degree=24,blocks=16,values=0.125,bias=-0.5,clip=4");
  const ExaminedNetwork examined = examine(network);
  const Activity activity = given_activity(network, 60000, 0.1);
  std::vector<std::string_view> families;
  for (const RankedInference& ranked : rank_plans(chip, examined, activity)) {
    REQUIRE(ranked.planned);
    families.push_back(ranked.family);
  }
  REQUIRE(families.size() == std::variant_size_v<FeedForwardPlan>);
  CHECK(families[0] == "blocks");
  CHECK(families[1] == "streamed");
  CHECK(families[4] == "staged");
  CHECK(std::set(families.begin() + 5, families.end()) ==
        std::set<std::string_view>{"cublas_layers", "cusparse_layers"});
  // Where a compiler refuses a plan, the next of the ranking is the answer.
  CHECK(best_plan(chip, examined, activity, 1, {.refused = {"blocks"}})->plan.index() == 1);
  CHECK(family_name(best_plan(chip, examined, activity, 1, {.refused = {"blocks", "streamed"}})->plan) == families[2]);
  const Found<PlannedInference> none =
      best_plan(chip, examined, activity, 1, {.family = "blocks", .refused = {"blocks"}});
  CHECK_FALSE(none);
}

}  // namespace onchip
