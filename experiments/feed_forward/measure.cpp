// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/measure.hpp"

#include "experiments/measurement/compilation.hpp"
#include "experiments/measurement/interpreted/interpret.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/reports/measure_report.hpp"
#include "kernels/api/inference_plan.hpp"
#include "kernels/api/kernel_inference.hpp"
#include "kernels/baselines/feed_forward.hpp"
#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/network/fleet.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"
#include "kernels/runtime/timing.hpp"
#include "model/base/clocks.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "model/feed_forward/reference.hpp"
#include "model/feed_forward/staged/plan.hpp"
#include "model/feed_forward/staged/price.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {
namespace {

InferenceTarget target_of(const Chip& chip) {  // on the current device
  InferenceTarget target = device_target();
  target.chip = chip;
  return target;
}

InferenceTarget target_without_gpu(const Chip& chip) {
  return {chip, chip.architecture, static_cast<int>(chip.sm_count), {}, {}};
}

// ---- ways to infer, each timed and checked the same way -------------------------------------------------------------

struct InferenceTask {
  FeedForward network;
  Inputs images;                                    // bitmaps, but where they have other values than 0 and 1
  std::vector<std::int64_t> alive = {};             // [layers + 1]: images, by a sample where nothing is checked
  std::optional<std::vector<int>> categories = {};  // the reference's; none: nothing is checked
  std::int64_t weights = 0;

  int image_count() const { return onchip::image_count(images); }
  std::int64_t image_layers() const { return std::accumulate(alive.begin(), alive.end() - 1, std::int64_t{0}); }
};

// What takes longer for sure is not run.
constexpr double kNotRunMs = 10e3;

// Images of `from` that are not in `less`.
std::vector<int> only_in(const std::vector<int>& from, const std::vector<int>& less) {
  std::vector<int> left;
  std::ranges::set_difference(from, less, std::back_inserter(left));
  return left;
}

// Images that a kernel computes, summed over the layers of its phases: dead ones are dropped only between phases.
std::int64_t executed_image_layers(const std::vector<int>& end_layers, const Inference& inference) {
  std::int64_t sum = 0;
  int first = 0;
  for (std::size_t p = 0; p < end_layers.size(); ++p) {
    sum += std::int64_t{inference.entering[p]} * (end_layers[p] - first);
    first = end_layers[p];
  }
  return sum;
}

// The same of a way that has no phases, whose `entering` counts the images of each layer, where there are no
// end_layers.
std::int64_t computed_image_layers(const InferenceTask& task, const std::vector<int>& end_layers,
                                   const Inference& inference) {
  const std::vector<int>& entering = inference.entering;
  if (!end_layers.empty()) {
    return executed_image_layers(end_layers, inference);
  }
  // Layers before the first that drops compute all images.
  const auto whole = task.network.layers() - (std::ssize(entering) - 1);
  return std::accumulate(entering.begin() + 1, entering.end(), whole * task.image_count());
}

InferenceTask inference_task(const FeedForward& network, const std::string& images, const MeasureOptions& options) {
  options.say("reading " + network.name + " and its images" + (options.checks ? ", and computing the reference" : ""));
  const Inputs inputs = read_images(images, network.neurons.front());
  const auto* lists = std::get_if<IndexLists>(&inputs);
  InferenceTask task{network, lists != nullptr && is_binary(inputs) ? Inputs(to_bitmaps(*lists)) : inputs};
  if (options.checks) {
    ReferenceResult reference = infer_reference(network, inputs);
    task.alive = std::move(reference.alive);
    task.categories = std::move(reference.categories);
  } else {
    std::ranges::transform(activity_of(network, {.images = images}).alive, std::back_inserter(task.alive),
                           [](double alive) { return std::llround(alive); });
  }
  for (int l = 0; l < network.layers(); ++l) {
    task.weights += network.layer(l).weights.nnz();
  }
  return task;
}

// A way, and what its inferences said.
struct InferenceWay {
  struct Found {
    Inference last = {};
    bool is_any = false, is_repeatable = true;
  };

  Way way;  // ms
  std::shared_ptr<Found> found = std::make_shared<Found>();
  std::vector<int> end_layers = {};    // of its phases; empty: it has none
  double predicted_ms = 0;             // 0: by nothing
  std::int64_t shared_wavefronts = 0;  // predicted; 0: by nothing
  // Set by check().
  bool is_checked = false;
  std::vector<int> wrongly_alive = {}, wrongly_dead = {};
  std::int64_t image_layers = 0;  // that were computed

