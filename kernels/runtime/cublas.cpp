// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cublas.hpp"

#include "kernels/runtime/library.hpp"

#ifdef ONCHIP_HAS_CUBLAS
#include <cublas_v2.h>
#endif

#include <array>

namespace onchip {

#ifdef ONCHIP_HAS_CUBLAS

namespace {

#define ONCHIP_CUBLAS_FUNCTIONS(X) \
  X(cublasCreate_v2)               \
  X(cublasDestroy_v2)              \
  X(cublasGetStatusString)         \
  X(cublasGetVersion_v2)           \
  X(cublasSetMathMode)             \
  X(cublasSetStream_v2)            \
  X(cublasSetWorkspace_v2)

// The header has an overload with an older type of computation; the library has the function below this name.
using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                  const void* alpha, const void* a, cudaDataType, int lda, const void* b, cudaDataType,
                                  int ldb, const void* beta, void* c, cudaDataType, int ldc, cublasComputeType_t,
                                  cublasGemmAlgo_t);

struct Library : SharedLibrary {
  ONCHIP_CUBLAS_FUNCTIONS(ONCHIP_DECLARE)
  decltype(static_cast<GemmEx>(&::cublasGemmEx)) cublasGemmEx = nullptr;

  Library() : SharedLibrary("ONCHIP_CUBLAS", "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR)) {
    ONCHIP_CUBLAS_FUNCTIONS(ONCHIP_LOAD)
    load(cublasGemmEx, "cublasGemmEx");
  }
};

using Calls = LibraryCalls<Library, CUBLAS_STATUS_SUCCESS, &Library::cublasGetStatusString>;
#define ONCHIP_CUBLAS_CALL(function, ...) Calls::check(Calls::library().function(__VA_ARGS__), #function)

// By Precision, of the state.
constexpr std::array<cudaDataType, 3> kTypes{CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F};

}  // namespace

struct Cublas::Handle : Calls::Object<cublasHandle_t, &Library::cublasCreate_v2, &Library::cublasDestroy_v2> {};

void Cublas::require() {
  Calls::library();
}

Cublas::Cublas(bool allows_short_sums, std::size_t workspace_bytes)
    : workspace_((require(), workspace_bytes)), handle_(std::make_unique<Handle>()) {
  if (!allows_short_sums) {
    ONCHIP_CUBLAS_CALL(
        cublasSetMathMode, handle_->get(),
        static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  }
}

void Cublas::use(cudaStream_t stream) const {
  ONCHIP_CUBLAS_CALL(cublasSetStream_v2, handle_->get(), stream);  // takes the workspace back
  ONCHIP_CUBLAS_CALL(cublasSetWorkspace_v2, handle_->get(), workspace_.data(), workspace_.bytes());
}

void Cublas::use(cudaStream_t stream, void* workspace) const {
  ONCHIP_CUBLAS_CALL(cublasSetStream_v2, handle_->get(), stream);
  ONCHIP_CUBLAS_CALL(cublasSetWorkspace_v2, handle_->get(), workspace, kWorkspaceBytes);
}

void Cublas::multiply(const DenseProduct& p) const {
  const cudaDataType type = kTypes[static_cast<std::size_t>(state_type(p.precision))];
  ONCHIP_CUBLAS_CALL(cublasGemmEx, handle_->get(), p.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                     p.transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N, p.rows, p.columns, p.depth, &p.scale, p.a, type,
                     p.leading_a, p.b, type, p.leading_b, &p.keep, p.c, p.sums_in_fp32 ? CUDA_R_32F : type, p.leading_c,
                     p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

std::string Cublas::version() const {
  int version = 0;  // 130100
  ONCHIP_CUBLAS_CALL(cublasGetVersion_v2, handle_->get(), &version);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

#else

struct Cublas::Handle {};

void Cublas::require() {
  throw LibraryRefusal("built without cuBLAS's header");
}
Cublas::Cublas(bool, std::size_t) : workspace_((require(), 0)) {}
void Cublas::use(cudaStream_t) const {}
void Cublas::use(cudaStream_t, void*) const {}
void Cublas::multiply(const DenseProduct&) const {}
std::string Cublas::version() const {
  return "";
}

#endif

Cublas::~Cublas() = default;
Cublas::Cublas(Cublas&&) noexcept = default;

}  // namespace onchip
