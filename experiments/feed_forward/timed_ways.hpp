// SPDX-License-Identifier: Apache-2.0
// Several ways to infer with one feed-forward network on this machine's GPU, each timed and checked the same way: from
// bitmaps in device memory to categories in host memory.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "kernels/runtime/device.hpp"
#include "model/chip/chip.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/reference.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace onchip {

struct InferenceTask {
  FeedForward network;
  Bitmaps images;
  ReferenceResult reference;
  std::int64_t weights = 0;
};
InferenceTask inference_task(const FeedForward& network, const Inputs& inputs);

struct TimedWay {
  std::string name = {}, settings = {};
  std::string refusal = {};  // why there is nothing else
  Timing wall_ms = {};
  double predicted_ms = 0;             // 0: by nothing
  std::int64_t shared_wavefronts = 0;  // predicted; 0: by nothing
  bool is_repeatable = true;
  std::vector<int> wrongly_alive = {}, wrongly_dead = {};
  std::int64_t image_layers = 0;  // that were computed

  bool is_correct() const { return refusal.empty() && is_repeatable && wrongly_alive.empty() && wrongly_dead.empty(); }
};

// Images that a kernel computes, summed over the layers of its phases: dead ones are dropped only between phases.
std::int64_t executed_image_layers(const std::vector<int>& end_layers, const Inference& inference);

// end_layers: of the phases that `entering` counts images of; empty: it counts those of each layer.
// After three runs that warm up; no other run after three seconds, so that a slow way has one sample, of its first run.
TimedWay time_inference(const std::string& name, const InferenceTask& task, int repeats,
                        const std::function<Inference()>& infer, const std::vector<int>& end_layers = {});
TimedWay time_program(const std::string& name, const InferenceTask& task, int repeats, const InferenceProgram& program,
                      const std::vector<int>& end_layers = {});
// Beside its prediction for the chip, by the images that are alive in the reference.
TimedWay time_staged(const Chip& chip, const StagedPlan& plan, const InferenceTask& task, int repeats);
// Of each library those that ran; what a library refuses has its words.
std::vector<TimedWay> time_libraries(const InferenceTask& task, int repeats,
                                     const std::function<void(const std::string&)>& say);

}  // namespace onchip
