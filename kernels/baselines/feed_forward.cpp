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
#include <optional>
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

struct LayerwiseInference::State {
  std::vector<int> neurons;
  int images = 0, sms = 0, first_drop = 0;
  float clip = 0;
  std::unique_ptr<LayerProduct> product;
  FeatureForm form;
  std::optional<Kernel> expand, activate, drop, compact;
  std::vector<DeviceBuffer<float>> bias;
  std::vector<char> is_linear;                      // by layer
  std::vector<DeviceBuffer<std::byte>> features;    // value and residual, then those that dropping writes
  std::optional<DeviceBuffer<float>> sums, inputs;  // inputs: [image][neuron], where they are no bitmaps
  std::optional<DeviceBuffer<std::uint32_t>> bitmaps, alive, rows, categories, counts;  // counts: now, next
  std::array<std::optional<DeviceBuffer<std::uint32_t>>, 2> ids;
  Stream stream;

  DeviceFeatures features_at(int which) const { return {features[2 * which].data(), features[2 * which + 1].data()}; }

  void launch(const Kernel& kernel, LayerwiseArguments arguments) const {
    if (arguments.images > 0) {
      void* of_kernel[] = {&arguments};
      kernel.launch(stream.get(), sms * kBlocksOfSm, kThreads, 0, false, of_kernel);
    }
  }

  // Images that are alive of `now`, to a list, or after the last layer to bits.
  void list_alive(const std::uint32_t* of_ids, std::uint32_t* next_ids, bool is_last) {
    CompactArguments arguments{.count = counts->data(),
                               .ids = of_ids,
                               .alive = alive->data(),
                               .next_count = counts->data() + 1,
                               .next_rows = rows->data(),
                               .next_ids = next_ids,
                               .categories = is_last ? categories->data() : nullptr};
    void* of_kernel[] = {&arguments};
    compact->launch(stream.get(), sms * kBlocksOfSm, kCompactThreads, 0, false, of_kernel);
  }

  Inference infer(bool drops) {
    const cudaStream_t on = stream.get();
    const auto begin = std::chrono::steady_clock::now();
    const int layers = static_cast<int>(bias.size());
    auto now = static_cast<std::uint32_t>(images);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(alive->data(), 0, alive->bytes(), on));
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(categories->data(), 0, categories->bytes(), on));
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(counts->data(), &now, 4, cudaMemcpyHostToDevice, on));
    int current = 0;
    const std::uint32_t* ids_now = nullptr;
    LayerwiseArguments arguments{.bitmaps = bitmaps ? bitmaps->data() : nullptr,
                                 .sums = inputs ? inputs->data() : nullptr,
                                 .from = {},
                                 .to = features_at(0),
                                 .bias = nullptr,
                                 .rows = rows->data(),
                                 .alive = alive->data(),
                                 .images = now,
                                 .neurons = static_cast<std::uint32_t>(neurons[0]),
                                 .words = static_cast<std::uint32_t>((neurons[0] + 31) / 32),
                                 .stride = static_cast<std::uint64_t>(images),
                                 .clip = clip,
                                 .scale = form.scale,
                                 .is_linear = false};
    launch(*expand, arguments);
    arguments.sums = sums->data();
    Inference inference;
    for (int l = 0; l < layers; ++l) {
      inference.entering.push_back(static_cast<int>(now));
      if (now == 0) {
        continue;
      }
      product->multiply(l, static_cast<int>(now), features_at(current), sums->data());
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(alive->data(), 0, 4 * std::size_t{now}, on));
      arguments.images = now;
      arguments.neurons = static_cast<std::uint32_t>(neurons[l + 1]);
      arguments.bias = bias[l].data();
      arguments.is_linear = is_linear[l] != 0;
      arguments.to = features_at(current);
      launch(*activate, arguments);
      const bool is_last = l + 1 == layers;
      if (is_last || (drops && l >= first_drop)) {
        ONCHIP_CUDA_CHECK(cudaMemsetAsync(counts->data() + 1, 0, 4, on));
        list_alive(ids_now, ids[current]->data(), is_last);
      }
      if (!is_last && drops && l >= first_drop) {
        const std::uint32_t before = now;
        ONCHIP_CUDA_CHECK(cudaMemcpyAsync(&now, counts->data() + 1, 4, cudaMemcpyDeviceToHost, on));
        stream.synchronize();
        ONCHIP_CUDA_CHECK(cudaMemcpyAsync(counts->data(), counts->data() + 1, 4, cudaMemcpyDeviceToDevice, on));
        if (now < before) {
          arguments.images = now;
          arguments.from = features_at(current);
          ids_now = ids[current]->data();
          current = 1 - current;
          arguments.to = features_at(current);
          launch(*drop, arguments);
        }
      }
    }
    std::vector<std::uint32_t> bits(categories->size());
    ONCHIP_CUDA_CHECK(
        cudaMemcpyAsync(bits.data(), categories->data(), categories->bytes(), cudaMemcpyDeviceToHost, on));
    stream.synchronize();
    inference.categories = images_set(bits);
    inference.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return inference;
  }
};

