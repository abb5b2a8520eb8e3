// SPDX-License-Identifier: Apache-2.0
// cuSPARSE's functions, loaded at run time, and its objects as values: for the baselines' own files.
#pragma once

#include "kernels/baselines/baseline.hpp"

#ifdef ONCHIP_HAS_CUSPARSE
#include <cusparse.h>

#include <array>
#include <string>

namespace onchip::cusparse {

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

inline const Library& library() {
  return loaded<Library>();
}

inline void check(cusparseStatus_t status, const char* function) {
  if (status != CUSPARSE_STATUS_SUCCESS) {
    throw BaselineRefusal(std::string(function) + ": " + library().cusparseGetErrorString(status));
  }
}
#define ONCHIP_CUSPARSE_CALL(function, ...) check(library().function(__VA_ARGS__), #function)

template <typename T, auto kCreate, auto kDestroy>
using Owned = LibraryObject<T, library, check, kCreate, kDestroy>;
using Handle = Owned<cusparseHandle_t, &Library::cusparseCreate, &Library::cusparseDestroy>;
using Csr = Owned<cusparseSpMatDescr_t, &Library::cusparseCreateCsr, &Library::cusparseDestroySpMat>;
using DenseMatrix = Owned<cusparseDnMatDescr_t, &Library::cusparseCreateDnMat, &Library::cusparseDestroyDnMat>;
using DenseVector = Owned<cusparseDnVecDescr_t, &Library::cusparseCreateDnVec, &Library::cusparseDestroyDnVec>;

inline constexpr std::array<cusparseSpMMAlg_t, 3> kSpmmAlgorithms{CUSPARSE_SPMM_CSR_ALG1, CUSPARSE_SPMM_CSR_ALG2,
                                                                  CUSPARSE_SPMM_CSR_ALG3};

inline constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
inline constexpr cudaDataType kSums = CUDA_R_32F;

}  // namespace onchip::cusparse
#endif
