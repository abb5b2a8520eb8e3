// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/kernel_inference.hpp"

#include "kernels/feed_forward/network/planned_network.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_program.hpp"
#include "model/base/error.hpp"

#include <optional>
#include <tuple>
#include <utility>

namespace onchip {
namespace {

class KernelInference : public NetworkInference {
 public:
  KernelInference(FeedForward network, InferenceTarget target)
      : NetworkInference(std::move(network)),
        target_(std::move(target)),
        planned_(plan_network(this->network(), target_)) {}

  std::string plan() const override {
    const std::string family(planned_.family);  // which a plan of blocks does not begin with
    return planned_.text.starts_with(family) ? planned_.text : family + " " + planned_.text;
  }

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
      loaded_.emplace(
          (as_planned ? planned_ : plan_network(first_layers(network(), layers), target_, "", options)).program,
          target_);
      loaded_key_ = key;
    }
    return *loaded_;
  }

  using Key = std::tuple<int, bool, bool>;  // layers, and the options
  InferenceTarget target_;
  PlannedProgram planned_;
  Key loaded_key_;
  std::optional<BatchedInference> loaded_;
};

}  // namespace

InferenceTarget device_target() {
  const DeviceInfo device = device_info();
  int current = 0, shared_bytes = 0, l2_bytes = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&current));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, current));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, current));
  InferenceTarget target;
  target.architecture = device.architecture;
  target.sms = device.sm_count;
  target.chip.name = device.name;
  target.chip.architecture = device.architecture;
  target.chip.sm_count.value = device.sm_count;
  target.chip.smem_bytes_per_block.value = shared_bytes;
  target.chip.l2_bytes.value = l2_bytes;
  target.available_bytes = [] {
    std::size_t free = 0, total = 0;
    ONCHIP_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free - free / 10;  // allocations come in pages
  };
  target.load = inference_on<DeviceProgram>;
  return target;
}

std::unique_ptr<NetworkInference> kernel_inference(FeedForward network, InferenceTarget target) {
  return std::make_unique<KernelInference>(std::move(network), std::move(target));
}

}  // namespace onchip
