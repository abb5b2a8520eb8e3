// SPDX-License-Identifier: Apache-2.0
#include "kernels/opponents/cublas.hpp"

#include "kernels/opponents/graph.hpp"
#include "kernels/opponents/library.hpp"
#include "kernels/opponents/product.hpp"
#include "kernels/opponents/random_fill.hpp"

#ifdef ONCHIP_HAS_CUBLAS
#include <cublas_v2.h>
#endif

#include <cmath>

namespace onchip {
namespace {

// cuBLAS's names: the weights row-major, to be transposed in its eyes, or column-major.
enum class WeightOrder : std::uint8_t { tn, nn };
constexpr std::array<std::string_view, 2> kWeightOrderNames{"TN", "NN"};

#ifdef ONCHIP_HAS_CUBLAS

// ---- the library, loaded at run time --------------------------------------------------------------------------------

#define ONCHIP_CUBLAS_FUNCTIONS(X) \
  X(cublasCreate_v2)               \
  X(cublasDestroy_v2)              \
  X(cublasGetStatusString)         \
  X(cublasGetVersion_v2)           \
  X(cublasSetStream_v2)            \
  X(cublasSetWorkspace_v2)

// The header has an overload with an older type of computation; the library has the function below this name.
using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const void* alpha, const void* a, cudaDataType, int lda, const void* b, cudaDataType,
                                  int ldb, const void* beta, void* c, cudaDataType, int ldc, cublasComputeType_t,
                                  cublasGemmAlgo_t);

struct Library : SharedLibrary {
#define ONCHIP_DECLARE(function) decltype(&::function) function = nullptr;
  ONCHIP_CUBLAS_FUNCTIONS(ONCHIP_DECLARE)
#undef ONCHIP_DECLARE
  decltype(static_cast<GemmEx>(&::cublasGemmEx)) cublasGemmEx = nullptr;

  Library() : SharedLibrary("ONCHIP_CUBLAS", "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR)) {
#define ONCHIP_LOAD(function) load(function, #function);
    ONCHIP_CUBLAS_FUNCTIONS(ONCHIP_LOAD)
#undef ONCHIP_LOAD
    load(cublasGemmEx, "cublasGemmEx");
  }
};

const Library& library() {
  static const Library loaded;
  loaded.require();
  return loaded;
}

void check(cublasStatus_t status, const char* function) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw OpponentRefusal(std::string(function) + ": " + library().cublasGetStatusString(status));
  }
}
#define ONCHIP_CUBLAS_CALL(function, ...) check(library().function(__VA_ARGS__), #function)

class Handle {
 public:
  Handle() { ONCHIP_CUBLAS_CALL(cublasCreate_v2, &handle_); }
  ~Handle() { library().cublasDestroy_v2(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// ---- one product ----------------------------------------------------------------------------------------------------

struct Type {
  cudaDataType type;
  const char* text;
};
// By Precision.
constexpr std::array<Type, 3> kTypes{{{CUDA_R_16F, "R_16F"}, {CUDA_R_16BF, "R_16BF"}, {CUDA_R_32F, "R_32F"}}};

// What cuBLAS takes by itself on the largest chips; a graph needs it to be ours.
constexpr std::size_t kWorkspaceBytes = 32u << 20;

class Gemm final : public Product {
 public:
  Gemm(const Network& network, WeightOrder order, std::span<const float> pattern, const ProductStates& states)
      : network_(network),
        order_(order),
        states_(states),
        weights_(static_cast<std::size_t>(network.rows()) * network.hidden * info(network.precision).bytes),
        workspace_(kWorkspaceBytes) {
    fill(weights_, network.precision, pattern);
  }

  void use(cudaStream_t stream) override {
    ONCHIP_CUBLAS_CALL(cublasSetStream_v2, handle_.get(), stream);  // takes the workspace back
    ONCHIP_CUBLAS_CALL(cublasSetWorkspace_v2, handle_.get(), workspace_.data(), workspace_.bytes());
  }

  void multiply(float scale, int from, int to) override {
    const cudaDataType type = kTypes[static_cast<std::size_t>(network_.precision)].type;
    const bool transposed = order_ == WeightOrder::tn;
    const float zero = 0;
    ONCHIP_CUBLAS_CALL(cublasGemmEx, handle_.get(), transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
                       network_.rows(), network_.batch, network_.hidden, &scale, weights_.data(), type,
                       transposed ? network_.hidden : network_.rows(), states_.data(from), type, states_.leading(),
                       &zero, states_.data(to), type, states_.leading(), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }

  std::string settings() const override {
    int version = 0;  // 130100
    ONCHIP_CUBLAS_CALL(cublasGetVersion_v2, handle_.get(), &version);
    return "dense " + std::string(kTypes[static_cast<std::size_t>(network_.precision)].text) +
           ", COMPUTE_32F, cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

 private:
  Network network_;
  WeightOrder order_;
  const ProductStates& states_;
  DeviceBuffer<std::byte> weights_;
  DeviceBuffer<std::byte> workspace_;
  Handle handle_;  // goes first: it may wait for work that uses the buffers
};

std::unique_ptr<Opponent> make_gemm(const Network& network, WeightOrder order) {
  library();  // says that it is missing before anything else can fail
  const auto rows = static_cast<std::size_t>(network.rows()), hidden = static_cast<std::size_t>(network.hidden);
  // Variance 1 / hidden, as a recurrent network's.
  const std::vector<float> pattern =
      random_pattern(rows * hidden, network.precision, std::sqrt(3.0f / static_cast<float>(network.hidden)), 2);
  const auto row_of_weights = [&](int row) {
    std::vector<float> weights(hidden);
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      const std::size_t element = order == WeightOrder::tn ? row * hidden + unit : unit * rows + row;
      weights[unit] = pattern[element % pattern.size()];
    }
    return weights;
  };
  const auto make = [&](const ProductStates& states) {
    return std::make_unique<Gemm>(network, order, pattern, states);
  };
  return make_product_opponent(network, MatrixOrder::column_major, make, row_of_weights);
}

#else

std::unique_ptr<Opponent> make_gemm(const Network&, WeightOrder) {
  throw OpponentRefusal("built without cuBLAS's header");
}

#endif

}  // namespace

std::vector<OpponentCandidate> cublas_candidates(const Network& network) {
  std::vector<int> batches{network.batch};
  if (network.precision != Precision::fp32 && network.batch % 8 != 0) {
    batches.push_back((network.batch + 7) / 8 * 8);
  }
  std::vector<OpponentCandidate> candidates;
  for (const WeightOrder order : {WeightOrder::tn, WeightOrder::nn}) {
    for (const int batch : batches) {
      candidates.push_back({"cublas GEMM " + std::string(kWeightOrderNames[static_cast<std::size_t>(order)]) +
                                " B=" + std::to_string(batch),
                            [order, batch](Network wanted, const SparseMatrix&) {
                              wanted.batch = batch;
                              return make_gemm(wanted, order);
                            }});
    }
  }
  return with_graphs(candidates);
}

}  // namespace onchip
