// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/feed_forward.hpp"

#include "experiments/feed_forward/timed_ways.hpp"
#include "experiments/measurement/compilation.hpp"
#include "experiments/measurement/manifest.hpp"
#include "kernels/api/inference_plan.hpp"
#include "kernels/api/kernel_inference.hpp"
#include "kernels/feed_forward/network/fleet.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/base/error.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/reference.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What the GPU with the most image-layers computes, over what each of them does on average.
double imbalance(const std::vector<int>& end_layers, const std::vector<Inference>& each) {
  std::int64_t sum = 0, most = 0;
  for (const Inference& of_gpu : each) {
    const std::int64_t executed = executed_image_layers(end_layers, of_gpu);
    sum += executed;
    most = std::max(most, executed);
  }
  return sum > 0 ? static_cast<double>(most) * static_cast<double>(each.size()) / static_cast<double>(sum) : 1;
}

std::vector<int> difference(const std::vector<int>& from, const std::vector<int>& less) {
  std::vector<int> left;
  std::ranges::set_difference(from, less, std::back_inserter(left));
  return left;
}

// These images, and then all others, as they follow each other.
Bitmaps with_first(const Bitmaps& images, const std::vector<int>& first) {
  std::vector<int> all(images.images), numbers = first;
  std::iota(all.begin(), all.end(), 0);
  std::ranges::set_difference(all, first, std::back_inserter(numbers));
  return images_of(images, numbers);
}

}  // namespace

int compile_feed_forward(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                         const InferenceConstraints& constraints, Output& output) {
  const FeedForward network = read_network(network_text);
  const Activity activity = activity_of(network, {.images = images_text});
  InferenceTarget target;
  target.chip = chip.chip;
  target.architecture = chip.chip.architecture;
  target.sms = static_cast<int>(chip.chip.sm_count);
  const PlannedProgram planned = plan_inference(network, target, plan_images(activity), constraints);
  std::vector<CompileRequest> requests;
  std::set<std::string> known;
  for (const ProgramKernel& kernel : planned.program(std::max(activity.images, 1)).kernels) {
    if (known.insert(fingerprint(kernel.request)).second) {
      requests.push_back(kernel.request);
    }
  }
  const std::vector<CompileOutcome> outcomes = compile_all(requests, [](std::size_t) {});
  Report report{.text = {}, .csv = {{"network", "plan", "kernel", "registers", "spill_bytes"}, {}}, .json = {}};
  report.json = {{"network", network.name}, {"plan", planned.text}, {"kernels", Json::array()}};
  Table table{{"kernel", "registers", "bytes spilled"}, {}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (outcomes[i].problem) {
      std::rethrow_exception(outcomes[i].problem);
    }
    const ResourceReport& needs = outcomes[i].kernel.resources;
    const std::string name(requests[i].name), registers = std::to_string(needs.registers),
                                              spilled = std::to_string(needs.spill_bytes);
    table.rows.push_back({name, registers, spilled});
    report.csv.rows.push_back({network.name, planned.text, name, registers, spilled});
    report.json["kernels"].push_back(
        {{"kernel", name}, {"registers", needs.registers}, {"spill_bytes", needs.spill_bytes}});
  }
  report.text =
      network.name + ", compiled for " + target.architecture + "\n\nplan  " + planned.text + "\n\n" + to_aligned(table);
  output.write(report);
  return 0;
}

