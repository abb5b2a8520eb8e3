// SPDX-License-Identifier: Apache-2.0
// Several ways to infer with one feed-forward network on this machine's GPU, each timed and checked the same way: from
// bitmaps in device memory to categories in host memory.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "kernels/runtime/timing.hpp"
#include "model/chip/chip.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/reference.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <cstdint>
#include <functional>
#include <memory>
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

// Images of `from` that are not in `less`.
std::vector<int> only_in(const std::vector<int>& from, const std::vector<int>& less);

// Images that a kernel computes, summed over the layers of its phases: dead ones are dropped only between phases.
std::int64_t executed_image_layers(const std::vector<int>& end_layers, const Inference& inference);
// The same of a way that has no phases, whose `entering` counts the images of each layer, where there are no
// end_layers.
std::int64_t computed_image_layers(const InferenceTask& task, const std::vector<int>& end_layers,
                                   const Inference& inference);

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
  std::vector<int> wrongly_alive = {}, wrongly_dead = {};
  std::int64_t image_layers = 0;  // that were computed

  // Each inference is a sample, in ms of the host's clock. `settings`: of the plan or the library.
  InferenceWay(std::string name, std::string settings, std::function<Inference()> infer,
               std::vector<int> end_layers = {});
  // That failed before it was timed.
  InferenceWay(std::string name, const std::string& failure);

  // After it was timed, against the reference.
  void check(const InferenceTask& task);
  bool is_correct() const { return way.ran() && found->is_repeatable && wrongly_alive.empty() && wrongly_dead.empty(); }
  // "right", or what is wrong.
  std::string verdict() const;
};

// Beside its prediction for the chip, by the images that are alive in the reference; timed and checked. Each way has
// the device's memory for itself: all of them together would not fit.
InferenceWay time_program(const std::string& name, const std::string& settings, const InferenceTask& task,
                          const TimingOptions& timing, const InferenceProgram& program,
                          const std::vector<int>& end_layers = {});
InferenceWay time_staged(const Chip& chip, const StagedPlan& plan, const InferenceTask& task,
                         const TimingOptions& timing);
// Of each library what it computes with dead images dropped and, in turns with that, kept; what a library refuses has
// its words.
std::vector<InferenceWay> time_libraries(const InferenceTask& task, const TimingOptions& timing,
                                         const std::function<void(const std::string&)>& say);

}  // namespace onchip
