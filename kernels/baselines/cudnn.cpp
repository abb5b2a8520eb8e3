// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/cudnn.hpp"

#include "kernels/baselines/graph.hpp"
#include "kernels/baselines/random_fill.hpp"
#include "kernels/runtime/library.hpp"

#ifdef ONCHIP_HAS_CUDNN
#include <cudnn.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

namespace onchip {
namespace {

constexpr std::array<std::string_view, 4> kAlgorithmNames{"STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC",
                                                          "PERSIST_STATIC_SMALL_H"};
constexpr std::size_t kStandard = 0, kPersistStatic = 1, kPersistDynamic = 2;

#ifdef ONCHIP_HAS_CUDNN

// ---- the library, loaded at run time --------------------------------------------------------------------------------

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
  X(cudnnRNNForward)

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

const Library& library() {
  static const Library loaded;
  loaded.require();
  return loaded;
}

void check(cudnnStatus_t status, const char* function) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw BaselineRefusal(std::string(function) + ": " + library().cudnnGetErrorString(status));
  }
}
#define ONCHIP_CUDNN_CALL(function, ...) check(library().function(__VA_ARGS__), #function)

// A handle or descriptor that destroys itself.
template <typename T, auto kCreate, auto kDestroy>
class Owned {
 public:
  Owned() { check((library().*kCreate)(&value_), "cuDNN cannot create an object"); }
  ~Owned() { (library().*kDestroy)(value_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using Handle = Owned<cudnnHandle_t, &Library::cudnnCreate, &Library::cudnnDestroy>;
using Tensor =
    Owned<cudnnTensorDescriptor_t, &Library::cudnnCreateTensorDescriptor, &Library::cudnnDestroyTensorDescriptor>;
using Dropout =
    Owned<cudnnDropoutDescriptor_t, &Library::cudnnCreateDropoutDescriptor, &Library::cudnnDestroyDropoutDescriptor>;
using Rnn = Owned<cudnnRNNDescriptor_t, &Library::cudnnCreateRNNDescriptor, &Library::cudnnDestroyRNNDescriptor>;
using Sequences =
    Owned<cudnnRNNDataDescriptor_t, &Library::cudnnCreateRNNDataDescriptor, &Library::cudnnDestroyRNNDataDescriptor>;

// ---- tables ---------------------------------------------------------------------------------------------------------

struct Types {
  cudnnDataType_t data, sums;
  cudnnMathType_t math;
  const char* text;
};
// By Precision.
constexpr std::array<Types, 3> kTypes{{
    {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "data HALF, sums FLOAT, TENSOR_OP_MATH"},
    {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "data BFLOAT16, sums FLOAT, TENSOR_OP_MATH"},
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, "data FLOAT, sums FLOAT, FMA_MATH"},
}};
// By Cell.
constexpr std::array<cudnnRNNMode_t, 4> kModes{CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU};
// As in kAlgorithmNames.
constexpr std::array<cudnnRNNAlgo_t, 4> kAlgorithms{CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC,
                                                    CUDNN_RNN_ALGO_PERSIST_DYNAMIC,
                                                    CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};

// ---- one network ----------------------------------------------------------------------------------------------------

class CudnnRnn final : public Baseline {
 public:
  CudnnRnn(const Recurrent& wanted, std::size_t algorithm, int batch);

  void enqueue(cudaStream_t stream) override;
  int steps() const override { return network_.steps; }
  std::string settings() const override;
  void poison_results() override { poison(*y_); }
  void check_results() const override;

 private:
  Recurrent network_;
  Handle handle_;
  Dropout dropout_;
  Rnn rnn_;
  Sequences x_layout_, y_layout_;
  Tensor state_layout_;
  std::optional<DeviceBuffer<std::byte>> x_, y_, weights_, workspace_;
  std::optional<DeviceBuffer<std::int32_t>> lengths_;
};

// PERSIST_DYNAMIC compiles a kernel that has the weights in registers. Beyond what there are it does not refuse, but
// compiles code that grows with the weights of a thread, and steps take 8 to 12 times as long as the standard
// algorithm's (LSTM of 2304, ReLU of 5632 units on an H200).
void refuse_without_registers(const Recurrent& network) {
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

CudnnRnn::CudnnRnn(const Recurrent& wanted, std::size_t algorithm, int batch) : network_(wanted) {
  if (algorithm == kPersistDynamic) {
    refuse_without_registers(wanted);
  }
  network_.batch = batch;
  const Types& types = kTypes[static_cast<std::size_t>(network_.precision)];
  const int hidden = network_.hidden, steps = network_.steps;

  ONCHIP_CUDNN_CALL(cudnnSetDropoutDescriptor, dropout_.get(), handle_.get(), 0.0f, nullptr, 0, 0);
  ONCHIP_CUDNN_CALL(cudnnSetRNNDescriptor_v8, rnn_.get(), kAlgorithms[algorithm],
                    kModes[static_cast<std::size_t>(network_.cell)], CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                    CUDNN_LINEAR_INPUT, types.data, types.sums, types.math, hidden, hidden, hidden, 1, dropout_.get(),
                    CUDNN_RNN_PADDED_IO_DISABLED);
  const std::vector<int> all_steps(static_cast<std::size_t>(batch), steps);
  for (const cudnnRNNDataDescriptor_t layout : {x_layout_.get(), y_layout_.get()}) {
    ONCHIP_CUDNN_CALL(cudnnSetRNNDataDescriptor, layout, types.data, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps,
                      batch, hidden, all_steps.data(), nullptr);
  }
  const std::array<int, 3> sizes{1, batch, hidden}, strides{batch * hidden, hidden, 1};
  ONCHIP_CUDNN_CALL(cudnnSetTensorNdDescriptor, state_layout_.get(), types.data, 3, sizes.data(), strides.data());
  if (algorithm == kPersistDynamic) {
    ONCHIP_CUDNN_CALL(cudnnBuildRNNDynamic, handle_.get(), rnn_.get(), batch);
  }

  std::size_t weight_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;
  ONCHIP_CUDNN_CALL(cudnnGetRNNWeightSpaceSize, handle_.get(), rnn_.get(), &weight_bytes);
  ONCHIP_CUDNN_CALL(cudnnGetRNNTempSpaceSizes, handle_.get(), rnn_.get(), CUDNN_FWD_MODE_INFERENCE, x_layout_.get(),
                    &workspace_bytes, &reserve_bytes);
  const auto element_bytes = static_cast<std::size_t>(info(network_.precision).bytes);
  const std::size_t elements = static_cast<std::size_t>(steps) * batch * hidden;
  x_.emplace(elements * element_bytes);
  y_.emplace(elements * element_bytes);
  weights_.emplace(weight_bytes);
  workspace_.emplace(workspace_bytes);
  lengths_.emplace(std::span<const std::int32_t>(all_steps));
  fill(*x_, network_.precision, random_pattern(elements, network_.precision, 1.0f, 1));
  // Keeps the state of any cell bounded: a row's sum of squares is a third.
  const float limit = 1.0f / std::sqrt(static_cast<float>(hidden));
  fill(*weights_, network_.precision, random_pattern(weight_bytes / element_bytes, network_.precision, limit, 2));

  poison_results();
  const Stream stream;
  enqueue(stream.get());
  stream.synchronize();
  check_results();
}

void CudnnRnn::enqueue(cudaStream_t stream) {
  const cudnnTensorDescriptor_t cell_layout = network_.cell == Cell::lstm ? state_layout_.get() : nullptr;
  ONCHIP_CUDNN_CALL(cudnnSetStream, handle_.get(), stream);
  ONCHIP_CUDNN_CALL(cudnnRNNForward, handle_.get(), rnn_.get(), CUDNN_FWD_MODE_INFERENCE, lengths_->data(),
                    x_layout_.get(), x_->data(), y_layout_.get(), y_->data(), state_layout_.get(), nullptr, nullptr,
                    cell_layout, nullptr, nullptr, weights_->bytes(), weights_->data(), workspace_->bytes(),
                    workspace_->data(), 0, nullptr);
}

std::string CudnnRnn::settings() const {
  const std::size_t version = library().cudnnGetVersion();  // 91900, before 9 also 8907
  const std::size_t major = version >= 10000 ? version / 10000 : version / 1000;
  return std::string(kTypes[static_cast<std::size_t>(network_.precision)].text) + ", double bias, cuDNN " +
         std::to_string(major) + "." + std::to_string(version / 100 % (version >= 10000 ? 100 : 10)) + "." +
         std::to_string(version % 100);
}

// By their bits: there may be many. `exponent`: of what is not finite.
template <typename Bits>
void check_bits(const std::vector<std::byte>& bytes, Bits exponent) {
  std::vector<Bits> values(bytes.size() / sizeof(Bits));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Bits));
  const auto bad = std::ranges::find_if(values, [&](Bits bits) { return (bits & exponent) == exponent; });
  if (bad != values.end()) {
    throw BaselineRefusal("output element " + std::to_string(bad - values.begin()) + " of " +
                          std::to_string(values.size()) + " was not written or is not finite");
  }
  if (std::ranges::all_of(values, [&](Bits bits) { return bits == values[0]; })) {
    throw BaselineRefusal("the output is constant");
  }
}

void CudnnRnn::check_results() const {
  const std::vector<std::byte> bytes = y_->download();
  switch (network_.precision) {
    case Precision::fp32:
      return check_bits<std::uint32_t>(bytes, 0x7f800000);
    case Precision::bf16:
      return check_bits<std::uint16_t>(bytes, 0x7f80);
    case Precision::fp16:
    case Precision::fp8:
      return check_bits<std::uint16_t>(bytes, 0x7c00);
  }
}

std::unique_ptr<Baseline> make_cudnn(const Recurrent& network, std::size_t algorithm, int batch) {
  library();  // says that it is missing before anything else can fail
  return std::make_unique<CudnnRnn>(network, algorithm, batch);
}

#else

std::unique_ptr<Baseline> make_cudnn(const Recurrent&, std::size_t, int) {
  throw BaselineRefusal("built without cuDNN's header");
}

#endif

}  // namespace

std::vector<BaselineCandidate> cudnn_candidates(const Recurrent& network) {
  const std::vector<int> batches = padded(network.batch, {8});
  const std::vector<int> sizes = padded(network.hidden, {8, 64});
  std::vector<BaselineCandidate> candidates;
  for (std::size_t algorithm = 0; algorithm < kAlgorithmNames.size(); ++algorithm) {
    std::vector<BaselineCandidate> some;
    for (const int hidden : sizes) {
      for (const int batch : batches) {
        const bool is_padded = batch == batches.back() && (hidden != network.hidden || sizes.size() == 1);
        some.push_back({"cudnn " + std::string(kAlgorithmNames[algorithm]) + shape_name(network, hidden, batch),
                        [algorithm, hidden, batch](Recurrent wanted, const SparseMatrix&) {
                          wanted.hidden = hidden;
                          return make_cudnn(wanted, algorithm, batch);
                        },
                        /*likely=*/algorithm == kPersistStatic || (algorithm != kPersistDynamic && is_padded)});
      }
    }
    if (algorithm == kStandard) {
      some = with_graphs(some);
    }
    std::move(some.begin(), some.end(), std::back_inserter(candidates));
  }
  return candidates;
}

}  // namespace onchip