  // Each inference is a sample, in ms of the host's clock. `settings`: of the plan or the library.
  InferenceWay(std::string name, std::string settings, std::function<Inference()> infer,
               std::vector<int> end_layers_of = {})
      : way{.name = std::move(name), .settings = std::move(settings)}, end_layers(std::move(end_layers_of)) {
    way.computes = "from images in device memory to categories in host memory";
    way.sample = [infer = std::move(infer), seen = found] {
      Inference again = infer();
      seen->is_repeatable = seen->is_repeatable && (!seen->is_any || again.categories == seen->last.categories);
      seen->is_any = true;
      seen->last = std::move(again);
      return std::vector{seen->last.wall_ms};
    };
  }
  // That failed before it was timed.
  InferenceWay(std::string name, const std::string& failure) : way{.name = std::move(name), .failure = failure} {}

  // After it was timed, against the reference.
  void check(const InferenceTask& task) {
    if (!way.ran()) {
      return;
    }
    const Inference& inference = found->last;
    is_checked = task.categories.has_value();
    if (is_checked) {
      wrongly_alive = only_in(inference.categories, *task.categories);
      wrongly_dead = only_in(*task.categories, inference.categories);
    }
    image_layers = computed_image_layers(task, end_layers, inference);
  }

  // Of what was not checked: the same in each run.
  bool is_correct() const { return way.ran() && found->is_repeatable && wrongly_alive.empty() && wrongly_dead.empty(); }
  ColumnValue correct() const { return way.ran() && !is_checked ? ColumnValue() : ColumnValue(is_correct()); }
  // "right", or what is wrong.
  std::string verdict() const {
    return !way.ran()             ? ""
           : !is_checked          ? "not checked"
           : is_correct()         ? "right"
           : found->is_repeatable ? std::to_string(wrongly_alive.size()) + " wrongly alive, " +
                                        std::to_string(wrongly_dead.size()) + " wrongly dead"
                                  : "not the same in each run";
  }
};

// Beside its prediction for the chip, by the images that are alive in the reference; timed and checked. Each way has
// the device's memory for itself: all of them together would not fit.
InferenceWay time_program(const std::string& name, const std::string& settings, const InferenceTask& task,
                          const TimingOptions& timing, const InferenceProgram& program,
                          const std::vector<int>& end_layers = {}) {
  const auto inference = std::make_shared<InferenceExecutor>(inference_on<DeviceProgram>(program));
  inference->upload(task.images);
  InferenceWay way(
      name, settings, [inference] { return inference->infer(); }, end_layers);
  time_ways({&way.way, 1}, timing);
  way.check(task);
  return way;
}

InferenceWay time_staged(const Chip& chip, const StagedPlan& plan, const InferenceTask& task,
                         const TimingOptions& timing) {
  const DeviceInfo device = device_info();
  const StagedLayout layout = stage_network(task.network, plan);
  InferenceWay way =
      time_program(plan_text(plan), "", task, timing,
                   staged_program(layout, std::max(task.image_count(), 1), device.sm_count, device.architecture));
  std::vector<StagedCounts> counts(layout.layers.size());
  std::vector<std::int64_t> entering(layout.layers.size(), task.image_count());
  parallel_for(static_cast<int>(counts.size()), all_cores(), [&](int l) { counts[l] = count(layout.layers[l], plan); });
  for (std::size_t l = 1; plan.compaction != Compaction::none && l < entering.size(); ++l) {
    entering[l] = static_cast<int>(l) > layout.first_drop ? task.alive[l] : task.image_count();
  }
  const int registers = compile(staged_request(plan, device.architecture)).resources.registers;
  way.predicted_ms = 1e-3 * price_staged(chip, plan, counts, entering, registers).terms.total();
  way.shared_wavefronts = shared_wavefronts(plan, counts, entering);
  return way;
}

// For plans that need no structure.
ExaminedNetwork not_examined(const FeedForward& network) {
  return {.name = network.name, .layers = network.layers(), .structure = {}, .network = network};
}

// Of each library what it computes with dead images dropped and, interleaved with that, kept, or of these the
// calls that begin so (library_call()); what a library refuses has its words.
void time_libraries(const Chip& chip, const InferenceTask& task, const MeasureOptions& options, const std::string& only,
                    const std::function<void(const InferenceWay&)>& add) {
  const Activity activity{task.image_count(), {task.alive.begin(), task.alive.end()}};
  const ExaminedNetwork network = not_examined(task.network);
  const auto all = static_cast<double>(task.image_count()) * task.network.layers();
  for (const FeedForwardBaseline& baseline : feed_forward_baselines()) {
    if (!baseline.name.starts_with(only) && !only.starts_with(baseline.name + ',')) {
      continue;
    }
    options.say("timing " + baseline.name);
    try {
      const std::shared_ptr<LayerwiseInference> inference = baseline.make(task.network, task.images);
      const auto call = [&](DeadImages dead) { return baseline.name + std::string(dead_images_text(dead)); };
      InferenceWay dropped(call(DeadImages::dropped), inference->settings(),
                           [inference] { return inference->infer(true); });
      InferenceWay kept(call(DeadImages::kept), inference->settings(), [inference, &task, all, seen = dropped.found] {
        const double share = seen->is_any ? static_cast<double>(computed_image_layers(task, {}, seen->last)) / all : 1;
        const double least_ms = seen->last.wall_ms / std::max(share, 1 / all);
        if (least_ms > kNotRunMs) {
          throw CudaError("not run: by its time with dead images dropped it takes " + fixed(1e-3 * least_ms, 0) + " s");
        }
        return inference->infer(false);
      });
      std::array both{std::move(dropped.way), std::move(kept.way)};
      time_ways(both, options.timing);
      dropped.way = std::move(both[0]);
      kept.way = std::move(both[1]);
      for (InferenceWay* way : {&dropped, &kept}) {
        way->check(task);
        if (const std::optional<FeedForwardPlan> plan = plan_of_library_call(way->way.name)) {
          way->predicted_ms = 1e-3 * price_plan(chip, network, activity, *plan).us;
        }
        if (way->way.name.starts_with(only)) {
          add(*way);
        }
      }
    } catch (const CudaError& error) {  // no memory is an answer, too
      add({baseline.name, error.what()});
    }
  }
}

// ---- what they say --------------------------------------------------------------------------------------------------

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

// These images, and then all others, as they follow each other.
Inputs with_first(const Inputs& images, const std::vector<int>& first) {
  std::vector<int> all(static_cast<std::size_t>(image_count(images))), numbers = first;
  std::iota(all.begin(), all.end(), 0);
  std::ranges::set_difference(all, first, std::back_inserter(numbers));
  return images_of(images, numbers);
}

double share_of(std::int64_t of, std::int64_t all, double of_none) {
  return all == 0 ? of_none : static_cast<double>(of) / static_cast<double>(all);
}

// What the network takes with weights rounded to fp16, and how many images change their category by that.
struct RoundedWeights {
  double ms = 0;  // predicted
  std::optional<std::size_t> changed;
};

// Nothing where they are fp16 numbers, or beyond them.
std::optional<RoundedWeights> round_weights(const Chip& chip, const InferenceTask& task, const Activity& activity) {
  ExaminedNetwork network = not_examined(task.network);
  network.blocks.values.resize(static_cast<std::size_t>(network.layers));
  parallel_for(network.layers, all_cores(),
               [&](int l) { network.blocks.values[l] = values_of(task.network.layer(l).weights.value); });
  const std::optional<PlannedInference> best = with_fp16_weights(chip, network, activity, 1);
  if (!best) {
    return {};
  }
  RoundedWeights weights{1e-3 * best->price.us, {}};
  if (task.categories) {
    std::vector<int> changed;
    std::ranges::set_symmetric_difference(
        *task.categories, infer_reference(rounded_to(Precision::fp16, task.network), task.images).categories,
        std::back_inserter(changed));
    weights.changed = changed.size();
  }
  return weights;
}

// What ran on how many GPUs, and what it found.
struct MeasuredInference {
  const InferenceTask& task;
  std::string images;  // where they are from
  ImagesOnGpus on_gpus;
  const PlannedProgram& planned;
  InferenceWay inference;
  std::vector<std::pair<std::string, double>> nodes = {};  // ms of each launch alone, on one GPU
  std::optional<int> spill_bytes = {};
  double uneven = 1, planning_s = 0, reference_s = 0;
  std::optional<RoundedWeights> rounded = {};

