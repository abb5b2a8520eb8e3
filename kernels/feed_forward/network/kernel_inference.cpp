// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/kernel_inference.hpp"

#include "kernels/feed_forward/blocks_program.hpp"
#include "kernels/feed_forward/inference.hpp"
#include "kernels/feed_forward/streamed_program.hpp"
#include "kernels/feed_forward/unstructured_program.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <array>
#include <optional>
#include <tuple>
#include <utility>

namespace onchip {
namespace {

struct Planned {
  std::string plan;
  ProgramOfImages program;
};

Planned plan_blocks(const FeedForward& network, const InferenceTarget& target, const NetworkStructure& structure) {
  const BlocksGeometry geometry = blocks_geometry(network, structure);
  const BlocksPlan plan = choose_blocks_plan(target.chip, geometry);
  const auto layout = std::make_shared<const BlocksLayout>(pack_blocks(network, structure, geometry));
  return {std::string(BlocksPlan::kName) + " " + text(plan),
          [layout, plan, sms = target.sms, architecture = target.architecture](int images) {
            return blocks_program(*layout, plan, images, sms, architecture);
          }};
}

Planned plan_streamed(const FeedForward& network, const InferenceTarget& target, const NetworkStructure& structure) {
  const StreamedPlan plan = choose_streamed_plan(target.chip, network, structure);
  const auto layout = std::make_shared<const BlocksLayout>(
      pack_blocks(network, structure, streamed_geometry(network, structure, plan.chain)));
  return {text(plan), [layout, plan, sms = target.sms, architecture = target.architecture](int images) {
            return streamed_program(*layout, plan, images, sms, architecture);
          }};
}

// On tensor cores: with a tile's features in shared memory, or through L2 where they do not fit.
Planned plan_in_blocks(const FeedForward& network, const InferenceTarget& target, const UnstructuredOptions& options) {
  constexpr double kLeastInBlocks = 0.75;  // weights outside of full blocks make nearly empty ones
  if (options.takes_lists || options.keeps_features) {
    throw InputError("takes images of 0 and 1, and keeps no features");
  }
  NetworkStructure structure = find_structure(network);
  const StructureSummary found = summary(structure);
  const auto in_blocks = static_cast<double>(found.weights_in_blocks), all = static_cast<double>(found.weights);
  if (in_blocks < kLeastInBlocks * all) {
    throw InputError(fixed(100 * in_blocks / all, 0) + " % of the weights are in rows that share their columns; " +
                     fixed(100 * kLeastInBlocks, 0) + " % must be");
  }
  absorb_remainder(structure);
  Planned planned;
  try {
    planned = plan_blocks(network, target, structure);
  } catch (const InputError&) {
    planned = plan_streamed(network, target, structure);
  }
  planned.program(1);  // throws what only the program knows
  return planned;
}

Planned plan_unstructured(const FeedForward& network, const InferenceTarget& target,
                          const UnstructuredOptions& options) {
  const UnstructuredPlan plan = choose_unstructured_plan(target.chip, network);
  const auto layout = std::make_shared<const UnstructuredLayout>(pack_unstructured(network, plan));
  return {text(plan), [layout, options, sms = target.sms, architecture = target.architecture](int images) {
            return unstructured_program(*layout, images, sms, architecture, options);
          }};
}

// Of the families in this order, the first that has a kernel.
// Of the families in this order, the first that has a kernel.
Planned plan_network(const FeedForward& network, const InferenceTarget& target, const UnstructuredOptions& options) {
  constexpr std::array kFamilies{std::pair(BlocksPlan::kName, &plan_in_blocks),
                                 std::pair(UnstructuredPlan::kName, &plan_unstructured)};
  std::string reasons;
  for (const auto& [name, plan] : kFamilies) {
    try {
      return plan(network, target, options);
    } catch (const InputError& reason) {
      reasons += "; " + std::string(name) + ": " + reason.what();
    }
  }
  throw DoesNotFit(network.name + " has no kernel on " + target.chip.name + reasons + "; the CPU reference runs it");
}

class KernelInference : public NetworkInference {
 public:
  KernelInference(FeedForward network, InferenceTarget target)
      : NetworkInference(std::move(network)),
        target_(std::move(target)),
        planned_(plan_network(this->network(), target_, {})) {}

  std::string plan() const override { return planned_.plan; }

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
      loaded_.emplace((as_planned ? planned_ : plan_network(first_layers(network(), layers), target_, options)).program,
                      target_);
      loaded_key_ = key;
    }
    return *loaded_;
  }

  using Key = std::tuple<int, bool, bool>;  // layers, and the options
  InferenceTarget target_;
  Planned planned_;
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
  target.load = [](const InferenceProgram& program) { return std::make_unique<DeviceInference>(program); };
  return target;
}

std::unique_ptr<NetworkInference> kernel_inference(FeedForward network, InferenceTarget target) {
  return std::make_unique<KernelInference>(std::move(network), std::move(target));
}

}  // namespace onchip
