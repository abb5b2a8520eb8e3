// SPDX-License-Identifier: Apache-2.0
#include "kernels/api/kernel_inference.hpp"

#include "kernels/api/inference_plan.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_chip.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace onchip {
namespace {

class KernelInference : public NetworkInference {
 public:
  KernelInference(FeedForward network, InferenceTarget target, const ImagesAsked& images)
      : NetworkInference(std::move(network)),
        target_(std::move(target)),
        asked_(images),
        planned_(plan_inference(this->network(), target_, images_of_first(this->network().layers(), true))) {}

  std::string plan() const override { return planned_.text; }

  Inference infer(const Inputs& images) override {
    check(images, network().neurons.front());
    return loaded(network().layers(), {.takes_lists = !is_binary(images)}).infer(images);
  }

  std::vector<float> features(const Inputs& images, int layers) override {
    if (layers <= 0 || image_count(images) == 0) {
      return reference_inference(network())->features(images, layers);
    }
    check(images, network().neurons.front());
    std::vector<float> features;
    loaded(layers, {.takes_lists = !is_binary(images), .keeps_features = true}).infer(images, &features);
    return features;
  }

 private:
  // The one program that has the device's memory.
  BatchedInference& loaded(int layers, const UnstructuredOptions& options) {
    const Key key{layers, options.takes_lists, options.keeps_features};
    if (!loaded_ || loaded_key_ != key) {
      loaded_.reset();
      const bool as_planned = !options.takes_lists && !options.keeps_features;
      loaded_.emplace((as_planned ? planned_
                                  : plan_inference(first_layers(network(), layers), target_,
                                                   images_of_first(layers, !options.takes_lists), {}, options))
                          .program,
                      target_);
      loaded_key_ = key;
    }
    return *loaded_;
  }

  // Which images are alive after the first layers is found once, for all of them.
  PlanImages images_of_first(int layers, bool are_binary) {
    return {asked_.images + (are_binary ? "" : " of any values"), [this, layers, are_binary] {
              if (!activity_) {
                activity_ = activity_of(network(), asked_);
              }
              Activity activity = *activity_;
              activity.alive.resize(static_cast<std::size_t>(layers) + 1);
              activity.settled = std::min(activity.settled, layers);
              activity.are_binary = are_binary;
              return activity;
            }};
  }

  using Key = std::tuple<int, bool, bool>;  // layers, and the options
  InferenceTarget target_;
  ImagesAsked asked_;
  std::optional<Activity> activity_;
  PlannedProgram planned_;
  Key loaded_key_;
  std::optional<BatchedInference> loaded_;
};

}  // namespace

InferenceTarget device_target() {
  InferenceTarget target;
  target.chip = device_chip();
  target.architecture = target.chip.architecture;
  target.sms = static_cast<int>(target.chip.sm_count);
  target.available_bytes = [] {
    std::size_t free = 0, total = 0;
    ONCHIP_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free - free / 10;  // allocations come in pages
  };
  target.load = inference_on<DeviceProgram>;
  return target;
}

std::unique_ptr<NetworkInference> kernel_inference(FeedForward network, InferenceTarget target,
                                                   const ImagesAsked& images) {
  return std::make_unique<KernelInference>(std::move(network), std::move(target), images);
}

}  // namespace onchip