  const StructureSummary& found() const { return planned.found; }
  const char* class_name() const { return planned.uses_blocks ? "generic-blocks" : "generic-unstructured"; }
  double in_blocks() const { return share_of(found().weights_in_blocks, found().weights, 0); }
  double fill() const { return share_of(found().weights_in_blocks, found().block_elements, 1); }
  // The challenge counts every edge times every image; executed are those of images that are not yet dropped. NaN of
  // what has no time.
  double rate(double image_layers) const {
    return static_cast<double>(found().weights) / task.network.layers() * image_layers /
           (inference.way.ran() ? 1e-3 * inference.way.time.median : NAN);
  }
  double edges_per_s() const { return rate(static_cast<double>(task.image_count()) * task.network.layers()); }
  double executed_per_s() const { return rate(static_cast<double>(inference.image_layers)); }
};

Json nodes_json(const std::vector<std::pair<std::string, double>>& nodes) {
  Json rows = Json::array();
  for (const auto& [label, ms] : nodes) {
    rows.push_back({{"node", label}, {"ms", rounded(ms)}});
  }
  return rows;
}

constexpr const char* kWallHelp = "from images in device memory to categories in host memory";

// The network, its images, its plan and what was found of its structure.
void add_what_was_run(Columns<MeasuredInference>& columns) {
  using Row = MeasuredInference;
  columns.add("network", "", "as it is asked for", [](const Row& row) { return row.task.network.name; });
  columns.add("images", "", "where they are from", &Row::images, "images/source");
  columns.add(
      "image_count", "", "how many there are", [](const Row& row) { return row.task.image_count(); }, "images/count");
  columns.add(
      "input_nnz", "", "their features that are set",
      [](const Row& row) { return std::visit([](const auto& of) { return of.nnz(); }, row.task.images); },
      "images/nnz");
  columns.add(
      "weights", "", "of all layers", [](const Row& row) { return row.found().weights; }, "structure/weights");
  columns.add("class", "", "`generic-blocks`: by a plan of blocks; `generic-unstructured`", &Row::class_name);
  columns.add("values", "", "that are read of weights, in blocks: `one value`; `coded values`, of e4m3; `fp16 values`",
              [](const Row& row) { return values_read(row.planned.plan); });
  columns.add("plan", "", "as text, which `--plan` takes", [](const Row& row) { return row.planned.text; });
  columns.add("refused", "", "plans that were predicted to be faster, and why they have no kernel",
              [](const Row& row) { return row.planned.refusals(); });
  columns.add("in_blocks", "", "share of the weights in blocks", &Row::in_blocks, "structure/in_blocks");
  columns.add("fill", "", "share of the blocks' elements that are weights", &Row::fill, "structure/fill");
  columns.add(
      "read_conflicts", "", "bank conflicts that are left in reads",
      [](const Row& row) { return row.found().reads.extra; }, "structure/read_conflicts");
  columns.add(
      "write_conflicts", "", "and in writes", [](const Row& row) { return row.found().writes.extra; },
      "structure/write_conflicts");
}

Columns<MeasuredInference> make_inference_columns() {
  using Row = MeasuredInference;
  Columns<Row> columns;
  const auto found = [](auto get) {
    return [get](const Row& row) { return to_value(std::invoke(get, row.inference.found->last)); };
  };
  add_what_was_run(columns);
  columns.add(
      "order", "", "of the images",
      [](const Row& row) { return row.on_gpus.survivors_first ? "survivors-first" : "given"; }, "gpus/order");
  columns.add(
      "gpus", "", "that share the images", [](const Row& row) { return row.on_gpus.gpus; }, "gpus/count");
  columns.add(
      "split", "", "how they share them",
      [](const Row& row) { return row.on_gpus.split == Split::dealt ? "dealt" : "contiguous"; }, "gpus/split");
  columns.add_to_json(
      "contiguous", "whether they share them so", [](const Row& row) { return row.on_gpus.split == Split::contiguous; },
      "gpus/contiguous");
  columns.add_to_json(
      "survivors_first", "whether images are in this order", [](const Row& row) { return row.on_gpus.survivors_first; },
      "gpus/survivors_first");
  columns.add("imbalance", "", "the work of the GPU with the most, over the mean", &Row::uneven, "gpus/imbalance");
  columns.add("spill_bytes", "", "of all kernels, on one GPU", &Row::spill_bytes);
  columns.add("correct", "", "whether the categories are the reference's, in each run",
              [](const Row& row) { return row.inference.correct(); });
  columns.add("verdict", "", "`right`, or what is wrong", [](const Row& row) { return row.inference.verdict(); });
  columns.add("alive", "", "images alive after the last layer",
              found([](const Inference& last) { return last.categories.size(); }), "categories");
  columns.add_to_json("wrongly_alive", "images that should be dead, from 0",
                      [](const Row& row) { return Json(row.inference.wrongly_alive); });
  columns.add_to_json("wrongly_dead", "images that should be alive",
                      [](const Row& row) { return Json(row.inference.wrongly_dead); });
  columns.add("undecided_narrow", "", "undecided images: the bounds of one 16-bit half do not tell",
              found(&Inference::undecided_narrow), "undecided/narrow");
  columns.add("undecided_wide", "", "those of two halves: computed in the reference's order",
              found(&Inference::undecided_wide), "undecided/wide");
  columns.add(
      "image_layers", "", "images alive before each layer, summed",
      [](const Row& row) { return row.task.image_layers(); }, "image_layers/reference");
  columns.add(
      "executed_image_layers", "", "those not yet dropped", [](const Row& row) { return row.inference.image_layers; },
      "image_layers/executed");
  columns.add_time(
      "wall_ms", "ms", kWallHelp, [](const Row& row) { return row.inference.way.time; }, "measured/wall_ms", "low_ms",
      "high_ms");
  columns.add_to_json("entering", "images that enter each phase",
                      found([](const Inference& last) { return Json(last.entering); }), "measured/entering");
  columns.add_to_json(
      "nodes", "ms of each launch alone, on one GPU", [](const Row& row) { return nodes_json(row.nodes); },
      "measured/nodes");
  columns.add("tera_edges_per_s", "", "as the challenge counts: all weights for all images",
              [](const Row& row) { return 1e-12 * row.edges_per_s(); });
  columns.add("tera_macs_per_s", "", "multiply-adds executed",
              [](const Row& row) { return 1e-12 * row.executed_per_s(); });
  columns.add("fp16_ms", "ms", "predicted with weights rounded to fp16, where they are no such numbers",
              [](const Row& row) { return row.rounded ? ColumnValue(row.rounded->ms) : ColumnValue(); });
  columns.add("fp16_changes", "", "categories that this changes, by the reference", [](const Row& row) {
    return row.rounded && row.rounded->changed ? ColumnValue(*row.rounded->changed) : ColumnValue();
  });
  columns.add("planning_s", "s", "to find blocks, choose the plan and pack",
              [](const Row& row) { return rounded(row.planned.seconds, 3); });
  columns.add("planning_cached", "", "or to read what was found before",
              [](const Row& row) { return row.planned.cached; });
  columns.add("compiling_s", "s", "to compile what is planned",
              [](const Row& row) { return rounded(row.planning_s - row.planned.seconds, 3); });
  columns.add("reference_s", "s", "to compute the reference on the CPU",
              [](const Row& row) { return rounded(row.reference_s, 3); });
  columns.add("refusal", "", "why there is no time", [](const Row& row) { return row.inference.way.failure; });
  return columns;
}

// A way beside others.
struct InferenceBeside {
  const InferenceTask& task;
  std::string images;
  const InferenceWay& way;
};

Columns<InferenceBeside> make_way_columns() {
  using Row = InferenceBeside;
  Columns<Row> columns;
  const auto if_ran = [](auto get) {
    return [get](const Row& row) { return row.way.way.ran() ? to_value(std::invoke(get, row.way)) : ColumnValue(); };
  };
  columns.add(
      "network", "", "as it is asked for", [](const Row& row) { return row.task.network.name; }, "", In::csv);
  columns.add("images", "", "where they are from", &Row::images, "", In::csv);
  columns.add("way", "", "our plan's family, the plan of the method of 2020, or a library's call",
              [](const Row& row) { return row.way.way.name; });
  columns.add("settings", "", "our plan, or what the library says",
              [](const Row& row) { return row.way.way.settings; });
  columns.add("correct", "", "whether the categories are the reference's, in each run",
              [](const Row& row) { return row.way.correct(); });
  columns.add("wrong_alive", "", "images that should be dead",
              if_ran([](const InferenceWay& way) { return way.wrongly_alive.size(); }));
  columns.add("wrong_dead", "", "images that should be alive",
              if_ran([](const InferenceWay& way) { return way.wrongly_dead.size(); }));
  columns.add_to_json("wrongly_alive", "which these are",
                      if_ran([](const InferenceWay& way) { return Json(way.wrongly_alive); }));
  columns.add_to_json("wrongly_dead", "which these are",
                      if_ran([](const InferenceWay& way) { return Json(way.wrongly_dead); }));
  columns.add("image_layers", "", "images that each layer computed, summed", if_ran(&InferenceWay::image_layers));
  columns.add_time(
      "wall_ms", "ms", kWallHelp, [](const Row& row) { return row.way.way.time; }, "", "low_ms", "high_ms");
  columns.add("tera_edges_per_s", "", "as the challenge counts: all weights for all images", [](const Row& row) {
    const double edges = static_cast<double>(row.task.weights) * row.task.image_count();
    return row.way.way.ran() ? ColumnValue(1e-12 * edges / (1e-3 * row.way.way.time.median)) : ColumnValue();
  });
  columns.add("predicted_ms", "ms", "of the method of 2020, and of what has a price of libraries", [](const Row& row) {
    return row.way.predicted_ms > 0 ? ColumnValue(row.way.predicted_ms) : ColumnValue();
  });
  columns.add_to_json("shared_wavefronts", "predicted, of the method of 2020", [](const Row& row) {
    return row.way.predicted_ms > 0 ? ColumnValue(row.way.shared_wavefronts) : ColumnValue();
  });
  columns.add("verdict", "", "`right`, or what is wrong", [](const Row& row) { return row.way.verdict(); });
  columns.add("note", "", "why it has few samples", [](const Row& row) { return row.way.way.note; });
  columns.add("refusal", "", "why it has no time", [](const Row& row) { return row.way.way.failure; });
  return columns;
}

}  // namespace

