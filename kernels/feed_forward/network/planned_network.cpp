// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/planned_network.hpp"

#include "kernels/feed_forward/programs.hpp"
#include "model/base/error.hpp"

#include <memory>
#include <utility>
#include <variant>

namespace onchip {
namespace {

struct ProgramMaker {
  const FeedForward& network;
  const std::function<const NetworkStructure&()>& structure;
  PlanCache& cache;
  const InferenceTarget& target;
  const UnstructuredOptions& options;

  PlannedProgram operator()(const BlocksPlan& plan) const {
    return of_blocks(plan, blocks_program, true,
                     [&] { return blocks_geometry(network, structure(), plan.warps, 0, plan.weight_bytes); });
  }
  PlannedProgram operator()(const DenseLayerPlan& plan) const {
    return of_blocks(plan, blocks_program, false,
                     [&] { return blocks_geometry(network, structure(), plan.warps, 0, plan.weight_bytes); });
  }
  PlannedProgram operator()(const StreamedPlan& plan) const {
    return of_blocks(plan, streamed_program, true, [&] { return streamed_geometry(network, structure(), plan.chain); });
  }

  PlannedProgram operator()(const UnstructuredPlan& plan) const {
    const auto layout = std::make_shared<const UnstructuredLayout>(pack_unstructured(network, plan));
    PlannedProgram planned{.plan = plan};
    for (const UnstructuredLayout::Phase& phase : layout->phases) {
      planned.found.weights += phase.weights;
    }
    planned.program = [layout, of = options, sms = target.sms, architecture = target.architecture](int images) {
      return unstructured_program(*layout, images, sms, architecture, of);
    };
    return planned;
  }

  PlannedProgram operator()(const StagedPlan& plan) const {
    refuse_options();
    const auto layout = std::make_shared<const StagedLayout>(stage_network(network, plan));
    PlannedProgram planned{.plan = plan};
    for (int l = 0; l < network.layers(); ++l) {
      planned.found.weights += network.layer(l).weights.nnz();
    }
    planned.program = [layout, sms = target.sms, architecture = target.architecture](int images) {
      return staged_program(*layout, images, sms, architecture);
    };
    return planned;
  }

  template <OfLibrary P>
  PlannedProgram operator()(const P&) const {
    throw InputError("is a library's, no kernel; onchip measure times it");
  }

 private:
  void refuse_options() const {
    if (options.takes_lists || options.keeps_features) {
      throw InputError("takes images of 0 and 1, and keeps no features");
    }
  }

  // Layouts differ by the family, its warps and, streamed, its chain.
  template <typename P, typename Program, typename Geometry>
  PlannedProgram of_blocks(const P& plan, Program* program, bool uses_blocks, const Geometry& geometry) const {
    refuse_options();
    std::string how(P::kName);
    if constexpr (requires { plan.chain; }) {
      how += " chain=" + std::to_string(plan.chain);
    } else {
      how += " warps=" + std::to_string(plan.warps) + " weight_bytes=" + std::to_string(plan.weight_bytes);
    }
    auto [found, packed] = cache.blocks(how, [&] {
      return PackedBlocks{summary(structure()), pack_blocks(network, structure(), geometry())};
    });
    const auto layout = std::make_shared<const BlocksLayout>(std::move(packed));
    check_monotone(*layout);
    PlannedProgram planned{.plan = plan, .uses_blocks = uses_blocks, .found = found};
    planned.program = [layout, plan, program, sms = target.sms, architecture = target.architecture](int images) {
      return program(*layout, plan, images, sms, architecture);
    };
    return planned;
  }
};

}  // namespace

std::string PlannedProgram::refusals() const {
  std::string all;
  for (const RefusedPlan& of : refused) {
    all += (all.empty() ? "" : "; ") + of.plan + ": " + of.why;
  }
  return all;
}

PlannedProgram program_of(const FeedForward& network, const FeedForwardPlan& plan,
                          const std::function<const NetworkStructure&()>& structure, PlanCache& cache,
                          const InferenceTarget& target, const UnstructuredOptions& options) {
  PlannedProgram planned = std::visit(ProgramMaker{network, structure, cache, target, options}, plan);
  planned.text = to_string(plan);
  planned.end_layers = end_layers(plan);
  return planned;
}

}  // namespace onchip
