// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/cusparse.hpp"
#include "kernels/baselines/cusparse_library.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace onchip {

#ifdef ONCHIP_HAS_CUSPARSE

namespace {

using namespace cusparse;

class SparseLayers final : public LayerProduct {
 public:
  SparseLayers(const FeedForward& network, int images, int algorithm, bool by_neuron)
      : neurons_(network.neurons), images_(images), algorithm_(kSpmmAlgorithms[algorithm - 1]), by_neuron_(by_neuron) {
    const Stream stream;
    use(stream.get());
    const DeviceBuffer<float> features(static_cast<std::size_t>(images) * *std::ranges::max_element(neurons_));
    for (int l = 0; l < network.layers(); ++l) {
      layers_.push_back(std::make_unique<Layer>(network.layer(l).weights));
      Layer& layer = *layers_.back();
      if (images == 0 || layer.csr_nnz == 0) {
        continue;
      }
      const DenseMatrix from = matrix(l, images, features.data()), to = matrix(l + 1, images, features.data());
      const float one = 1, zero = 0;
      std::size_t bytes = 0;
      ONCHIP_CUSPARSE_CALL(cusparseSpMM_bufferSize, handle_.get(), kAsIs, kAsIs, &one, layer.csr.get(), from.get(),
                           &zero, to.get(), kSums, algorithm_, &bytes);
      layer.workspace.emplace(bytes);
      ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // the stream does not wait for copies of the weights
      const cusparseStatus_t status =
          library().cusparseSpMM_preprocess(handle_.get(), kAsIs, kAsIs, &one, layer.csr.get(), from.get(), &zero,
                                            to.get(), kSums, algorithm_, layer.workspace->data());
      if (status != CUSPARSE_STATUS_NOT_SUPPORTED) {
        check(status, "cusparseSpMM_preprocess");
      }
    }
    stream.synchronize();
  }

  FeatureForm form() const override { return {.words = 0, .by_neuron = by_neuron_}; }
  void use(cudaStream_t stream) override {
    stream_ = stream;
    ONCHIP_CUSPARSE_CALL(cusparseSetStream, handle_.get(), stream);
  }
  void multiply(int layer, int images, const DeviceFeatures& features, float* sums) override {
    const Layer& of = *layers_[layer];
    const float one = 1, zero = 0;
    if (of.csr_nnz == 0) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(
          sums, 0, 4 * static_cast<std::size_t>(neurons_[layer + 1]) * (by_neuron_ ? images_ : images), stream_));
      return;
    }
    const DenseMatrix from = matrix(layer, images, features.value), to = matrix(layer + 1, images, sums);
    ONCHIP_CUSPARSE_CALL(cusparseSpMM, handle_.get(), kAsIs, kAsIs, &one, of.csr.get(), from.get(), &zero, to.get(),
                         kSums, algorithm_, of.workspace->data());
  }
  std::string settings() const override { return "sparse R_32F, sums R_32F, preprocessed where the algorithm does"; }

 private:
  struct Layer {
    DeviceBuffer<std::int32_t> row_begin, column;
    DeviceBuffer<float> value;
    std::int64_t csr_nnz;
    Csr csr;
    std::optional<DeviceBuffer<std::byte>> workspace;  // holds what was preprocessed

    explicit Layer(const SparseMatrix& weights)
        : row_begin(std::span<const std::int32_t>(
              std::vector<std::int32_t>(weights.row_begin.begin(), weights.row_begin.end()))),
          column(std::span<const std::int32_t>(weights.column)),
          value(std::span<const float>(weights.value)),
          csr_nnz(weights.nnz()),
          csr(weights.rows, weights.columns, weights.nnz(), row_begin.data(), column.data(), value.data(),
              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F) {}
  };

  DenseMatrix matrix(int layer, int images, void* features) const {
    const std::int64_t leading = by_neuron_ ? images_ : neurons_[layer];
    return DenseMatrix(neurons_[layer], images, leading, features, CUDA_R_32F,
                       by_neuron_ ? CUSPARSE_ORDER_ROW : CUSPARSE_ORDER_COL);
  }

  std::vector<int> neurons_;
  int images_;
  cusparseSpMMAlg_t algorithm_;
  bool by_neuron_;
  cudaStream_t stream_ = nullptr;
  Handle handle_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace

std::unique_ptr<LayerProduct> make_sparse_layers(const FeedForward& network, int images, int algorithm,
                                                 bool by_neuron) {
  library();  // says that it is missing before anything else can fail
  return std::make_unique<SparseLayers>(network, images, algorithm, by_neuron);
}

#else

std::unique_ptr<LayerProduct> make_sparse_layers(const FeedForward&, int, int, bool) {
  throw BaselineRefusal("built without cuSPARSE's header");
}

#endif

}  // namespace onchip