std::vector<ColumnGroup> inference_column_groups() {
  return {
      make_inference_columns().group("feed-forward networks"),
      make_way_columns().group("feed-forward networks, with --baselines or a plan of layers: staged, of a library")};
}

int interpret_feed_forward(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                           const InferenceConstraints& constraints, const MeasureOptions& options, Output& output) {
  const FeedForward network = read_network(network_text);
  const InferenceTask task = inference_task(network, images_text, options);
  const Activity activity = activity_of(network, {.images = images_text});
  InferenceTarget target = target_without_gpu(chip.chip);
  target.architecture = kInterpretedArchitecture;
  const PlannedProgram planned =
      plan_inference(network, target, plan_images(activity), constraints, {.takes_lists = !activity.are_binary});
  const InferenceProgram program = planned.program(std::max(task.image_count(), 1));
  const auto interpreted = std::make_shared<InterpretedProgram>(program);
  InferenceExecutor executor(program, interpreted);
  executor.upload(task.images);
  options.say("executing " + planned.text);
  InferenceWay way(
      std::string(planned.family()), planned.text, [&] { return executor.infer(); }, planned.end_layers);
  way.way.sample();
  way.way.time.samples = 1;  // whose time says nothing
  way.check(task);
  std::uint64_t instructions = 0;
  for (const InterpretedProgram::Launch& launch : interpreted->launches()) {
    instructions += launch.counts.lane_instructions;
  }
  const std::vector<std::pair<std::string, std::string>> shown{
      {"chip", chip.chip.name},
      {"network", network.name},
      {"images", images_text},
      {"plan", planned.text},
      {"refused", planned.refusals()},
      {"alive", std::to_string(way.found->last.categories.size())},
      {"thread_instructions", std::to_string(instructions)},
      {"verdict", way.verdict()}};
  Report report{.text = network.name + ", interpreted\n\n", .csv = {{}, {{}}}, .json = Json::object()};
  for (const auto& [name, value] : shown) {
    report.text += name + std::string(21 - name.size(), ' ') + value + '\n';
    report.csv.columns.push_back(name);
    report.csv.rows.front().push_back(value);
    report.json[name] = is_number(value) ? Json(std::stoull(value)) : Json(value);
  }
  output.write(report);
  return way.is_correct() ? 0 : 1;
}

