// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/planned_network.hpp"

#include "kernels/feed_forward/blocks_program.hpp"
#include "kernels/feed_forward/network/plan_cache.hpp"
#include "kernels/feed_forward/streamed_program.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/plan/blocks_plan_text.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/feed_forward/plan/off_chip_price.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace onchip {
namespace {

// What planning a network needs again and again.
struct Planning {
  const FeedForward& network;
  const InferenceTarget& target;
  const UnstructuredOptions& options;
  const Activity* activity = nullptr;
  std::string_view plan = {};  // of blocks, as a text
  std::optional<NetworkStructure> structure = {};
  StructureSummary found = {};
  std::optional<PlanCache> cache = {};

  // Throws InputError where most weights are in no block.
  const NetworkStructure& blocks() {
    if (!structure) {
      structure = find_structure(network);
      found = summary(*structure);
    }
    found.check_mostly_blocks();
    return *structure;
  }
  PlanCache& kept() {
    if (options.takes_lists || options.keeps_features) {
      throw InputError("takes images of 0 and 1, and keeps no features");
    }
    if (!cache) {
      cache.emplace(network);
    }
    return *cache;
  }
};

bool is_blocks_text(std::string_view text) {
  return text.starts_with("warps=");
}

PlannedProgram plan_blocks(Planning& of) {
  PlanCache& kept = of.kept();
  const Chip& chip = of.target.chip;
  const auto choose = [&] {
    const BlocksGeometry geometry = blocks_geometry(of.network, of.blocks());
    return text(of.activity == nullptr
                    ? choose_blocks_plan(chip, geometry)
                    : choose_blocks_plan(chip, blocks_work(of.network, of.blocks(), geometry), *of.activity));
  };
  const std::string name(BlocksPlan::kName);
  const BlocksPlan plan = read_blocks_plan(
      !of.plan.empty() ? std::string(of.plan) : kept.plan(name, chip, of.activity, choose), of.network.layers());
  auto [found, packed] = kept.blocks(name, [&] {
    const BlocksGeometry geometry = blocks_geometry(of.network, of.blocks());
    check_fits(chip, geometry, plan);
    return PackedBlocks{of.found, pack_blocks(of.network, of.blocks(), geometry)};
  });
  check_fits(chip, packed.geometry, plan);
  const auto layout = std::make_shared<const BlocksLayout>(std::move(packed));
  check_monotone(*layout);
  PlannedProgram planned{.text = text(plan), .uses_blocks = true, .found = found, .end_layers = {}, .program = {}};
  for (const BlocksPhase& phase : plan.phases) {
    planned.end_layers.push_back(phase.end_layer);
  }
  planned.program = [layout, plan, sms = of.target.sms, architecture = of.target.architecture](int images) {
    return blocks_program(*layout, plan, images, sms, architecture);
  };
  return planned;
}

PlannedProgram plan_streamed(Planning& of) {
  PlanCache& kept = of.kept();
  const std::string name(StreamedPlan::kName);
  const StreamedPlan plan =
      read_streamed_plan(kept.plan(name, of.target.chip, nullptr,
                                   [&] { return text(choose_streamed_plan(of.target.chip, of.network, of.blocks())); }),
                         of.network.layers());
  auto [found, packed] = kept.blocks(name + " chain=" + std::to_string(plan.chain), [&] {
    const BlocksGeometry geometry = streamed_geometry(of.network, of.blocks(), plan.chain);
    return PackedBlocks{of.found, pack_blocks(of.network, of.blocks(), geometry)};
  });
  const auto layout = std::make_shared<const BlocksLayout>(std::move(packed));
  check_monotone(*layout);
  return {.text = text(plan),
          .uses_blocks = true,
          .found = found,
          .end_layers = plan.end_layers,
          .program = [layout, plan, sms = of.target.sms, architecture = of.target.architecture](int images) {
            return streamed_program(*layout, plan, images, sms, architecture);
          }};
}

PlannedProgram plan_unstructured(Planning& of) {
  const UnstructuredPlan plan = of.activity == nullptr
                                    ? choose_unstructured_plan(of.target.chip, of.network)
                                    : choose_unstructured_plan(of.target.chip, of.network, *of.activity);
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

void check_family(std::string_view family) {
  constexpr std::array kNames{BlocksPlan::kName, StreamedPlan::kName, UnstructuredPlan::kName, StagedPlan::kName};
  constexpr std::size_t kHere = 3;  // the last has a planner of its own
  const std::span here = std::span(kNames).first(kHere);
  if (!family.empty() && !is_blocks_text(family) && std::ranges::find(here, family) == here.end()) {
    throw InputError("unknown plan '" + std::string(family) +
                     "' of a feed-forward network: expected blocks, streamed, unstructured, a plan of blocks as "
                     "predict prints it, or 'staged ...'" +
                     did_you_mean(family, kNames));
  }
}

PlannedProgram plan_network(const FeedForward& network, const InferenceTarget& target, std::string_view family,
                            const UnstructuredOptions& options, const Activity* activity) {
  constexpr std::array kFamilies{std::pair(BlocksPlan::kName, &plan_blocks),
                                 std::pair(StreamedPlan::kName, &plan_streamed),
                                 std::pair(UnstructuredPlan::kName, &plan_unstructured)};
  Planning planning{network, target, options, activity};
  const auto begin = std::chrono::steady_clock::now();
  check_family(family);
  if (is_blocks_text(family)) {
    planning.plan = std::exchange(family, BlocksPlan::kName);
  }
  std::string reasons;
  for (const auto& [name, plan] : kFamilies) {
    if (!family.empty() && family != name) {
      continue;
    }
    try {
      PlannedProgram planned = plan(planning);
      planned.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      planned.cached = planning.cache && planning.cache->has_found();
      planned.family = name;
      planned.program(1);  // throws what only the program knows
      return planned;
    } catch (const InputError& reason) {
      reasons += "; " + std::string(name) + ": " + reason.what();
    }
  }
  throw DoesNotFit(network.name + " has no kernel on " + target.chip.name + reasons + "; the CPU reference runs it");
}

}  // namespace onchip
