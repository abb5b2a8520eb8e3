// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/planned_network.hpp"

#include "kernels/feed_forward/blocks_program.hpp"
#include "kernels/feed_forward/network/plan_cache.hpp"
#include "kernels/feed_forward/streamed_program.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/dense_layer/dense_layer.hpp"
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
  std::string_view plan = {};  // as a text
  bool is_asked_for = false;   // the family, or a plan
  std::optional<NetworkStructure> structure = {};
  StructureSummary found = {};
  std::optional<PlanCache> cache = {};

  void check_options() const {
    if (options.takes_lists || options.keeps_features) {
      throw InputError("takes images of 0 and 1, and keeps no features");
    }
  }
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
    check_options();
    if (!cache) {
      cache.emplace(network);
    }
    return *cache;
  }
};

// Of a plan as a text: of blocks it begins with its first key.
std::string_view family_of(std::string_view plan) {
  return plan.starts_with("warps=") ? BlocksPlan::kName : plan.substr(0, plan.find(' '));
}

// Of blocks that are found, or of whole layers.
PlannedProgram planned_blocks(const Planning& of, const StructureSummary& found, BlocksLayout packed,
                              const BlocksPlan& plan) {
  check_fits(of.target.chip, packed.geometry, plan);
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
  return planned_blocks(of, found, std::move(packed), plan);
}

// Where it is not asked for, only if it is cheaper than what else runs the network.
PlannedProgram plan_dense_layer(Planning& of) {
  constexpr int kSomeImages = 60000;  // where it is not known how many there will be
  of.check_options();
  const Chip& chip = of.target.chip;
  const DenseLayer dense = dense_layer(of.network);
  const Activity activity = of.activity != nullptr ? *of.activity : given_activity(of.network, kSomeImages, 1);
  const BlocksPlan plan = !of.plan.empty() ? read_dense_layer_plan(of.plan, of.network.layers())
                                           : choose_blocks_plan(chip, dense.work, activity);
  if (!of.is_asked_for) {
    const double us = price_blocks(chip, dense.work, activity, plan).us;
    const UnstructuredPlan other = choose_unstructured_plan(chip, of.network, activity);
    if (price_unstructured(chip, of.network, unstructured_work(of.network, other), activity, other).us < us) {
      throw InputError("would take longer than unstructured");
    }
  }
  PlannedProgram planned =
      planned_blocks(of, summary(dense.structure), pack_blocks(of.network, dense.structure, dense.work.geometry), plan);
  planned.text = dense_layer_text(plan);
  planned.uses_blocks = false;
  return planned;
}

PlannedProgram plan_streamed(Planning& of) {
  PlanCache& kept = of.kept();
  const std::string name(StreamedPlan::kName);
  const auto choose = [&] { return text(choose_streamed_plan(of.target.chip, of.network, of.blocks())); };
  const StreamedPlan plan = read_streamed_plan(
      !of.plan.empty() ? std::string(of.plan) : kept.plan(name, of.target.chip, nullptr, choose), of.network.layers());
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
  const UnstructuredPlan plan = !of.plan.empty() ? read_unstructured_plan(of.plan, of.network.layers())
                                : of.activity == nullptr
                                    ? choose_unstructured_plan(of.target.chip, of.network)
                                    : choose_unstructured_plan(of.target.chip, of.network, *of.activity);
  check_fits(of.target.chip, of.network, plan);
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

void check_family(std::string_view plan) {
  constexpr std::array kNames{BlocksPlan::kName, StreamedPlan::kName, DenseLayer::kName, UnstructuredPlan::kName,
                              StagedPlan::kName};
  constexpr std::size_t kHere = 4;  // the last has a planner of its own
  const std::span here = std::span(kNames).first(kHere);
  const std::string_view family = family_of(plan);
  if (!family.empty() && std::ranges::find(here, family) == here.end()) {
    throw InputError("unknown plan '" + std::string(family) +
                     "' of a feed-forward network: expected blocks, streamed, dense_layer, unstructured, a plan of "
                     "one of them as predict prints it, or 'staged ...'" +
                     did_you_mean(family, kNames));
  }
}

PlannedProgram plan_network(const FeedForward& network, const InferenceTarget& target, std::string_view of_plan,
                            const UnstructuredOptions& options, const Activity* activity) {
  constexpr std::array kFamilies{
      std::pair(BlocksPlan::kName, &plan_blocks), std::pair(StreamedPlan::kName, &plan_streamed),
      std::pair(DenseLayer::kName, &plan_dense_layer), std::pair(UnstructuredPlan::kName, &plan_unstructured)};
  Planning planning{network, target, options, activity};
  const auto begin = std::chrono::steady_clock::now();
  check_family(of_plan);
  const std::string_view family = family_of(of_plan);
  planning.plan = of_plan == family ? "" : of_plan;
  planning.is_asked_for = !of_plan.empty();
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