int compile_feed_forward(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                         const InferenceConstraints& constraints, Output& output) {
  const FeedForward network = read_network(network_text);
  const Activity activity = activity_of(network, {.images = images_text});
  const InferenceTarget target = target_without_gpu(chip.chip);
  const PlannedProgram planned =
      plan_inference(network, target, plan_images(activity), constraints, {.takes_lists = !activity.are_binary});
  std::vector<CompileRequest> requests;
  std::set<std::string> known;
  for (const ProgramKernel& kernel : planned.program(std::max(activity.images, 1)).kernels) {
    if (known.insert(fingerprint(kernel.request)).second) {
      requests.push_back(kernel.request);
    }
  }
  const std::vector<CompileOutcome> outcomes = compile_all(requests, [](std::size_t) {});
  Report report{
      .text = {}, .csv = {{"network", "plan", "refused", "kernel", "registers", "spill_bytes"}, {}}, .json = {}};
  report.json = {
      {"network", network.name}, {"plan", planned.text}, {"refused", planned.refusals()}, {"kernels", Json::array()}};
  Table table{{"kernel", "registers", "bytes spilled"}, {}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!outcomes[i].problem.empty()) {
      throw CudaError(outcomes[i].problem);
    }
    const ResourceReport& needs = outcomes[i].kernel.resources;
    const std::string name(requests[i].name), registers = std::to_string(needs.registers),
                                              spilled = std::to_string(needs.spill_bytes);
    table.rows.push_back({name, registers, spilled});
    report.csv.rows.push_back({network.name, planned.text, planned.refusals(), name, registers, spilled});
    report.json["kernels"].push_back(
        {{"kernel", name}, {"registers", needs.registers}, {"spill_bytes", needs.spill_bytes}});
  }
  report.text = network.name + ", compiled for " + target.architecture + "\n\nplan  " + planned.text + '\n' +
                (planned.refused.empty() ? "" : "not   " + planned.refusals() + '\n') + '\n' + to_aligned(table);
  output.write(report);
  return 0;
}

