// SPDX-License-Identifier: Apache-2.0
// What feed-forward kernels are measured against: libraries that compute a network layer by layer,
//   expand      bitmaps, or values, to features in device memory
//   product     sums = W features, by cuSPARSE (SpMM, each algorithm and order) or cuBLAS (dense: fp32, TF32, one
//               or two fp16 words)
//   activate    features = min(max(sums + bias, 0), clip), one kernel
//   drop        images without a feature are taken out on the device. A library wants to know from the host how many
//               there are, so that the host reads the count back after each layer; or nothing is dropped
#pragma once

#include "kernels/baselines/baseline.hpp"
#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/network.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

// How features lie in device memory (feed_forward_layerwise.cu).
struct FeatureForm {
  int words = 0;           // of fp16; 0: fp32
  bool by_neuron = false;  // [neuron][most_images], or [image][neuron]
  float scale = 1;
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
  LayerwiseInference(const FeedForward& network, const Inputs& images, std::unique_ptr<LayerProduct> product);
  Inference infer(bool drops);  // dead images; entering: images that enter each layer
  std::string settings() const { return product_->settings(); }

 private:
  DeviceFeatures features_at(int which) const { return {features_[2 * which].data(), features_[2 * which + 1].data()}; }
  template <typename Arguments>
  void launch(const Kernel& kernel, int threads, Arguments arguments) const;

  using Words = DeviceBuffer<std::uint32_t>;
  std::vector<int> neurons_;
  int images_, sms_, first_drop_ = 0;
  float clip_;
  std::unique_ptr<LayerProduct> product_;
  FeatureForm form_;
  std::optional<Kernel> expand_, activate_, drop_, compact_;
  std::vector<DeviceBuffer<float>> bias_;
  std::vector<char> is_linear_;                    // by layer
  std::vector<DeviceBuffer<std::byte>> features_;  // value and residual, then those that dropping writes
  DeviceBuffer<float> sums_;
  Words alive_, rows_, categories_, counts_;   // counts: now, next
  std::optional<Words> bitmaps_;               // of inputs, or
  std::optional<DeviceBuffer<float>> inputs_;  // [image][neuron]
  std::vector<Words> ids_;
  Stream stream_;
};

struct FeedForwardBaseline {
  std::string name;      // the library first: "cusparse SpMM CSR_ALG2 row-major"
  bool is_exact = true;  // features in fp32
  // Throws BaselineRefusal with the library's words, or where the weights take more memory than there is.
  std::function<std::unique_ptr<LayerwiseInference>(const FeedForward&, const Inputs&)> make;
};
std::vector<FeedForwardBaseline> feed_forward_baselines();

}  // namespace onchip
