// SPDX-License-Identifier: Apache-2.0
// cuDNN's functions, loaded at run time, its objects as values, and what a network's cell and type are called there:
// for the baselines' own files.
#pragma once

#include "kernels/baselines/baseline.hpp"

#ifdef ONCHIP_HAS_CUDNN
#include <cudnn.h>
#endif

#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace onchip::cudnn {

inline constexpr std::array<std::string_view, 4> kAlgorithmNames{"STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC",
                                                                 "PERSIST_STATIC_SMALL_H"};
inline constexpr std::size_t kStandard = 0, kPersistStatic = 1, kPersistDynamic = 2;

#ifdef ONCHIP_HAS_CUDNN

#define ONCHIP_CUDNN_FUNCTIONS(X)  \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnCreateTensorDescriptor)   \
  X(cudnnSetTensorNdDescriptor)    \
  X(cudnnDestroyTensorDescriptor)  \
  X(cudnnCreateDropoutDescriptor)  \
  X(cudnnSetDropoutDescriptor)     \
  X(cudnnDestroyDropoutDescriptor) \
  X(cudnnCreateRNNDescriptor)      \
  X(cudnnSetRNNDescriptor_v8)      \
  X(cudnnDestroyRNNDescriptor)     \
  X(cudnnBuildRNNDynamic)          \
  X(cudnnCreateRNNDataDescriptor)  \
  X(cudnnSetRNNDataDescriptor)     \
  X(cudnnDestroyRNNDataDescriptor) \
  X(cudnnGetRNNTempSpaceSizes)     \
  X(cudnnGetRNNWeightSpaceSize)    \
  X(cudnnRNNForward)               \
  X(cudnnRNNBackwardData_v8)       \
  X(cudnnRNNBackwardWeights_v8)

struct Library : SharedLibrary {
#define ONCHIP_DECLARE(function) decltype(&::function) function = nullptr;
  ONCHIP_CUDNN_FUNCTIONS(ONCHIP_DECLARE)
#undef ONCHIP_DECLARE

  Library() : SharedLibrary("ONCHIP_CUDNN", "libcudnn.so." + std::to_string(CUDNN_MAJOR)) {
#define ONCHIP_LOAD(function) load(function, #function);
    ONCHIP_CUDNN_FUNCTIONS(ONCHIP_LOAD)
#undef ONCHIP_LOAD
    if (cudnnGetVersion != nullptr && cudnnGetVersion() / (CUDNN_MAJOR >= 9 ? 10000 : 1000) != CUDNN_MAJOR) {
      refuse("this is cuDNN " + std::to_string(cudnnGetVersion()) + ", but the header was of version " +
             std::to_string(CUDNN_MAJOR));
    }
  }
};

inline const Library& library() {
  return loaded<Library>();
}

inline void check(cudnnStatus_t status, const char* function) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw BaselineRefusal(std::string(function) + ": " + library().cudnnGetErrorString(status));
  }
}
// Inside this namespace, or where its names are known.
#define ONCHIP_CUDNN_CALL(function, ...) check(library().function(__VA_ARGS__), #function)

template <typename T, auto kCreate, auto kDestroy>
using Owned = LibraryObject<T, library, check, kCreate, kDestroy>;
using Handle = Owned<cudnnHandle_t, &Library::cudnnCreate, &Library::cudnnDestroy>;
using Tensor =
    Owned<cudnnTensorDescriptor_t, &Library::cudnnCreateTensorDescriptor, &Library::cudnnDestroyTensorDescriptor>;
using Dropout =
    Owned<cudnnDropoutDescriptor_t, &Library::cudnnCreateDropoutDescriptor, &Library::cudnnDestroyDropoutDescriptor>;
using Rnn = Owned<cudnnRNNDescriptor_t, &Library::cudnnCreateRNNDescriptor, &Library::cudnnDestroyRNNDescriptor>;
using Sequences =
    Owned<cudnnRNNDataDescriptor_t, &Library::cudnnCreateRNNDataDescriptor, &Library::cudnnDestroyRNNDataDescriptor>;

struct Types {
  cudnnDataType_t data, sums;
  cudnnMathType_t math;
  const char* text;
};
// By Precision.
inline constexpr std::array<Types, 3> kTypes{{
    {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "data HALF, sums FLOAT, TENSOR_OP_MATH"},
    {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "data BFLOAT16, sums FLOAT, TENSOR_OP_MATH"},
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, "data FLOAT, sums FLOAT, FMA_MATH"},
}};
// By Cell.
inline constexpr std::array<cudnnRNNMode_t, 4> kModes{CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU};
// As in kAlgorithmNames.
inline constexpr std::array<cudnnRNNAlgo_t, 4> kAlgorithms{CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC,
                                                           CUDNN_RNN_ALGO_PERSIST_DYNAMIC,
                                                           CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};

// "data HALF, sums FLOAT, TENSOR_OP_MATH, double bias, cuDNN 9.19.0"
inline std::string settings_text(Precision precision) {
  const std::size_t version = library().cudnnGetVersion();  // 91900, before 9 also 8907
  const std::size_t major = version >= 10000 ? version / 10000 : version / 1000;
  return std::string(kTypes[static_cast<std::size_t>(precision)].text) + ", double bias, cuDNN " +
         std::to_string(major) + "." + std::to_string(version / 100 % (version >= 10000 ? 100 : 10)) + "." +
         std::to_string(version % 100);
}

// PERSIST_DYNAMIC compiles a kernel that has the weights in registers. Beyond what there are it does not refuse, but
// compiles code that grows with the weights of a thread, and steps take 8 to 12 times as long as the standard
// algorithm's (LSTM of 2304, ReLU of 5632 units on an H200).
inline void refuse_without_registers(const Recurrent& network) {
  const double weights =
      static_cast<double>(network.rows()) * network.hidden * static_cast<double>(info(network.precision).bytes);
  int device = 0, sms = 0, registers = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&registers, cudaDevAttrMaxRegistersPerMultiprocessor, device));
  const double room = 4.0 * sms * registers;
  if (weights > room) {
    const auto megabytes = [](double bytes) { return std::to_string(std::llround(bytes / 1e6)) + " MB"; };
    throw BaselineRefusal("not tried: " + megabytes(weights) + " of weights, and it keeps them in the chip's " +
                          megabytes(room) + " of registers");
  }
}

#endif

}  // namespace onchip::cudnn
