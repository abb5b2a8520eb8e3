// SPDX-License-Identifier: Apache-2.0
// A feed-forward network's plan for a chip, of whatever family, with the program that runs it.
#pragma once

#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/unstructured_program.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/structure/structure.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct PlannedProgram {
  std::string_view family = {};  // "blocks"
  std::string text;              // of the plan
  bool uses_blocks = false;      // the class of what is computed: generic-blocks, else generic-unstructured
  StructureSummary found;        // of blocks; nothing of others
  std::vector<int> end_layers;   // of its phases
  double seconds = 0;            // that planning took: finding blocks, choosing the plan, packing
  bool cached = false;           // or reading what was found before (plan_cache.hpp)
  ProgramOfImages program;
};

// Throws InputError for what is no family of plan_network(), nor the text of a plan of blocks, nor empty.
void check_family(std::string_view family);

// Of the families in this order the first that has a kernel: blocks, where a tile fits into shared memory; streamed,
// through L2; unstructured. The first two where most weights lie in blocks, the rest then joins them. `family` names
// the only one that may be, or is the text of a plan of blocks. `activity` says which images a plan of blocks is for;
// without one it is for the challenge's. Throws DoesNotFit with each family's reason where none has a kernel,
// InputError as check_family().
PlannedProgram plan_network(const FeedForward& network, const InferenceTarget& target, std::string_view family = "",
                            const UnstructuredOptions& options = {}, const Activity* activity = nullptr);

}  // namespace onchip
