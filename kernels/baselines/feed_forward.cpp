// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/feed_forward.hpp"

#include "kernels/baselines/libraries.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cublas.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

namespace onchip {
namespace {

constexpr int kThreads = 256, kBlocksOfSm = 8;

// ---- dense products -------------------------------------------------------------------------------------------------

struct DenseMode {
  const char* name;
  int words;  // of a feature, fp16; 0: fp32
  bool tf32;
};
constexpr std::array<DenseMode, 4> kDenseModes{
    {{"fp32", 0, false}, {"TF32", 0, true}, {"fp16", 1, false}, {"two fp16 words", 2, false}}};

class DenseLayers final : public LayerProduct {
 public:
  DenseLayers(const FeedForward& network, const DenseMode& mode) : mode_(mode), neurons_(network.neurons) {
    Cublas::require();  // says that it is missing before anything else can fail
    // Two words of fp16 hold a feature up to the clip with 22 bits, if its residual is a normal number.
    scale_ = mode.words > 0 && std::isfinite(network.clip) ? std::exp2(std::floor(std::log2(32768.0F / network.clip)))
                                                           : 1.0F;
    std::size_t bytes = 0, free = 0, total = 0;
    for (int l = 0; l < network.layers(); ++l) {
      bytes += element() * network.inputs(l) * network.outputs(l);
    }
    ONCHIP_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    if (bytes > free) {
      throw BaselineRefusal("the dense weights of " + std::to_string(network.layers()) + " layers take " +
                            fixed(1e-9 * static_cast<double>(bytes), 1) + " GB; " +
                            fixed(1e-9 * static_cast<double>(free), 1) + " GB are free");
    }
    const DeviceInfo device = device_info();
    const Kernel dense(
        std::make_shared<const LoadedCubin>(compile(layerwise_request(form(), device.architecture)).cubin),
        "feed_forward_dense");
    const Stream stream;
    for (int l = 0; l < network.layers(); ++l) {
      const SparseMatrix sparse = network.layer(l).weights;
      DeviceBuffer<std::byte>& weights =
          weights_.emplace_back(element() * static_cast<std::size_t>(sparse.rows) * sparse.columns);
      const DeviceBuffer<std::int64_t> row_begin{std::span(sparse.row_begin)};
      const DeviceBuffer<std::int32_t> column{std::span(sparse.column)};
      const DeviceBuffer<float> value{std::span(sparse.value)};
      static_assert(sizeof(long long) == sizeof(std::int64_t));
      DenseArguments arguments{reinterpret_cast<const long long*>(row_begin.data()),
                               column.data(),
                               value.data(),
                               weights.data(),
                               static_cast<std::uint32_t>(sparse.rows),
                               static_cast<std::uint32_t>(sparse.columns)};
      void* of_kernel[] = {&arguments};
      ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // the stream does not wait for these copies
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(weights.data(), 0, weights.bytes(), stream.get()));
      dense.launch(stream.get(), device.sm_count * kBlocksOfSm, kThreads, 0, false, of_kernel);
      stream.synchronize();
    }
  }

  FeatureForm form() const override { return {mode_.words, false, scale_}; }
  void use(cudaStream_t stream) override { cublas_.use(stream); }
  void multiply(int layer, int images, const DeviceFeatures& features, float* sums) override {
    DenseProduct product{.rows = neurons_[layer + 1],
                         .columns = images,
                         .depth = neurons_[layer],
                         .precision = mode_.words == 0 ? Precision::fp32 : Precision::fp16,
                         .transposed = true,
                         .a = weights_[layer].data(),
                         .leading_a = neurons_[layer],
                         .b = features.value,
                         .leading_b = neurons_[layer],
                         .c = sums,
                         .leading_c = neurons_[layer + 1],
                         .scale = 1 / scale_,
                         .sums_in_fp32 = true,
                         .tf32 = mode_.tf32};
    cublas_.multiply(product);
    if (mode_.words == 2) {
      product.b = features.residual;
      product.keep = 1;
      cublas_.multiply(product);
    }
  }
  std::string settings() const override { return std::string("dense ") + mode_.name + ", cuBLAS " + cublas_.version(); }

