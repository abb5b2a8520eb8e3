// SPDX-License-Identifier: Apache-2.0
// The program that runs a feed-forward network's plan, whatever its family. Plans are chosen above: kernels/api/.
#pragma once

#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/network/plan_cache.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "model/feed_forward/plan/feed_forward_plan.hpp"
#include "model/feed_forward/structure/structure.hpp"

#include <functional>
#include <string>
#include <vector>

namespace onchip {

// A plan that the model would rather have, and why no kernel is.
struct RefusedPlan {
  std::string plan, why;
};

struct PlannedProgram {
  FeedForwardPlan plan = {};
  std::string text = {};             // of the plan
  bool uses_blocks = false;          // the class of what is computed: generic-blocks, else generic-unstructured
  StructureSummary found = {};       // of blocks; of others the weights alone
  std::vector<int> end_layers = {};  // of its phases
  double seconds = 0;                // that planning took: finding blocks, choosing the plan, packing
  bool cached = false;               // or reading what was found before (plan_cache.hpp)
  std::vector<RefusedPlan> refused = {};
  ProgramOfImages program = {};

  std::string_view family() const { return family_name(plan); }
  std::string refusals() const;  // "blocks warps=16 ...: why; streamed ...: why", "" of the plan that was chosen first
};

// Of a plan that fits. structure: of the blocks that the plan is made of, asked for where their layout is not in the
// cache. Throws InputError for what no kernel computes.
PlannedProgram program_of(const FeedForward& network, const FeedForwardPlan& plan,
                          const std::function<const NetworkStructure&()>& structure, PlanCache& cache,
                          const InferenceTarget& target, const UnstructuredOptions& options = {});

}  // namespace onchip
