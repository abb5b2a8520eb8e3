// SPDX-License-Identifier: Apache-2.0
// What feed-forward kernels are measured against: libraries that compute a network layer by layer,
//   expand      bitmaps to features in device memory
//   product     sums = W features, by cuSPARSE (SpMM, each algorithm and order) or cuBLAS (dense: fp32, TF32, one or
//   two
//               fp16 words)
//   activate    features = min(max(sums + bias, 0), clip), one kernel
//   drop        images without a feature are taken out on the device. A library wants to know from the host how many
//               there are, so that the host reads the count back after each layer; or nothing is dropped
#pragma once

#include "kernels/baselines/baseline.hpp"
#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/network.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

// How features lie in device memory (feed_forward_layerwise.cu).
struct FeatureForm {
  int words = 0;           // of fp16; 0: fp32
  bool by_neuron = false;  // [neuron][most_images], or [image][neuron]
  float scale = 1;
};

struct DeviceFeatures {
  void *value = nullptr, *residual = nullptr;
};

// The only parameter of feed_forward_expand, feed_forward_activate and feed_forward_drop, as they have it.
struct LayerwiseArguments {
  const std::uint32_t* bitmaps;
  const float* sums;
  DeviceFeatures from, to;
  const float* bias;
  const std::uint32_t* rows;
  std::uint32_t* alive;
  std::uint32_t images, neurons, words;
  std::uint64_t stride;
  float clip, scale;
};
// And of feed_forward_dense: dense weights [rows, columns], zero before.
struct DenseArguments {
  const std::int64_t* row_begin;
  const std::int32_t* column;
  const float* value;
  void* dense;
  std::uint32_t rows, columns;
};
CompileRequest layerwise_request(const FeatureForm& form, const std::string& architecture);

// The weights of all layers in a library's hands.
class LayerProduct {
 public:
  virtual ~LayerProduct() = default;
  virtual FeatureForm form() const = 0;
  virtual void use(cudaStream_t stream) = 0;
  // Enqueues sums = W features of a layer, for so many images; sums lie as features do, in fp32, without their scale.
  virtual void multiply(int layer, int images, const DeviceFeatures& features, float* sums) = 0;
  virtual std::string settings() const = 0;
};

// A baseline that is ready to run: memory allocated, weights and images uploaded.
class LayerwiseInference {
 public:
  // `product` must have been made for this network and at least so many images.
  LayerwiseInference(const FeedForward& network, const Bitmaps& images, std::unique_ptr<LayerProduct> product);
  ~LayerwiseInference();
  Inference infer(bool drops);  // dead images; entering: images that enter each layer
  std::string settings() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct FeedForwardBaseline {
  std::string name;      // the library first: "cusparse SpMM CSR_ALG2 row-major"
  bool is_exact = true;  // features in fp32
  // Throws BaselineRefusal with the library's words, or where the weights take more memory than there is.
  std::function<std::unique_ptr<LayerwiseInference>(const FeedForward&, const Bitmaps&)> make;
};
std::vector<FeedForwardBaseline> feed_forward_baselines();

}  // namespace onchip
