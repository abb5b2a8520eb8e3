// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/simulation.hpp"

#include "experiments/command/output.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "model/answer/feed_forward/asked.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/reference.hpp"
#include "sim/feed_forward/blocks_trace.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {
namespace {

struct SimulatedPhase {
  int first_layer = 0;
  BlocksPhase phase;
  std::vector<LayerCounts> counts;     // of its layers
  std::optional<std::int64_t> images;  // that enter it

  int layers() const { return phase.end_layer - first_layer; }
  std::int64_t rounds(const Chip& chip) const {
    const std::int64_t at_once = phase.tile.images() * static_cast<std::int64_t>(chip.sm_count);
    return images ? (*images + at_once - 1) / at_once : 1;
  }
  template <typename Of>
  double mean(Of of) const {
    double sum = 0;
    for (const LayerCounts& layer : counts) {
      sum += static_cast<double>(of(layer));
    }
    return sum / static_cast<double>(layers());
  }
};

using Cells = std::vector<std::pair<std::string, double>>;

// Means over its layers, of one SM.
Cells cells_of(const SimulatedPhase& phase, const Chip& chip) {
  const auto conflicts = [](const BankCost& cost) { return cost.wavefronts - cost.ideal; };
  Cells cells{{"read_wavefronts", phase.mean([](const LayerCounts& layer) { return layer.reads.wavefronts; })},
              {"write_wavefronts", phase.mean([](const LayerCounts& layer) { return layer.writes.wavefronts; })},
              {"conflicts", phase.mean([&](const LayerCounts& l) { return conflicts(l.reads) + conflicts(l.writes); })},
              {"l2_bytes", phase.mean([](const LayerCounts& layer) { return layer.l2_bytes; })},
              {"instructions", phase.mean([](const LayerCounts& layer) { return layer.instructions; })}};
  if (phase.images) {
    cells.emplace_back("images", static_cast<double>(*phase.images));
    cells.emplace_back("rounds", static_cast<double>(phase.rounds(chip)));
  }
  return cells;
}

// chosen_for: images, of a plan that was not given.
Report report_of(const FeedForward& network, const Chip& chip, const FeedForwardPlan& plan,
                 const std::string& chosen_for, const StructureSummary& found,
                 const std::vector<SimulatedPhase>& phases) {
  Report report;
  report.json = {{"network", network.name},
                 {"chip", chip.name},
                 {"plan", to_json(plan)},
                 {"chosen_for", chosen_for.empty() ? Json() : Json(chosen_for)},
                 {"conflicts", {{"reads", found.reads.extra}, {"writes", found.writes.extra}}},
                 {"phases", Json::array()}};
  report.csv.columns = {"network", "chip", "plan", "first_layer", "end_layer", "tile"};
  Table per_layer{{"to layer", "tile", "wavefronts", "conflicts", "L2 KiB", "instructions"}, {}},
      of_images{{"to layer", "images", "rounds"}, {}};
  for (const SimulatedPhase& phase : phases) {
    const Cells cells = cells_of(phase, chip);
    const std::string end = std::to_string(phase.phase.end_layer);
    std::vector<std::string>& row = report.csv.rows.emplace_back(std::vector<std::string>{
        network.name, chip.name, to_string(plan), std::to_string(phase.first_layer), end, text(phase.phase.tile)});
    Json json{
        {"first_layer", phase.first_layer}, {"end_layer", phase.phase.end_layer}, {"tile", text(phase.phase.tile)}};
    if (report.csv.rows.size() == 1) {
      std::ranges::transform(cells, std::back_inserter(report.csv.columns),
                             [](const auto& cell) { return cell.first; });
    }
    const auto of = [&](const char* name) {
      return std::ranges::find(cells, name, [](const auto& cell) { return cell.first; })->second;
    };
    for (const auto& [name, value] : cells) {
      row.push_back(significant(value, 6));
      json[name] = rounded(value);
    }
    report.json["phases"].push_back(std::move(json));
    per_layer.rows.push_back({end, text(phase.phase.tile), fixed(of("read_wavefronts") + of("write_wavefronts"), 0),
                              fixed(of("conflicts"), 1), fixed(of("l2_bytes") / 1024, 1),
                              fixed(of("instructions"), 0)});
    if (phase.images) {
      of_images.rows.push_back({end, std::to_string(*phase.images), fixed(of("rounds"), 0)});
    }
  }
  report.text = network.name + " on " + chip.name + ": a tile of images on each SM\n\nplan  " + to_string(plan) +
                (chosen_for.empty() ? "" : "\n      the best for " + chosen_for) +
                "\n\nA layer, on average, of one SM:\n" + to_aligned(per_layer);
  if (!of_images.rows.empty()) {
    report.text += "\nThe phases of all images, in rounds of a tile on each SM:\n" + to_aligned(of_images);
  }
  return report;
}

}  // namespace

