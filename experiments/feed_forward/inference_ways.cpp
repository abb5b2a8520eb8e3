// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/inference_ways.hpp"

#include "kernels/baselines/feed_forward.hpp"
#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/feed_forward/staged/price.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

namespace onchip {
namespace {

// What takes longer for sure is not run.
constexpr double kNotRunMs = 10e3;

}  // namespace

std::vector<int> only_in(const std::vector<int>& from, const std::vector<int>& less) {
  std::vector<int> left;
  std::ranges::set_difference(from, less, std::back_inserter(left));
  return left;
}

std::int64_t computed_image_layers(const InferenceTask& task, const std::vector<int>& end_layers,
                                   const Inference& inference) {
  const std::vector<int>& entering = inference.entering;
  if (!end_layers.empty()) {
    return executed_image_layers(end_layers, inference);
  }
  // Layers before the first that drops compute all images.
  const auto whole = task.network.layers() - (std::ssize(entering) - 1);
  return std::accumulate(entering.begin() + 1, entering.end(), whole * task.images.images);
}

std::int64_t executed_image_layers(const std::vector<int>& end_layers, const Inference& inference) {
  std::int64_t sum = 0;
  int first = 0;
  for (std::size_t p = 0; p < end_layers.size(); ++p) {
    sum += std::int64_t{inference.entering[p]} * (end_layers[p] - first);
    first = end_layers[p];
  }
  return sum;
}

InferenceTask inference_task(const FeedForward& network, const Inputs& inputs) {
  const Bitmaps images =
      std::holds_alternative<Bitmaps>(inputs) ? std::get<Bitmaps>(inputs) : to_bitmaps(std::get<IndexLists>(inputs));
  InferenceTask task{network, images, infer_reference(network, inputs)};
  for (int l = 0; l < network.layers(); ++l) {
    task.weights += network.layer(l).weights.nnz();
  }
  return task;
}

InferenceWay::InferenceWay(std::string name, std::string settings, std::function<Inference()> infer,
                           std::vector<int> end_layers_of)
    : way{.name = std::move(name), .settings = std::move(settings)}, end_layers(std::move(end_layers_of)) {
  way.computes = "from bitmaps in device memory to categories in host memory";
  way.sample = [infer = std::move(infer), seen = found] {
    Inference again = infer();
    seen->is_repeatable = seen->is_repeatable && (!seen->is_any || again.categories == seen->last.categories);
    seen->is_any = true;
    seen->last = std::move(again);
    return std::vector{seen->last.wall_ms};
  };
}

InferenceWay::InferenceWay(std::string name, const std::string& failure)
    : way{.name = std::move(name), .failure = failure} {}

void InferenceWay::check(const InferenceTask& task) {
  if (!way.ran()) {
    return;
  }
  const Inference& inference = found->last;
  wrongly_alive = only_in(inference.categories, task.reference.categories);
  wrongly_dead = only_in(task.reference.categories, inference.categories);
  image_layers = computed_image_layers(task, end_layers, inference);
}

std::string InferenceWay::verdict() const {
  return is_correct()           ? "right"
         : !way.ran()           ? ""
         : found->is_repeatable ? std::to_string(wrongly_alive.size()) + " wrongly alive, " +
                                      std::to_string(wrongly_dead.size()) + " wrongly dead"
                                : "not the same in each run";
}

InferenceWay time_program(const std::string& name, const std::string& settings, const InferenceTask& task,
                          const TimingOptions& timing, const InferenceProgram& program,
                          const std::vector<int>& end_layers) {
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
                   staged_program(layout, std::max(task.images.images, 1), device.sm_count, device.architecture));
  std::vector<StagedCounts> counts(layout.layers.size());
  std::vector<std::int64_t> entering(layout.layers.size(), task.images.images);
  parallel_for(static_cast<int>(counts.size()), all_cores(), [&](int l) { counts[l] = count(layout.layers[l], plan); });
  for (std::size_t l = 1; plan.compaction != Compaction::none && l < entering.size(); ++l) {
    entering[l] = static_cast<int>(l) > layout.first_drop ? task.reference.alive[l] : task.images.images;
  }
  const int registers = compile(staged_request(plan, device.architecture)).resources.registers;
  way.predicted_ms = 1e-3 * price_staged(chip, plan, counts, entering, registers).terms.total();
  way.shared_wavefronts = shared_wavefronts(plan, counts, entering);
  return way;
}

std::vector<InferenceWay> time_libraries(const InferenceTask& task, const TimingOptions& timing,
                                         const std::function<void(const std::string&)>& say) {
  const auto all = static_cast<double>(task.images.images) * task.network.layers();
  std::vector<InferenceWay> ways;
  for (const FeedForwardBaseline& baseline : feed_forward_baselines()) {
    say("timing " + baseline.name);
    try {
      const std::shared_ptr<LayerwiseInference> inference = baseline.make(task.network, task.images);
      InferenceWay dropped(baseline.name + ", dead images dropped", inference->settings(),
                           [inference] { return inference->infer(true); });
      InferenceWay kept(baseline.name + ", dead images kept", inference->settings(),
                        [inference, &task, all, seen = dropped.found] {
                          const double share =
                              seen->is_any ? static_cast<double>(computed_image_layers(task, {}, seen->last)) / all : 1;
                          const double least_ms = seen->last.wall_ms / std::max(share, 1 / all);
                          if (least_ms > kNotRunMs) {
                            throw CudaError("not run: by its time with dead images dropped it takes " +
                                            fixed(1e-3 * least_ms, 0) + " s");
                          }
                          return inference->infer(false);
                        });
      std::array both{std::move(dropped.way), std::move(kept.way)};
      time_ways(both, timing);
      dropped.way = std::move(both[0]);
      kept.way = std::move(both[1]);
      for (InferenceWay* way : {&dropped, &kept}) {
        way->check(task);
        ways.push_back(std::move(*way));
      }
    } catch (const CudaError& error) {  // no memory is an answer, too
      ways.emplace_back(baseline.name, error.what());
    }
  }
  return ways;
}

}  // namespace onchip