 private:
  std::size_t element() const { return mode_.words == 0 ? 4 : 2; }

  DenseMode mode_;
  std::vector<int> neurons_;
  float scale_ = 1;
  std::vector<DeviceBuffer<std::byte>> weights_;  // [outputs, inputs]
  Cublas cublas_;                                 // goes first: it may wait for work that uses the buffers
};

}  // namespace

CompileRequest layerwise_request(const FeatureForm& form, const std::string& architecture) {
  CompileRequest request{"feed_forward_layerwise", kFeedForwardLayerwiseSource, architecture, {}};
  define(request.defines, "words", form.words);
  define(request.defines, "by_neuron", form.by_neuron);
  return request;
}

// ---- layer by layer -------------------------------------------------------------------------------------------------

LayerwiseInference::LayerwiseInference(const FeedForward& network, const Inputs& images,
                                       std::unique_ptr<LayerProduct> product)
    : neurons_(network.neurons),
      images_(image_count(images)),
      sms_(device_attribute(cudaDevAttrMultiProcessorCount)),
      clip_(network.clip),
      product_(std::move(product)),
      form_(product_->form()),
      sums_(static_cast<std::size_t>(images_) * static_cast<std::size_t>(std::ranges::max(network.neurons))),
      alive_(static_cast<std::size_t>(images_)),
      rows_(alive_.size()),
      categories_(bit_words(images_)),
      counts_(2) {
  const std::string architecture = device_info().architecture;
  const auto cubin = std::make_shared<const LoadedCubin>(compile(layerwise_request(form_, architecture)).cubin);
  expand_.emplace(cubin, "feed_forward_expand");
  activate_.emplace(cubin, "feed_forward_activate");
  drop_.emplace(cubin, "feed_forward_drop");
  compact_.emplace(compile(compact_request(architecture)).cubin, "feed_forward_compact");
  for (int l = 0; l < network.layers(); ++l) {
    const SparseLayer layer = network.layer(l);
    std::vector<float> bias(static_cast<std::size_t>(layer.weights.rows));
    for (int row = 0; row < layer.weights.rows; ++row) {
      bias[row] = layer.bias_of(row);
    }
    bias_.emplace_back(std::span<const float>(bias));
    is_linear_.push_back(layer.is_linear);
    first_drop_ = l > 0 && wakes_zeros(layer) ? l : first_drop_;
  }
  for (int i = 0; i < 4; ++i) {
    const bool is_residual = i % 2 == 1;
    features_.emplace_back(is_residual && form_.words < 2 ? 0 : sums_.size() * (form_.words == 0 ? 4 : 2));
  }
  if (const auto* bitmaps = std::get_if<Bitmaps>(&images)) {
    bitmaps_.emplace(std::span<const std::uint32_t>(bitmaps->words));
  } else {
    const auto width = static_cast<std::size_t>(network.inputs(0));
    std::vector<float> values(alive_.size() * width);
    for (int image = 0; image < images_; ++image) {
      for_each_feature(images, image, [&](int neuron, float value) { values[image * width + neuron] = value; });
    }
    inputs_.emplace(std::span<const float>(values));
  }
  for (int i = 0; i < 2; ++i) {
    ids_.emplace_back(alive_.size());
  }
  product_->use(stream_.get());
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // the stream does not wait for these copies
}

template <typename Arguments>
void LayerwiseInference::launch(const Kernel& kernel, int threads, Arguments arguments) const {
  void* of_kernel[] = {&arguments};
  kernel.launch(stream_.get(), sms_ * kBlocksOfSm, threads, 0, false, of_kernel);
}

