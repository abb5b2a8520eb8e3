// SPDX-License-Identifier: Apache-2.0
#include "kernels/api/inference_plan.hpp"

#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"

#include <chrono>
#include <variant>
#include <vector>

namespace onchip {

PlanImages plan_images(const FeedForward& network, const ImagesAsked& asked) {
  return {asked.images, [network, asked] { return activity_of(network, asked); }};
}

PlanImages plan_images(const Activity& activity) {
  return {numbers_of(activity), [activity] { return activity; }};
}

// Where a family that needs no blocks is asked for, or images that none of blocks takes, they are not looked for.
const ExaminedNetwork& InferencePlanner::examined(const std::optional<std::string>& family) {
  const bool may_need_blocks = !activity_ || activity_->are_binary;
  const bool needs_blocks =
      may_need_blocks && (!family || *family == BlocksPlan::kName || *family == StreamedPlan::kName);
  if (!examined_ || (needs_blocks && !has_blocks_)) {
    has_blocks_ = needs_blocks;
    examined_ = needs_blocks ? examine(network_)
                             : ExaminedNetwork{.name = network_.name,
                                               .layers = network_.layers(),
                                               .structure = {},
                                               .network = network_,
                                               .problem = "its blocks were not looked for"};
  }
  return *examined_;
}

Found<FeedForwardPlan> InferencePlanner::best(const InferenceConstraints& constraints) {
  const std::optional<std::string> family =
      constraints.plan ? std::string(family_name(*constraints.plan)) : constraints.family;
  std::string what = constraints.plan ? to_string(*constraints.plan) : family.value_or("any family");
  for (const std::string_view refused : constraints.refused) {
    what += " but " + std::string(refused);
  }
  const Found<std::string> text = cache_.plan(what, target_.chip, images_.name, [&] {
    if (!activity_) {
      activity_ = images_.activity();
    }
    const Found<PlannedInference> best = best_plan(target_.chip, examined(family), *activity_, 1, constraints);
    return best ? Found<std::string>(to_string(best->plan)) : Found<std::string>::nothing(best.why());
  });
  return text ? parse_feed_forward_plan(*text) : Found<FeedForwardPlan>::nothing(text.why());
}

PlannedProgram InferencePlanner::program(const FeedForwardPlan& plan, const UnstructuredOptions& options) {
  const auto structure = [&]() -> const NetworkStructure& {
    const ExaminedNetwork& network = examined(std::string(family_name(plan)));
    return std::holds_alternative<DenseLayerPlan>(plan) ? dense_layer(network)->structure : network.blocks;
  };
  return program_of(network_, plan, structure, cache_, target_, options);
}

PlannedProgram plan_inference(const FeedForward& network, const InferenceTarget& target, const PlanImages& images,
                              InferenceConstraints constraints, const UnstructuredOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (options.keeps_features) {
    constraints = {.family = std::string(UnstructuredPlan::kName)};
  }
  InferencePlanner planner(network, target, images);
  std::vector<RefusedPlan> refused;
  std::string reasons;
  for (;;) {
    const Found<FeedForwardPlan> plan = planner.best(constraints);
    if (!plan) {
      throw DoesNotFit(network.name + " has no kernel on " + target.chip.name + reasons +
                       (plan.why().empty() ? "" : "; " + plan.why()) + "; the CPU reference runs it");
    }
    try {
      PlannedProgram planned = planner.program(*plan, options);
      planned.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      planned.cached = planner.has_found();
      planned.program(1);  // throws what only the program knows
      planned.refused = std::move(refused);
      return planned;
    } catch (const InputError& why) {
      refused.push_back({to_string(*plan), why.what()});
      reasons += "; " + std::string(family_name(*plan)) + ": " + why.what();
      constraints.refused.push_back(family_name(*plan));
    }
  }
}

}  // namespace onchip