FeedForwardPlan replayed_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& images,
                              const InferenceConstraints& constraints) {
  const Found<PlannedInference> best = best_plan(chip, network, images, 1, constraints);
  if (!best) {
    throw InputError(network.name + " has no plan on " + chip.name + ": " + best.why());
  }
  if (!std::holds_alternative<BlocksPlan>(best->plan) && !std::holds_alternative<DenseLayerPlan>(best->plan)) {
    const Found<PlannedInference> blocks =
        best_plan(chip, network, images, 1, {.family = std::string(BlocksPlan::kName)});
    throw InputError("simulate replays plans of blocks and of dense_layer; the plan of " + network.name + " is " +
                     std::string(family_name(best->plan)) + (blocks ? "" : ": " + blocks.why()));
  }
  return best->plan;
}

int simulate_feed_forward(const Options& options, const Chip& chip, int threads) {
  Output output(options);
  Progress progress;
  const FeedForward network = read_network(network_text(options));
  progress.show("finding the structure of " + network.name);
  const ExaminedNetwork examined = examine(network);
  std::optional<ReferenceResult> reference;
  const ImagesAsked asked = options.given("images") ? ImagesAsked{.images = options.text("images")} : ImagesAsked{};
  const auto computing = [&](double done) { progress.show("which images stay alive: " + fixed(100 * done, 0) + " %"); };
  const InferenceConstraints constraints = read_inference_constraints(options.text("plan"));
  // The price of a plan that is given is not asked for.
  const Activity activity = constraints.plan ? given_activity(network, 1, 1) : activity_of(network, asked, computing);
  const FeedForwardPlan plan = replayed_plan(chip, examined, activity, constraints);
  const auto* dense = std::get_if<DenseLayerPlan>(&plan);
  const BlocksPlan& blocks = dense != nullptr ? *dense : std::get<BlocksPlan>(plan);
  const NetworkStructure& structure = dense != nullptr ? dense_layer(examined)->structure : examined.blocks;
  const BlocksLayout layout =
      pack_blocks(network, structure, blocks_geometry(network, structure, blocks.warps, 0, blocks.weight_bytes));
  if (options.given("images")) {
    const Inputs images = read_images(options.text("images"), network.neurons.front());
    ReferenceOptions of_reference;
    of_reference.threads = threads;
    of_reference.progress = computing;
    reference = infer_reference(network, images, of_reference);
  }
  std::vector<SimulatedPhase> phases;
  for (const BlocksPhase& phase : blocks.phases) {
    const int first = phases.empty() ? 0 : phases.back().phase.end_layer;
    progress.show("layers " + std::to_string(first + 1) + " to " + std::to_string(phase.end_layer));
    phases.push_back({first, phase, count_blocks(chip, layout, phase.tile, first, phase.end_layer, threads),
                      reference ? std::optional(reference->alive[static_cast<std::size_t>(first)]) : std::nullopt});
  }
  progress.clear();
  output.write(report_of(network, chip, plan, constraints.plan ? "" : asked.images, summary(structure), phases));
  return 0;
}

}  // namespace onchip