int measure_feed_forward(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                         const ImagesOnGpus& on_gpus, const InferenceConstraints& constraints,
                         const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  const FeedForward network = read_network(network_text);
  const double checking = wall_seconds();
  InferenceTask task = inference_task(network, images_text, options);
  const double reference_s = wall_seconds() - checking;
  if (on_gpus.survivors_first) {
    task.images = with_first(task.images, task.categories.value());
    std::iota(task.categories->begin(), task.categories->end(), 0);
  }
  options.say("planning " + network.name);
  const InferenceTarget target = target_of(chip.chip);
  const Activity of_share = largest_share(activity_of(network, {.images = images_text}), on_gpus.gpus);
  const double planning = wall_seconds();
  const PlannedProgram planned =
      plan_inference(network, target, plan_images(of_share), constraints, {.takes_lists = !of_share.are_binary});
  const double planning_s = wall_seconds() - planning;  // with what is compiled to see that it does not spill
  options.say("compiling and loading " + network.name);
  if (const int have = gpu_count(); on_gpus.gpus > have) {
    throw InputError("--gpus " + std::to_string(on_gpus.gpus) + ": this machine has " + std::to_string(have));
  }
  std::shared_ptr<DeviceProgram> device;
  double uneven = 1;
  std::function<Inference()> infer;
  if (on_gpus.gpus > 1) {
    const auto fleet = std::make_shared<Fleet>(planned.program, on_gpus.gpus, task.images, load_on_gpu, on_gpus.split);
    infer = [fleet, &planned, &uneven] {
      FleetInference result = fleet->infer();
      uneven = imbalance(planned.end_layers, result.each);
      return std::move(result.all);
    };
  } else {
    const InferenceProgram program = planned.program(std::max(task.image_count(), 1));
    device = std::make_shared<DeviceProgram>(program);
    const auto one = std::make_shared<InferenceExecutor>(program, device);
    one->upload(task.images);
    infer = [one] { return one->infer(); };
  }
  InferenceWay inference(std::string(planned.family()), planned.text, std::move(infer), planned.end_layers);
  time_ways({&inference.way, 1}, options.timing);
  inference.check(task);
  MeasuredInference measured{.task = task,
                             .images = images_text,
                             .on_gpus = on_gpus,
                             .planned = planned,
                             .inference = std::move(inference),
                             .uneven = uneven,
                             .planning_s = planning_s,
                             .reference_s = reference_s,
                             .rounded = round_weights(chip.chip, task, of_share)};
  if (device) {
    measured.nodes = device->node_ms();
    measured.spill_bytes = device->spill_bytes();
  }
  const Columns<MeasuredInference> columns = make_inference_columns();
  Report report;
  report.csv = columns.table({&measured, 1});
  report.json = {{"device", manifest.gpu}};
  report.json.update(columns.json(measured));
  report.text = measured_on(network.name + ", " + std::to_string(task.image_count()) + " images", manifest) +
                columns.list(measured);
  if (!measured.nodes.empty()) {
    report.text += "\nEach launch alone:\n";
    for (const auto& [label, ms] : measured.nodes) {
      report.text += "  " + label + ": " + fixed(1e3 * ms, 1) + " us\n";
    }
  }
  output.write(report);
  return measured.inference.is_correct() ? 0 : 1;
}