int measure_feed_forward(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                         const ImagesOnGpus& on_gpus, const InferenceConstraints& constraints,
                         const MeasureOptions& options, Output& output) {
  constexpr int kWarmUps = 3;
  const Manifest manifest = current_manifest();
  warn_of_other_chip(chip.chip, manifest);
  const FeedForward network = read_network(network_text);
  options.say("reading the images");
  const Inputs inputs = read_images(images_text, network.neurons.front());
  Bitmaps images =
      std::holds_alternative<Bitmaps>(inputs) ? std::get<Bitmaps>(inputs) : to_bitmaps(std::get<IndexLists>(inputs));
  options.say("computing the reference of " + network.name);
  const auto checking = std::chrono::steady_clock::now();
  ReferenceResult reference = infer_reference(network, inputs);
  const double reference_s = seconds_since(checking);
  if (on_gpus.survivors_first) {
    images = with_first(images, reference.categories);
    std::iota(reference.categories.begin(), reference.categories.end(), 0);
  }
  options.say("planning " + network.name);
  InferenceTarget target = device_target();
  target.chip = chip.chip;
  const Activity of_share = largest_share(activity_of(network, {.images = images_text}), on_gpus.gpus);
  const auto planning = std::chrono::steady_clock::now();
  const PlannedProgram planned = plan_inference(network, target, plan_images(of_share), constraints);
  const double planning_s = seconds_since(planning);  // with what is compiled to see that it does not spill
  const StructureSummary& found = planned.found;
  const std::string kind = planned.uses_blocks ? "generic-blocks" : "generic-unstructured";
  options.say("compiling and loading " + network.name);
  if (const int have = gpu_count(); on_gpus.gpus > have) {
    throw InputError("--gpus " + std::to_string(on_gpus.gpus) + ": this machine has " + std::to_string(have));
  }
  std::shared_ptr<DeviceProgram> device;
  std::optional<InferenceExecutor> one;
  std::optional<Fleet> fleet;
  if (on_gpus.gpus > 1) {
    fleet.emplace(planned.program, on_gpus.gpus, images, load_on_gpu, on_gpus.split);
  } else {
    const InferenceProgram program = planned.program(std::max(images.images, 1));
    device = std::make_shared<DeviceProgram>(program);
    one.emplace(program, device);
    one->upload(images);
  }
  double uneven = 1;
  const auto infer = [&] {
    if (!fleet) {
      return one->infer();
    }
    FleetInference result = fleet->infer();
    uneven = imbalance(planned.end_layers, result.each);
    return std::move(result.all);
  };

  std::vector<double> samples;
  Inference inference;
  bool is_repeatable = true;
  for (int repeat = -kWarmUps; repeat < options.repeats; ++repeat) {
    Inference again = infer();
    is_repeatable = is_repeatable && (inference.entering.empty() || again.categories == inference.categories);
    inference = std::move(again);
    if (repeat >= 0) {
      samples.push_back(inference.wall_ms);
    }
  }
  const auto nodes = device ? device->node_ms() : std::vector<std::pair<std::string, double>>();
  const Timing wall = summarize(samples);
  const std::vector<int> wrongly_alive = difference(inference.categories, reference.categories);
  const std::vector<int> wrongly_dead = difference(reference.categories, inference.categories);
  const bool is_correct = is_repeatable && wrongly_alive.empty() && wrongly_dead.empty();

  // The challenge counts every edge times every image; executed are those of images that are not yet dropped.
  const double edges = static_cast<double>(found.weights) * images.images;
  const double edges_per_s = edges / (1e-3 * wall.median);
  const std::int64_t executed = executed_image_layers(planned.end_layers, inference);
  const double per_image_layer = static_cast<double>(found.weights) / network.layers();
  const double executed_per_s = static_cast<double>(executed) * per_image_layer / (1e-3 * wall.median);
  const double in_blocks =
      found.weights == 0 ? 0 : static_cast<double>(found.weights_in_blocks) / static_cast<double>(found.weights);
  const double fill = found.block_elements == 0
                          ? 1
                          : static_cast<double>(found.weights_in_blocks) / static_cast<double>(found.block_elements);

  const std::vector<std::pair<std::string, std::string>> cells{
      {"network", network.name},
      {"images", images_text},
      {"image_count", std::to_string(images.images)},
      {"input_nnz", std::to_string(images.nnz())},
      {"weights", std::to_string(found.weights)},
      {"class", kind},
      {"values", "one per weight"},
      {"plan", planned.text},
      {"in_blocks", significant(in_blocks, 4)},
      {"fill", significant(fill, 4)},
      {"read_conflicts", std::to_string(found.reads.extra)},
      {"write_conflicts", std::to_string(found.writes.extra)},
      {"order", on_gpus.survivors_first ? "survivors-first" : "given"},
      {"gpus", std::to_string(on_gpus.gpus)},
      {"split", on_gpus.split == Split::dealt ? "dealt" : "contiguous"},
      {"imbalance", significant(uneven, 4)},
      {"spill_bytes", device ? std::to_string(device->spill_bytes()) : ""},
      {"correct", truth(is_correct)},
      {"alive", std::to_string(inference.categories.size())},
      {"open_narrow", std::to_string(inference.open_narrow)},
      {"open_wide", std::to_string(inference.open_wide)},
      {"image_layers", std::to_string(reference.image_layers())},
      {"executed_image_layers", std::to_string(executed)},
      {"wall_ms", significant(wall.median, 5)},
      {"low_ms", significant(wall.low, 5)},
      {"high_ms", significant(wall.high, 5)},
      {"samples", std::to_string(wall.samples)},
      {"tera_edges_per_s", significant(1e-12 * edges_per_s, 4)},
      {"tera_macs_per_s", significant(1e-12 * executed_per_s, 4)},
      {"planning_s", significant(planned.seconds, 3)},
      {"planning_cached", truth(planned.cached)},
      {"compiling_s", significant(planning_s - planned.seconds, 3)},
      {"reference_s", significant(reference_s, 3)}};
  Report report;
  report.csv.rows.emplace_back();
  for (const auto& [column, cell] : cells) {
    report.csv.columns.push_back(column);
    report.csv.rows[0].push_back(cell);
  }
  std::string node_text;
  Json node_rows = Json::array();
  for (const auto& [label, ms] : nodes) {
    node_rows.push_back({{"node", label}, {"ms", rounded(ms)}});
    node_text += "  " + label + ": " + fixed(1e3 * ms, 1) + " us\n";
  }
  report.json = {{"network", network.name},
                 {"images", {{"source", images_text}, {"count", images.images}, {"nnz", images.nnz()}}},
                 {"device", manifest.gpu},
                 {"gpus",
                  {{"count", on_gpus.gpus},
                   {"contiguous", on_gpus.split == Split::contiguous},
                   {"survivors_first", on_gpus.survivors_first},
                   {"imbalance", rounded(uneven)}}},
                 {"class", kind},
                 {"values", "one per weight"},
                 {"plan", planned.text},
                 {"structure",
                  {{"weights", found.weights},
                   {"in_blocks", rounded(in_blocks)},
                   {"fill", rounded(fill)},
                   {"read_conflicts", found.reads.extra},
                   {"write_conflicts", found.writes.extra}}},
                 {"correct", is_correct},
                 {"categories", inference.categories.size()},
                 {"wrongly_alive", wrongly_alive},
                 {"wrongly_dead", wrongly_dead},
                 {"open", {{"narrow", inference.open_narrow}, {"wide", inference.open_wide}}},
                 {"image_layers", {{"reference", reference.image_layers()}, {"executed", executed}}},
                 {"measured",
                  {{"wall_ms", rounded(wall.median)},
                   {"interval_ms", {rounded(wall.low), rounded(wall.high)}},
                   {"samples", wall.samples},
                   {"entering", inference.entering},
                   {"nodes", node_rows}}},
                 {"tera_edges_per_s", rounded(1e-12 * edges_per_s)},
                 {"tera_macs_per_s", rounded(1e-12 * executed_per_s)},
                 {"planning_s", rounded(planned.seconds, 3)},
                 {"planning_cached", planned.cached},
                 {"compiling_s", rounded(planning_s - planned.seconds, 3)},
                 {"reference_s", rounded(reference_s, 3)}};
  const auto listed = [](const char* what, const std::vector<int>& of) {
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(of.size(), 10); ++i) {
      text += (i == 0 ? std::string(", ") + what + " " : ", ") + std::to_string(of[i] + 1);
    }
    return text;
  };
  report.text =
      network.name + ", " + std::to_string(images.images) + " images on " + manifest.gpu + "\n\nplan        " +
      planned.text + "\nstructure   " + fixed(100 * in_blocks, 1) + " % of the weights in blocks, " +
      fixed(100 * fill, 1) + " % full; bank conflicts left: " + std::to_string(found.reads.extra) + " of " +
      std::to_string(found.reads.accesses) + " reads, " + std::to_string(found.writes.extra) + " of " +
      std::to_string(found.writes.accesses) + " writes\ncategories  " + std::to_string(inference.categories.size()) +
      " images alive, " +
      (is_correct      ? "right"
       : is_repeatable ? "WRONG"
                       : "NOT THE SAME IN EACH RUN") +
      listed("wrongly alive", wrongly_alive) + listed("wrongly dead", wrongly_dead) +
      "; not decided by bounds of one word " + std::to_string(inference.open_narrow) + ", of two " +
      std::to_string(inference.open_wide) + "\ntime        " + fixed(wall.median, 3) + " ms (95 % of " +
      std::to_string(wall.samples) + ": " + fixed(wall.low, 3) + " to " + fixed(wall.high, 3) +
      "), from bitmaps in device memory to categories in host memory" +
      (one ? "; each launch alone:\n" + node_text
           : ", on " + std::to_string(on_gpus.gpus) + " GPUs, of which one has " + fixed(uneven, 3) +
                 " times the mean work\n") +
      "rate        " + fixed(1e-12 * edges_per_s, 0) + " TeraEdges/s as the challenge counts; " +
      fixed(1e-12 * executed_per_s, 1) + " T multiply-adds/s executed, of " + std::to_string(executed) +
      " image-layers (" + std::to_string(reference.image_layers()) + " alive)\nclass       " + kind +
      ", one value per weight; planning " + fixed(planned.seconds, 2) + (planned.cached ? " s (cached)" : " s") +
      ", compiling " + fixed(planning_s - planned.seconds, 2) + " s, reference " + fixed(reference_s, 1) + " s\n";
  output.write(report);
  return is_correct ? 0 : 1;
}

}  // namespace onchip