Inference LayerwiseInference::infer(bool drops) {
  const cudaStream_t on = stream_.get();
  const auto begin = std::chrono::steady_clock::now();
  const int layers = static_cast<int>(bias_.size());
  auto now = static_cast<std::uint32_t>(images_);
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(alive_.data(), 0, alive_.bytes(), on));
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(categories_.data(), 0, categories_.bytes(), on));
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(counts_.data(), &now, 4, cudaMemcpyHostToDevice, on));
  int current = 0;
  const std::uint32_t* ids_now = nullptr;
  LayerwiseArguments arguments{.bitmaps = bitmaps_ ? bitmaps_->data() : nullptr,
                               .sums = inputs_ ? inputs_->data() : nullptr,
                               .from = {},
                               .to = features_at(0),
                               .bias = nullptr,
                               .rows = rows_.data(),
                               .alive = alive_.data(),
                               .images = now,
                               .neurons = static_cast<std::uint32_t>(neurons_[0]),
                               .words = static_cast<std::uint32_t>((neurons_[0] + 31) / 32),
                               .stride = static_cast<std::uint64_t>(images_),
                               .clip = clip_,
                               .scale = form_.scale,
                               .is_linear = false};
  if (now > 0) {
    launch(*expand_, kThreads, arguments);
  }
  arguments.sums = sums_.data();
  Inference inference;
  for (int l = 0; l < layers; ++l) {
    inference.entering.push_back(static_cast<int>(now));
    if (now == 0) {
      continue;
    }
    product_->multiply(l, static_cast<int>(now), features_at(current), sums_.data());
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(alive_.data(), 0, 4 * std::size_t{now}, on));
    arguments.images = now;
    arguments.neurons = static_cast<std::uint32_t>(neurons_[l + 1]);
    arguments.bias = bias_[l].data();
    arguments.is_linear = is_linear_[l] != 0;
    arguments.to = features_at(current);
    launch(*activate_, kThreads, arguments);
    const bool is_last = l + 1 == layers;
    if (is_last || (drops && l >= first_drop_)) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(counts_.data() + 1, 0, 4, on));
      // Images that are alive of `now`, to a list, or after the last layer to bits.
      launch(*compact_, kCompactThreads,
             CompactArguments{.count = counts_.data(),
                              .ids = ids_now,
                              .alive = alive_.data(),
                              .next_count = counts_.data() + 1,
                              .next_rows = rows_.data(),
                              .next_ids = ids_[current].data(),
                              .categories = is_last ? categories_.data() : nullptr});
    }
    if (!is_last && drops && l >= first_drop_) {
      const std::uint32_t before = now;
      ONCHIP_CUDA_CHECK(cudaMemcpyAsync(&now, counts_.data() + 1, 4, cudaMemcpyDeviceToHost, on));
      stream_.synchronize();
      ONCHIP_CUDA_CHECK(cudaMemcpyAsync(counts_.data(), counts_.data() + 1, 4, cudaMemcpyDeviceToDevice, on));
      if (now < before) {
        arguments.images = now;
        arguments.from = features_at(current);
        ids_now = ids_[current].data();
        current = 1 - current;
        arguments.to = features_at(current);
        if (now > 0) {
          launch(*drop_, kThreads, arguments);
        }
      }
    }
  }
  std::vector<std::uint32_t> bits(categories_.size());
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(bits.data(), categories_.data(), categories_.bytes(), cudaMemcpyDeviceToHost, on));
  stream_.synchronize();
  inference.categories = images_set(bits);
  inference.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return inference;
}

std::vector<FeedForwardBaseline> feed_forward_baselines() {
  std::vector<FeedForwardBaseline> baselines;
  using MakeLayers = std::function<std::unique_ptr<LayerProduct>(const FeedForward&, int images)>;
  const auto add = [&](const std::string& name, bool is_exact, const MakeLayers& make) {
    baselines.push_back({name, is_exact, [make](const FeedForward& network, const Inputs& images) {
                           return std::make_unique<LayerwiseInference>(network, images,
                                                                       make(network, image_count(images)));
                         }});
  };
  for (int algorithm = 1; algorithm <= 3; ++algorithm) {
    for (const bool by_neuron : {true, false}) {
      add("cusparse SpMM CSR_ALG" + std::to_string(algorithm) + (by_neuron ? " row-major" : " column-major"), true,
          [algorithm, by_neuron](const FeedForward& network, int images) {
            return make_sparse_layers(network, images, algorithm, by_neuron);
          });
    }
  }
  for (const DenseMode& mode : kDenseModes) {
    add(std::string("cublas GEMM ") + mode.name, mode.words == 0 && !mode.tf32,
        [&mode](const FeedForward& network, int) { return std::make_unique<DenseLayers>(network, mode); });
  }
  return baselines;
}

}  // namespace onchip
