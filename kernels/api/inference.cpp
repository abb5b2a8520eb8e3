// SPDX-License-Identifier: Apache-2.0
// The C API's feed-forward networks.
#include "kernels/api/cuda_errors.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/network_inference.hpp"
#ifdef ONCHIP_HAS_CUDA
#include "kernels/api/kernel_inference.hpp"
#endif

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

struct onchip_inference {
  std::unique_ptr<onchip::NetworkInference> inference;
};

namespace onchip {
namespace {

std::unique_ptr<NetworkInference> open_network_inference(FeedForward network, std::int32_t engine) {
#ifdef ONCHIP_HAS_CUDA
  if (engine != ONCHIP_ENGINE_REFERENCE) {
    std::optional<InferenceTarget> target;
    try {
      target = device_target();
    } catch (const CudaError&) {
      if (engine == ONCHIP_ENGINE_GPU) {
        throw;
      }
    }
    if (target) {
      return kernel_inference(std::move(network), *std::move(target));
    }
  }
#else
  if (engine == ONCHIP_ENGINE_GPU) {
    throw InputError("this library was built without CUDA; the CPU reference runs the network");
  }
#endif
  return reference_inference(std::move(network));
}

IndexLists read_images(const onchip_images* given, int neurons) {
  require_struct(given, "images");
  require_range("count", given->count, 0, std::numeric_limits<std::int32_t>::max());
  require(given->begin, "begin");
  require_range("begin[0]", given->begin[0], 0, 0);
  for (std::int32_t image = 0; image < given->count; ++image) {
    const std::int64_t begin = given->begin[image], end = given->begin[image + 1];
    if (end < begin || end - begin > neurons) {
      throw InputError("image " + std::to_string(image) + " has elements " + std::to_string(begin) + " to " +
                       std::to_string(end) + "; expected at most " + std::to_string(neurons) + ", ascending");
    }
  }
  const std::int64_t nnz = given->begin[given->count];
  IndexLists lists{neurons, {given->begin, given->begin + given->count + 1}, {}, {}};
  if (nnz > 0) {
    require(given->neuron, "neuron");
    lists.neuron.assign(given->neuron, given->neuron + nnz);
    if (given->value != nullptr) {
      lists.value.assign(given->value, given->value + nnz);
    }
  }
  return lists;
}

}  // namespace
}  // namespace onchip

using namespace onchip;

onchip_status onchip_inference_create(const char* network, std::int32_t engine, onchip_inference** inference,
                                      onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(network, "network");
    require(inference, "inference");
    require_range("engine", engine, ONCHIP_ENGINE_AUTOMATIC, ONCHIP_ENGINE_REFERENCE);
    *inference = new onchip_inference{open_network_inference(read_network(network), engine)};
  });
}

onchip_status onchip_inference_layers(const onchip_inference* inference, std::int32_t* layers, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(inference, "inference");
    require(layers, "layers");
    *layers = inference->inference->network().layers();
  });
}

onchip_status onchip_inference_neurons(const onchip_inference* inference, std::int32_t layers, std::int32_t* neurons,
                                       onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(inference, "inference");
    require(neurons, "neurons");
    const FeedForward& network = inference->inference->network();
    require_range("layers", layers, 0, network.layers());
    *neurons = network.neurons[layers];
  });
}

onchip_status onchip_inference_plan(const onchip_inference* inference, char** plan, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(inference, "inference");
    require(plan, "plan");
    *plan = copy_of(inference->inference->plan());
  });
}

onchip_status onchip_inference_categories(onchip_inference* inference, const onchip_images* images,
                                          std::int32_t* categories, std::int32_t* category_count, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(inference, "inference");
    require(category_count, "category_count");
    const IndexLists lists = read_images(images, inference->inference->network().neurons.front());
    const std::vector<int> found = inference->inference->infer(lists).categories;
    if (!found.empty()) {
      require(categories, "categories");
      std::ranges::copy(found, categories);
    }
    *category_count = static_cast<std::int32_t>(found.size());
  });
}

onchip_status onchip_inference_features(onchip_inference* inference, const onchip_images* images, std::int32_t layers,
                                        float* features, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(inference, "inference");
    require(features, "features");
    const IndexLists lists = read_images(images, inference->inference->network().neurons.front());
    std::ranges::copy(inference->inference->features(lists, layers), features);
  });
}

void onchip_inference_destroy(onchip_inference* inference) {
  delete inference;
}
