// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/libraries.hpp"

#include "kernels/baselines/product.hpp"
#include "kernels/recurrent/recurrence.hpp"  // to_elements
#include "model/base/numeric.hpp"

#ifdef ONCHIP_HAS_CUSPARSE
#include <cusparse.h>
#endif

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace onchip {
namespace {

enum class Call : std::uint8_t { spmm, spmv };

struct Algorithm {
  Call call;
  int number;  // 1: CSR_ALG1
  const char* name;
};
constexpr std::array<Algorithm, 5> kAlgorithms{{
    {Call::spmm, 1, "SpMM CSR_ALG1"},
    {Call::spmm, 2, "SpMM CSR_ALG2"},
    {Call::spmm, 3, "SpMM CSR_ALG3"},
    {Call::spmv, 1, "SpMV CSR_ALG1"},
    {Call::spmv, 2, "SpMV CSR_ALG2"},
}};

#ifdef ONCHIP_HAS_CUSPARSE

// ---- the library ----------------------------------------------------------------------------------------------------

#define ONCHIP_CUSPARSE_FUNCTIONS(X) \
  X(cusparseGetErrorString)          \
  X(cusparseCreate)                  \
  X(cusparseDestroy)                 \
  X(cusparseGetVersion)              \
  X(cusparseSetStream)               \
  X(cusparseCreateCsr)               \
  X(cusparseDestroySpMat)            \
  X(cusparseCreateDnMat)             \
  X(cusparseDestroyDnMat)            \
  X(cusparseCreateDnVec)             \
  X(cusparseDestroyDnVec)            \
  X(cusparseSpMM_bufferSize)         \
  X(cusparseSpMM_preprocess)         \
  X(cusparseSpMM)                    \
  X(cusparseSpMV_bufferSize)         \
  X(cusparseSpMV_preprocess)         \
  X(cusparseSpMV)

struct Library : SharedLibrary {
  ONCHIP_CUSPARSE_FUNCTIONS(ONCHIP_DECLARE)

  Library() : SharedLibrary("ONCHIP_CUSPARSE", "libcusparse.so." + std::to_string(CUSPARSE_VER_MAJOR)) {
    ONCHIP_CUSPARSE_FUNCTIONS(ONCHIP_LOAD)
  }
};

using Calls = LibraryCalls<Library, CUSPARSE_STATUS_SUCCESS, &Library::cusparseGetErrorString>;
constexpr auto& library = Calls::library;
constexpr auto& check = Calls::check;
#define ONCHIP_CUSPARSE_CALL(function, ...) check(library().function(__VA_ARGS__), #function)

using Handle = Calls::Object<cusparseHandle_t, &Library::cusparseCreate, &Library::cusparseDestroy>;
using Csr = Calls::Object<cusparseSpMatDescr_t, &Library::cusparseCreateCsr, &Library::cusparseDestroySpMat>;
using DenseMatrix = Calls::Object<cusparseDnMatDescr_t, &Library::cusparseCreateDnMat, &Library::cusparseDestroyDnMat>;
using DenseVector = Calls::Object<cusparseDnVecDescr_t, &Library::cusparseCreateDnVec, &Library::cusparseDestroyDnVec>;

constexpr std::array<cusparseSpMMAlg_t, 3> kSpmmAlgorithms{CUSPARSE_SPMM_CSR_ALG1, CUSPARSE_SPMM_CSR_ALG2,
                                                           CUSPARSE_SPMM_CSR_ALG3};

constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr cudaDataType kSums = CUDA_R_32F;

// ---- tables ---------------------------------------------------------------------------------------------------------

struct Type {
  cudaDataType type;
  const char* text;
};
// By Precision.
constexpr std::array<Type, 3> kTypes{{{CUDA_R_16F, "R_16F"}, {CUDA_R_16BF, "R_16BF"}, {CUDA_R_32F, "R_32F"}}};

constexpr std::array<cusparseSpMVAlg_t, 2> kSpmvAlgorithms{CUSPARSE_SPMV_CSR_ALG1, CUSPARSE_SPMV_CSR_ALG2};

// ---- one product ----------------------------------------------------------------------------------------------------

// Of a matrix, the same for every algorithm.
struct Elements {
  std::int64_t rows, columns, nnz;
  cudaDataType type;
  DeviceBuffer<std::int32_t> row_begin, column;
  DeviceBuffer<std::byte> value;

  Elements(const SparseMatrix& matrix, Precision precision)
      : rows(matrix.rows),
        columns(matrix.columns),
        nnz(matrix.nnz()),
        type(kTypes[static_cast<std::size_t>(precision)].type),
        row_begin(
            std::span<const std::int32_t>(std::vector<std::int32_t>(matrix.row_begin.begin(), matrix.row_begin.end()))),
        column(std::span<const std::int32_t>(matrix.column)),
        value(std::span<const std::byte>(to_elements(matrix.value, precision))) {
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // runs are on streams that do not wait for these copies
  }
  Csr descriptor() const {
    return Csr(rows, columns, nnz, row_begin.data(), column.data(), value.data(), CUSPARSE_INDEX_32I,
               CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, type);
  }
};

template <Call kCall>
class SparseProduct final : public Product {
  static constexpr bool kIsMatrix = kCall == Call::spmm;
  using Operand = std::conditional_t<kIsMatrix, DenseMatrix, DenseVector>;

 public:
  SparseProduct(const Recurrent& network, std::shared_ptr<const Elements> elements, int algorithm,
                const ProductStates& states)
      : type_(kTypes[static_cast<std::size_t>(network.precision)]),
        algorithm_(algorithm - 1),
        elements_(std::move(elements)),
        csr_(elements_->descriptor()) {
    for (int i = 0; i < 3; ++i) {
      for (const auto& [operand, rows] : {std::pair{&state_[i], network.hidden}, {&result_[i], network.rows()}}) {
        if constexpr (kIsMatrix) {
          operand->emplace(rows, network.batch, states.leading(), states.data(i), type_.type,
                           states.order() == MatrixOrder::column_major ? CUSPARSE_ORDER_COL : CUSPARSE_ORDER_ROW);
        } else {
          operand->emplace(rows, states.data(i), type_.type);
        }
      }
    }
    const Stream stream;
    use(stream.get());
    std::size_t bytes = 0;
    check(call(1, 0, 1, library().cusparseSpMM_bufferSize, library().cusparseSpMV_bufferSize, &bytes),
          kIsMatrix ? "cusparseSpMM_bufferSize" : "cusparseSpMV_bufferSize");
    workspace_.emplace(bytes);
    const cusparseStatus_t status =
        call(1, 0, 1, library().cusparseSpMM_preprocess, library().cusparseSpMV_preprocess, workspace_->data());
    preprocessed_ = status == CUSPARSE_STATUS_SUCCESS;
    if (status != CUSPARSE_STATUS_NOT_SUPPORTED) {  // by an algorithm that has none, which is no reason to refuse
      check(status, kIsMatrix ? "cusparseSpMM_preprocess" : "cusparseSpMV_preprocess");
    }
    stream.synchronize();
  }

  void use(cudaStream_t stream) override { ONCHIP_CUSPARSE_CALL(cusparseSetStream, handle_.get(), stream); }

  void multiply(float scale, int from, int to) override {
    check(call(scale, from, to, library().cusparseSpMM, library().cusparseSpMV, workspace_->data()),
          kIsMatrix ? "cusparseSpMM" : "cusparseSpMV");
  }

  std::string settings() const override {
    int version = 0;  // 12603
    ONCHIP_CUSPARSE_CALL(cusparseGetVersion, handle_.get(), &version);
    return std::string("sparse ") + type_.text + ", sums R_32F, " + (preprocessed_ ? "" : "not ") +
           "preprocessed, cuSPARSE " + std::to_string(version / 1000) + "." + std::to_string(version / 100 % 10) + "." +
           std::to_string(version % 100);
  }

 private:
  // One of two functions, of which each takes the product, then `last`.
  template <typename OfMatrix, typename OfVector, typename Last>
  cusparseStatus_t call(float scale, int from, int to, OfMatrix of_matrix, OfVector of_vector, Last last) {
    const float zero = 0;
    if constexpr (kIsMatrix) {
      return of_matrix(handle_.get(), kAsIs, kAsIs, &scale, csr_.get(), state_[from]->get(), &zero, result_[to]->get(),
                       kSums, kSpmmAlgorithms[algorithm_], last);
    } else {
      return of_vector(handle_.get(), kAsIs, &scale, csr_.get(), state_[from]->get(), &zero, result_[to]->get(), kSums,
                       kSpmvAlgorithms[algorithm_], last);
    }
  }

  const Type& type_;
  int algorithm_;
  std::shared_ptr<const Elements> elements_;
  std::optional<DeviceBuffer<std::byte>> workspace_;  // holds what was preprocessed
  Handle handle_;
  Csr csr_;
  std::array<std::optional<Operand>, 3> state_, result_;  // the first rows, and all rows, of each matrix
  bool preprocessed_ = false;
};

std::unique_ptr<Baseline> make_sparse(const Recurrent& network, const SparseMatrix& matrix, const Algorithm& algorithm,
                                      MatrixOrder order, Shared<Elements>& shared) {
  library();  // says that it is missing before anything else can fail
  if (matrix.rows != network.rows() || matrix.columns != network.hidden) {
    throw BaselineRefusal("the matrix is " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
                          ", the network's is " + std::to_string(network.rows()) + " x " +
                          std::to_string(network.hidden));
  }
  if (matrix.nnz() > std::numeric_limits<std::int32_t>::max()) {
    throw BaselineRefusal(std::to_string(matrix.nnz()) + " non-zeros are too many for 32-bit indices");
  }
  const auto row_of_weights = [&](int row) {
    std::vector<float> weights(static_cast<std::size_t>(network.hidden));
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      weights[matrix.column[i]] = round_to(network.precision, matrix.value[i]);
    }
    return weights;
  };
  const auto elements = shared.get([&] { return std::make_shared<Elements>(matrix, network.precision); });
  const auto make = [&](const ProductStates& states) -> std::unique_ptr<Product> {
    if (algorithm.call == Call::spmm) {
      return std::make_unique<SparseProduct<Call::spmm>>(network, elements, algorithm.number, states);
    }
    return std::make_unique<SparseProduct<Call::spmv>>(network, elements, algorithm.number, states);
  };
  return make_product_baseline(network, order, make, row_of_weights);
}

// ---- a feed-forward network's layers --------------------------------------------------------------------------------

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
      if (images == 0 || layer.elements.nnz == 0) {
        continue;
      }
      const DenseMatrix from = matrix(l, images, features.data()), to = matrix(l + 1, images, features.data());
      const float one = 1, zero = 0;
      std::size_t bytes = 0;
      ONCHIP_CUSPARSE_CALL(cusparseSpMM_bufferSize, handle_.get(), kAsIs, kAsIs, &one, layer.csr.get(), from.get(),
                           &zero, to.get(), kSums, algorithm_, &bytes);
      layer.workspace.emplace(bytes);
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
    if (of.elements.nnz == 0) {
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
    Elements elements;
    Csr csr;
    std::optional<DeviceBuffer<std::byte>> workspace = {};  // holds what was preprocessed

    explicit Layer(const SparseMatrix& weights) : elements(weights, Precision::fp32), csr(elements.descriptor()) {}
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

struct Elements {};

std::unique_ptr<Baseline> make_sparse(const Recurrent&, const SparseMatrix&, const Algorithm&, MatrixOrder,
                                      Shared<Elements>&) {
  throw BaselineRefusal("built without cuSPARSE's header");
}

}  // namespace

std::unique_ptr<LayerProduct> make_sparse_layers(const FeedForward&, int, int, bool) {
  throw BaselineRefusal("built without cuSPARSE's header");
}

#endif

std::vector<BaselineCandidate> cusparse_candidates(const Recurrent& network) {
  const auto shared = std::make_shared<Shared<Elements>>();
  std::vector<BaselineCandidate> candidates;
  for (const Algorithm& algorithm : kAlgorithms) {
    for (const MatrixOrder order : {MatrixOrder::column_major, MatrixOrder::row_major}) {
      // With a batch of one both orders are the same, and only then is the state a vector.
      if (network.batch == 1 ? order == MatrixOrder::row_major : algorithm.call == Call::spmv) {
        continue;
      }
      std::string name = std::string("cusparse ") + algorithm.name;
      if (network.batch > 1) {
        name += " " + std::string(kMatrixOrderNames[static_cast<std::size_t>(order)]);
      }
      candidates.push_back(
          {name,
           [algorithm, order, shared](const Recurrent& wanted, const SparseMatrix& matrix) {
             return make_sparse(wanted, matrix, algorithm, order, *shared);
           },
           /*likely=*/algorithm.call == Call::spmv || (algorithm.number == 3 && order == MatrixOrder::row_major)});
    }
  }
  return with_graphs(candidates);
}

}  // namespace onchip
