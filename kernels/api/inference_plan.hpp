// SPDX-License-Identifier: Apache-2.0
// A feed-forward network's plan as the model chooses it (model/answer/feed_forward/), with the program that runs it: of
// the best plan that has a kernel. What was found is kept on disk (kernels/feed_forward/network/plan_cache.hpp).
#pragma once

#include "kernels/feed_forward/network/planned_network.hpp"
#include "model/answer/feed_forward/asked.hpp"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace onchip {

// The images that a plan is chosen for: under a name that tells them from others, and which of them stay alive, which
// is asked for where the plan is not known yet.
struct PlanImages {
  std::string name;
  std::function<Activity()> activity;
};
PlanImages plan_images(const FeedForward& network, const ImagesAsked& asked = {});
PlanImages plan_images(const Activity& activity);

class InferencePlanner {
 public:
  // Network and target must live as long.
  InferencePlanner(const FeedForward& network, const InferenceTarget& target, PlanImages images)
      : network_(network), target_(target), images_(std::move(images)), cache_(network) {}

  // The model's plan, before a compiler has spoken, or its reasons why there is none.
  Found<FeedForwardPlan> best(const InferenceConstraints& constraints = {});
  // Of a plan that fits. Throws InputError for what no kernel computes.
  PlannedProgram program(const FeedForwardPlan& plan, const UnstructuredOptions& options = {});
  bool has_found() const { return cache_.has_found(); }  // all that was asked for

 private:
  const ExaminedNetwork& examined(const std::optional<std::string>& family);

  const FeedForward& network_;
  const InferenceTarget& target_;
  PlanImages images_;
  PlanCache cache_;
  std::optional<Activity> activity_;
  std::optional<ExaminedNetwork> examined_;
  bool has_blocks_ = false;
};

// The first plan, by the model's rule, that a compiler has a kernel for, before it others that it refused. Throws
// DoesNotFit with each family's reason where there is none, InputError for a plan that is none of the network.
PlannedProgram plan_inference(const FeedForward& network, const InferenceTarget& target, const PlanImages& images,
                              InferenceConstraints constraints = {}, const UnstructuredOptions& options = {});

}  // namespace onchip
