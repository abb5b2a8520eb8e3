// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/timed_ways.hpp"

#include "kernels/baselines/feed_forward.hpp"
#include "kernels/feed_forward/network/inference_executor.hpp"
#include "kernels/feed_forward/staged_program.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/base/units.hpp"
#include "model/feed_forward/staged/price.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <variant>

namespace onchip {
namespace {

constexpr int kRunsBefore = 3;
// After which there is no other run; what takes longer for sure is not run.
constexpr double kLongestMs = 3e3, kNotRunMs = 10e3;

std::vector<int> only_in(const std::vector<int>& from, const std::vector<int>& less) {
  std::vector<int> left;
  std::ranges::set_difference(from, less, std::back_inserter(left));
  return left;
}

}  // namespace

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

TimedWay time_inference(const std::string& name, const InferenceTask& task, int repeats,
                        const std::function<Inference()>& infer, const std::vector<int>& end_layers) {
  TimedWay way{.name = name};
  std::vector<double> samples;
  Inference inference;
  double spent_ms = 0;
  for (int run = 0; samples.empty() || (spent_ms < kLongestMs && std::ssize(samples) < repeats); ++run) {
    Inference again = infer();
    way.is_repeatable = way.is_repeatable && (run == 0 || again.categories == inference.categories);
    inference = std::move(again);
    spent_ms += inference.wall_ms;
    if (run >= kRunsBefore || spent_ms > kLongestMs) {
      samples.push_back(inference.wall_ms);
    }
  }
  way.wall_ms = summarize(samples);
  way.wrongly_alive = only_in(inference.categories, task.reference.categories);
  way.wrongly_dead = only_in(task.reference.categories, inference.categories);
  if (!end_layers.empty()) {
    way.image_layers = executed_image_layers(end_layers, inference);
    return way;
  }
  // Layers before the first that drops compute all images.
  const std::vector<int>& entering = inference.entering;
  const auto whole = task.network.layers() - (std::ssize(entering) - 1);
  way.image_layers = std::accumulate(entering.begin() + 1, entering.end(), whole * task.images.images);
  return way;
}

TimedWay time_program(const std::string& name, const InferenceTask& task, int repeats, const InferenceProgram& program,
                      const std::vector<int>& end_layers) {
  InferenceExecutor inference = inference_on<DeviceProgram>(program);
  inference.upload(task.images);
  return time_inference(
      name, task, repeats, [&] { return inference.infer(); }, end_layers);
}

TimedWay time_staged(const Chip& chip, const StagedPlan& plan, const InferenceTask& task, int repeats) {
  const DeviceInfo device = device_info();
  const StagedLayout layout = stage_network(task.network, plan);
  TimedWay way =
      time_program(plan_text(plan), task, repeats,
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

std::vector<TimedWay> time_libraries(const InferenceTask& task, int repeats,
                                     const std::function<void(const std::string&)>& say) {
  std::vector<TimedWay> ways;
  for (const FeedForwardBaseline& baseline : feed_forward_baselines()) {
    say("timing " + baseline.name);
    try {
      const auto inference = baseline.make(task.network, task.images);
      ways.push_back(time_inference(baseline.name + ", dead images dropped", task, repeats,
                                    [&] { return inference->infer(true); }));
      ways.back().settings = inference->settings();
      const std::string kept = baseline.name + ", dead images kept";
      const std::int64_t all = std::int64_t{task.images.images} * task.network.layers();
      const double least_ms = ways.back().wall_ms.median * static_cast<double>(all) /
                              static_cast<double>(std::max<std::int64_t>(1, ways.back().image_layers));
      if (least_ms > kNotRunMs) {
        ways.push_back(
            {.name = kept,
             .refusal = "not run: by its time with dead images dropped it takes " + fixed(1e-3 * least_ms, 0) + " s"});
        continue;
      }
      ways.push_back(time_inference(kept, task, repeats, [&] { return inference->infer(false); }));
      ways.back().settings = inference->settings();
    } catch (const CudaError& error) {  // no memory is an answer, too
      ways.push_back({.name = baseline.name, .refusal = error.what()});
    }
  }
  return ways;
}

}  // namespace onchip