LayerwiseInference::LayerwiseInference(const FeedForward& network, const Inputs& images,
                                       std::unique_ptr<LayerProduct> product)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  const DeviceInfo device = device_info();
  state.neurons = network.neurons;
  state.images = image_count(images);
  state.sms = device.sm_count;
  state.clip = network.clip;
  state.product = std::move(product);
  state.form = state.product->form();
  const auto cubin =
      std::make_shared<const LoadedCubin>(compile(layerwise_request(state.form, device.architecture)).cubin);
  state.expand.emplace(cubin, "feed_forward_expand");
  state.activate.emplace(cubin, "feed_forward_activate");
  state.drop.emplace(cubin, "feed_forward_drop");
  state.compact.emplace(compile(compact_request(device.architecture)).cubin, "feed_forward_compact");
  for (int l = 0; l < network.layers(); ++l) {
    const SparseLayer layer = network.layer(l);
    std::vector<float> bias(static_cast<std::size_t>(layer.weights.rows));
    for (int row = 0; row < layer.weights.rows; ++row) {
      bias[row] = layer.bias_of(row);
    }
    state.bias.emplace_back(std::span<const float>(bias));
    state.is_linear.push_back(layer.is_linear);
    state.first_drop = l > 0 && wakes_zeros(layer) ? l : state.first_drop;
  }
  const auto count = static_cast<std::size_t>(state.images);
  const std::size_t elements = count * static_cast<std::size_t>(*std::ranges::max_element(network.neurons));
  for (int i = 0; i < 4; ++i) {
    const bool is_residual = i % 2 == 1;
    state.features.emplace_back(is_residual && state.form.words < 2 ? 0 : elements * (state.form.words == 0 ? 4 : 2));
  }
  state.sums.emplace(elements);
  if (const auto* bitmaps = std::get_if<Bitmaps>(&images)) {
    state.bitmaps.emplace(std::span<const std::uint32_t>(bitmaps->words));
  } else {
    const auto width = static_cast<std::size_t>(network.inputs(0));
    std::vector<float> values(count * width);
    for (int image = 0; image < state.images; ++image) {
      for_each_feature(images, image, [&](int neuron, float value) { values[image * width + neuron] = value; });
    }
    state.inputs.emplace(std::span<const float>(values));
  }
  state.alive.emplace(count);
  state.rows.emplace(count);
  state.categories.emplace((count + 31) / 32);
  state.counts.emplace(2);
  for (auto& ids : state.ids) {
    ids.emplace(count);
  }
  state.product->use(state.stream.get());
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // the stream does not wait for these copies
}

LayerwiseInference::~LayerwiseInference() = default;

Inference LayerwiseInference::infer(bool drops) {
  return state_->infer(drops);
}

std::string LayerwiseInference::settings() const {
  return state_->product->settings();
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