int measure_ways(const ChipFile& chip, const std::string& network_text, const std::string& images_text,
                 const InferenceConstraints& given, const MeasureOptions& options, Output& output) {
  const Manifest manifest = current_manifest();
  const FeedForward network = read_network(network_text);
  const InferenceTask task = inference_task(network, images_text, options);
  const auto* staged = given.plan ? std::get_if<StagedPlan>(&*given.plan) : nullptr;
  const std::string library = library_asked(given);
  const Found<StagedPlan> plan =
      staged != nullptr ? *staged
                        : choose_staged_plan(chip.chip, network, std::span(task.alive).first(network.layers()));
  if (!plan && library.empty()) {
    throw InputError("no staged plan: " + plan.why());
  }
  const Columns<InferenceBeside> columns = make_way_columns();
  const bool as_they_come = output.format() == Format::csv;
  if (as_they_come) {
    output.append(csv_line(columns.table({}).columns));
  }
  Report report;
  report.json = {{"network", network.name},
                 {"images", {{"source", images_text}, {"count", task.image_count()}}},
                 {"device", manifest.gpu},
                 {"image_layers", task.image_layers()},
                 {"ways", Json::array()}};
  Table shown;
  bool are_kernels_right = true;
  const auto add = [&](const InferenceWay& way, bool is_kernel = true) {
    const InferenceBeside row{task, images_text, way};
    are_kernels_right = are_kernels_right && (!is_kernel || !way.way.failure.empty() || way.is_correct());
    report.json["ways"].push_back(columns.json(row));
    const Table one = columns.table({&row, 1}, {"way", "wall_ms", "low_ms", "high_ms", "samples", "tera_edges_per_s",
                                                "predicted_ms", "verdict", "note", "refusal"});
    shown.columns = one.columns;
    shown.rows.push_back(one.rows.front());
    if (as_they_come) {
      output.append(csv_line(columns.cells(row)));
    } else if (way.way.ran()) {
      options.say(way.way.name + ": " + fixed(way.way.time.median, 3) + " ms");
    }
  };
  if (options.baselines) {
    options.say("timing our own plan");
    const InferenceTarget target = target_of(chip.chip);
    const Activity activity = activity_of(network, {.images = images_text});
    try {
      const PlannedProgram planned =
          plan_inference(network, target, plan_images(activity),
                         staged != nullptr || !library.empty() ? InferenceConstraints() : given,
                         {.takes_lists = !activity.are_binary});
      add(time_program(std::string(planned.family()), planned.text, task, options.timing,
                       planned.program(std::max(task.image_count(), 1)), planned.end_layers));
    } catch (const CudaError& error) {
      add({"ours", error.what()});
    }
  }
  if (library.empty() || options.baselines) {
    options.say("timing the staged plan");
    add(is_binary(task.images) ? time_staged(chip.chip, *plan, task, options.timing)
                               : InferenceWay(plan_text(*plan), "takes images of 0 and 1"));
  }
  if (options.baselines || !library.empty()) {  // which may be wrong by their arithmetic
    time_libraries(chip.chip, task, options, options.baselines ? "" : library,
                   [&](const InferenceWay& way) { add(way, !options.baselines); });
  }
  if (as_they_come) {
    output.finish();
    return are_kernels_right ? 0 : 1;
  }
  report.text = measured_on(network.name + ", " + std::to_string(task.image_count()) + " images", manifest) +
                "From images in device memory to categories in host memory, " + std::to_string(task.image_layers()) +
                " image-layers alive\n\n" + to_aligned(shown);
  output.write(report);
  return are_kernels_right ? 0 : 1;
}

}  // namespace onchip
