// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/planned_network.hpp"

#include "kernels/feed_forward/blocks_program.hpp"
#include "kernels/feed_forward/streamed_program.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <array>
#include <memory>
#include <optional>

namespace onchip {
namespace {

// What planning a network needs again and again.
struct Planning {
  const FeedForward& network;
  const InferenceTarget& target;
  const UnstructuredOptions& options;
  std::optional<NetworkStructure> structure = {};
  StructureSummary found = {};

  // All weights in blocks. Throws InputError where most are not by themselves.
  const NetworkStructure& blocks() {
    constexpr double kLeastInBlocks = 0.75;  // weights outside of full blocks make nearly empty ones
    if (options.takes_lists || options.keeps_features) {
      throw InputError("takes images of 0 and 1, and keeps no features");
    }
    if (!structure) {
      structure = find_structure(network);
      found = summary(*structure);
      absorb_remainder(*structure);
    }
    const auto in_blocks = static_cast<double>(found.weights_in_blocks), all = static_cast<double>(found.weights);
    if (in_blocks < kLeastInBlocks * all) {
      throw InputError(fixed(100 * in_blocks / all, 0) + " % of the weights are in rows that share their columns; " +
                       fixed(100 * kLeastInBlocks, 0) + " % must be");
    }
    return *structure;
  }
};

PlannedProgram plan_blocks(Planning& of) {
  const BlocksGeometry geometry = blocks_geometry(of.network, of.blocks());
  const BlocksPlan plan = choose_blocks_plan(of.target.chip, geometry);
  const auto layout = std::make_shared<const BlocksLayout>(pack_blocks(of.network, of.blocks(), geometry));
  check_monotone(*layout);
  PlannedProgram planned{.text = text(plan), .uses_blocks = true, .found = of.found, .end_layers = {}, .program = {}};
  for (const BlocksPhase& phase : plan.phases) {
    planned.end_layers.push_back(phase.end_layer);
  }
  planned.program = [layout, plan, sms = of.target.sms, architecture = of.target.architecture](int images) {
    return blocks_program(*layout, plan, images, sms, architecture);
  };
  return planned;
}

PlannedProgram plan_streamed(Planning& of) {
  const StreamedPlan plan = choose_streamed_plan(of.target.chip, of.network, of.blocks());
  const BlocksGeometry geometry = streamed_geometry(of.network, of.blocks(), plan.chain);
  const auto layout = std::make_shared<const BlocksLayout>(pack_blocks(of.network, of.blocks(), geometry));
  check_monotone(*layout);
  return {.text = text(plan),
          .uses_blocks = true,
          .found = of.found,
          .end_layers = plan.end_layers,
          .program = [layout, plan, sms = of.target.sms, architecture = of.target.architecture](int images) {
            return streamed_program(*layout, plan, images, sms, architecture);
          }};
}

PlannedProgram plan_unstructured(Planning& of) {
  const UnstructuredPlan plan = choose_unstructured_plan(of.target.chip, of.network);
  const auto layout = std::make_shared<const UnstructuredLayout>(pack_unstructured(of.network, plan));
  PlannedProgram planned{.text = text(plan), .uses_blocks = false, .found = {}, .end_layers = {}, .program = {}};
  for (const UnstructuredPhase& phase : plan.phases) {
    planned.end_layers.push_back(phase.end_layer);
  }
  for (const UnstructuredLayout::Phase& phase : layout->phases) {
    planned.found.weights += phase.weights;
  }
  planned.program = [layout, options = of.options, sms = of.target.sms, architecture = of.target.architecture](
                        int images) { return unstructured_program(*layout, images, sms, architecture, options); };
  return planned;
}

}  // namespace

PlannedProgram plan_network(const FeedForward& network, const InferenceTarget& target, std::string_view family,
                            const UnstructuredOptions& options) {
  constexpr std::array kFamilies{std::pair(BlocksPlan::kName, &plan_blocks),
                                 std::pair(StreamedPlan::kName, &plan_streamed),
                                 std::pair(UnstructuredPlan::kName, &plan_unstructured)};
  Planning planning{network, target, options};
  std::string reasons;
  bool is_known = family.empty();
  for (const auto& [name, plan] : kFamilies) {
    if (!family.empty() && family != name) {
      continue;
    }
    is_known = true;
    try {
      PlannedProgram planned = plan(planning);
      planned.family = name;
      planned.program(1);  // throws what only the program knows
      return planned;
    } catch (const InputError& reason) {
      reasons += "; " + std::string(name) + ": " + reason.what();
    }
  }
  if (!is_known) {
    throw InputError("unknown plan '" + std::string(family) +
                     "' of a feed-forward network: it is blocks, streamed, unstructured, or 'staged ...'");
  }
  throw DoesNotFit(network.name + " has no kernel on " + target.chip.name + reasons + "; the CPU reference runs it");
}

}  // namespace onchip
