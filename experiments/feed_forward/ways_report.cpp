// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/ways_report.hpp"

#include "experiments/feed_forward/timed_ways.hpp"
#include "experiments/measurement/manifest.hpp"
#include "kernels/api/inference_plan.hpp"
#include "kernels/api/kernel_inference.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/staged/price.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {

int measure_ways(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                 const InferenceConstraints& given, const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  options.say("reading the network and its images, and computing the reference");
  const FeedForward network = read_network(network_text);
  const InferenceTask task = inference_task(network, read_images(images_text, network.neurons.front()));
  const auto* staged = given.plan ? std::get_if<StagedPlan>(&*given.plan) : nullptr;
  const Found<StagedPlan> plan =
      staged != nullptr
          ? *staged
          : choose_staged_plan(chip.chip, network, std::span(task.reference.alive).first(network.layers()));
  if (!plan) {
    throw InputError("no staged plan: " + plan.why());
  }
  std::vector<TimedWay> ways;
  if (options.baselines) {
    options.say("timing our own plan");
    InferenceTarget target = device_target();
    target.chip = chip.chip;
    const Activity activity = activity_of(network, {.images = images_text});
    try {
      const PlannedProgram planned =
          plan_inference(network, target, plan_images(activity), staged != nullptr ? InferenceConstraints() : given);
      ways.push_back(time_program(std::string(planned.family()), task, options.repeats,
                                  planned.program(std::max(task.images.images, 1)), planned.end_layers));
      ways.back().settings = planned.text;
    } catch (const CudaError& error) {
      ways.push_back({.name = "ours", .refusal = error.what()});
    }
  }
  options.say("timing the staged plan");
  ways.push_back(time_staged(chip.chip, *plan, task, options.repeats));
  const std::size_t kernels = ways.size();  // others may be wrong by their arithmetic
  if (options.baselines) {
    std::ranges::move(time_libraries(task, options.repeats, options.say), std::back_inserter(ways));
  }

  Report report;
  report.csv.columns = {"network",          "images",       "way",     "settings", "correct", "wrong_alive",
                        "wrong_dead",       "image_layers", "wall_ms", "low_ms",   "high_ms", "samples",
                        "tera_edges_per_s", "predicted_ms", "refusal"};
  Table shown{.columns = {"way", "ms", "95 %", "samples", "TE/s", "predicted ms", "categories"}, .rows = {}};
  Json rows = Json::array();
  for (const TimedWay& way : ways) {
    const bool ran = way.refusal.empty();
    const double edges_per_s = static_cast<double>(task.weights) * task.images.images / (1e-3 * way.wall_ms.median);
    const auto if_ran = [&](const std::string& cell) { return ran ? cell : std::string(); };
    const std::string predicted = way.predicted_ms > 0 ? significant(way.predicted_ms, 4) : "";
    report.csv.rows.push_back({network.name, images_text, way.name, way.settings, truth(way.is_correct()),
                               if_ran(std::to_string(way.wrongly_alive.size())),
                               if_ran(std::to_string(way.wrongly_dead.size())),
                               if_ran(std::to_string(way.image_layers)), if_ran(significant(way.wall_ms.median, 5)),
                               if_ran(significant(way.wall_ms.low, 5)), if_ran(significant(way.wall_ms.high, 5)),
                               if_ran(std::to_string(way.wall_ms.samples)), if_ran(significant(1e-12 * edges_per_s, 4)),
                               predicted, way.refusal});
    shown.rows.push_back({way.name, if_ran(fixed(way.wall_ms.median, 3)),
                          if_ran(fixed(way.wall_ms.low, 3) + " to " + fixed(way.wall_ms.high, 3)),
                          if_ran(std::to_string(way.wall_ms.samples)), if_ran(fixed(1e-12 * edges_per_s, 1)), predicted,
                          !ran                ? way.refusal
                          : way.is_correct()  ? "right"
                          : way.is_repeatable ? std::to_string(way.wrongly_alive.size()) + " wrongly alive, " +
                                                    std::to_string(way.wrongly_dead.size()) + " wrongly dead"
                                              : "not the same in each run"});
    Json row{{"way", way.name}, {"settings", way.settings}};
    if (ran) {
      row.update({{"correct", way.is_correct()},
                  {"wrongly_alive", way.wrongly_alive},
                  {"wrongly_dead", way.wrongly_dead},
                  {"image_layers", way.image_layers},
                  {"wall_ms", rounded(way.wall_ms.median)},
                  {"interval_ms", {rounded(way.wall_ms.low), rounded(way.wall_ms.high)}},
                  {"samples", way.wall_ms.samples},
                  {"tera_edges_per_s", rounded(1e-12 * edges_per_s)}});
    } else {
      row["refusal"] = way.refusal;
    }
    if (way.predicted_ms > 0) {
      row["predicted_ms"] = rounded(way.predicted_ms);
      row["shared_wavefronts"] = way.shared_wavefronts;
    }
    rows.push_back(std::move(row));
  }
  report.json = {{"network", network.name},
                 {"images", {{"source", images_text}, {"count", task.images.images}}},
                 {"device", manifest.gpu},
                 {"image_layers", task.reference.image_layers()},
                 {"ways", rows}};
  report.text = network.name + ", " + std::to_string(task.images.images) + " images on " + manifest.gpu +
                "\nfrom bitmaps in device memory to categories in host memory, " +
                std::to_string(task.reference.image_layers()) + " image-layers alive\n\n" + to_aligned(shown);
  output.write(report);
  const bool are_right = std::ranges::all_of(
      std::span(ways).first(kernels), [](const TimedWay& way) { return !way.refusal.empty() || way.is_correct(); });
  return are_right ? 0 : 1;
}

}  // namespace onchip
