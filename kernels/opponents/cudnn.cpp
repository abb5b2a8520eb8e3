// SPDX-License-Identifier: Apache-2.0
#include "kernels/opponents/cudnn.hpp"

#include "model/numeric.hpp"

#ifdef ONCHIP_HAS_CUDNN
#include <cudnn.h>
#include <dlfcn.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

namespace onchip {

#ifdef ONCHIP_HAS_CUDNN

namespace {

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

struct Library {
#define ONCHIP_DECLARE(function) decltype(&::function) function = nullptr;
  ONCHIP_CUDNN_FUNCTIONS(ONCHIP_DECLARE)
#undef ONCHIP_DECLARE
  std::string refusal;  // "": loaded

  Library() {
    const std::string soname = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
    const char* chosen = std::getenv("ONCHIP_CUDNN");
    const std::string path = chosen != nullptr && *chosen != '\0' ? chosen : soname;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      const char* words = dlerror();
      const std::string reason = words == nullptr ? "" : words;
      // The linker's words matter when it is something that cuDNN needs which is missing.
      refusal = reason.starts_with(path + ": cannot open") ? path + " not found" : "cannot load cuDNN: " + reason;
      return;
    }
    const char* missing = nullptr;
#define ONCHIP_LOAD(function)                                                \
  function = reinterpret_cast<decltype(function)>(dlsym(handle, #function)); \
  missing = function == nullptr && missing == nullptr ? #function : missing;
    ONCHIP_CUDNN_FUNCTIONS(ONCHIP_LOAD)
#undef ONCHIP_LOAD
    if (missing != nullptr) {
      refusal = path + " has no function '" + missing + "'";
    } else if (cudnnGetVersion() / (CUDNN_MAJOR >= 9 ? 10000 : 1000) != CUDNN_MAJOR) {
      refusal = path + " is cuDNN " + std::to_string(cudnnGetVersion()) + ", but the header was of version " +
                std::to_string(CUDNN_MAJOR);
    }
  }
};

// Loaded once and never closed: cuDNN keeps threads and device state.
const Library& library() {
  static const Library loaded;
  if (!loaded.refusal.empty()) {
    throw OpponentRefusal(loaded.refusal);
  }
  return loaded;
}

void check(cudnnStatus_t status, const char* function) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw OpponentRefusal(std::string(function) + ": " + library().cudnnGetErrorString(status));
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
// By state_type: cuDNN has no recurrent network of fp8; fp16 is its nearest.
constexpr std::array<Types, 3> kTypes{{
    {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "data HALF, sums FLOAT, TENSOR_OP_MATH"},
    {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "data BFLOAT16, sums FLOAT, TENSOR_OP_MATH"},
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, "data FLOAT, sums FLOAT, FMA_MATH"},
}};
// By Cell.
constexpr std::array<cudnnRNNMode_t, 4> kModes{CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU};
// By CudnnAlgorithm.
constexpr std::array<cudnnRNNAlgo_t, 4> kAlgorithms{CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC,
                                                    CUDNN_RNN_ALGO_PERSIST_DYNAMIC,
                                                    CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H};

// Uniform in [-limit, limit], in the network's precision. The values repeat after a million: time does not depend on
// that, and the largest weights are gigabytes.
void fill_random(DeviceBuffer<std::byte>& buffer, Precision precision, float limit, unsigned seed) {
  constexpr std::size_t kPeriod = (1u << 20) + 7;
  const auto size = static_cast<std::size_t>(info(precision).bytes);
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> uniform(-limit, limit);
  std::vector<std::byte> pattern(std::min(kPeriod * size, buffer.bytes() / size * size));
  for (std::size_t i = 0; i < pattern.size(); i += size) {
    const std::uint32_t bits = to_bits(precision, uniform(generator));
    std::memcpy(&pattern[i], &bits, size);
  }
  for (std::size_t first = 0; first < buffer.bytes(); first += pattern.size()) {
    ONCHIP_CUDA_CHECK(cudaMemcpy(buffer.data() + first, pattern.data(),
                                 std::min(pattern.size(), buffer.bytes() - first), cudaMemcpyHostToDevice));
  }
}

}  // namespace

// ---- one network ----------------------------------------------------------------------------------------------------

struct CudnnRnn::State {
  Network network;
  Handle handle;
  Dropout dropout;
  Rnn rnn;
  Sequences x_layout, y_layout;
  Tensor state_layout;
  std::optional<DeviceBuffer<std::byte>> x, y, weights, workspace;
  std::optional<DeviceBuffer<std::int32_t>> lengths;

  State(const Network& wanted, CudnnAlgorithm algorithm, int batch);
  void forward(cudaStream_t stream);
  void check_output() const;
};

CudnnRnn::State::State(const Network& wanted, CudnnAlgorithm algorithm, int batch) : network(wanted) {
  network.batch = batch;
  const Types& types = kTypes[static_cast<std::size_t>(state_type(network.precision))];
  const int hidden = network.hidden, steps = network.steps;

  ONCHIP_CUDNN_CALL(cudnnSetDropoutDescriptor, dropout.get(), handle.get(), 0.0f, nullptr, 0, 0);
  ONCHIP_CUDNN_CALL(cudnnSetRNNDescriptor_v8, rnn.get(), kAlgorithms[static_cast<std::size_t>(algorithm)],
                    kModes[static_cast<std::size_t>(network.cell)], CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                    CUDNN_LINEAR_INPUT, types.data, types.sums, types.math, hidden, hidden, hidden, 1, dropout.get(),
                    CUDNN_RNN_PADDED_IO_DISABLED);
  const std::vector<int> all_steps(static_cast<std::size_t>(batch), steps);
  for (const cudnnRNNDataDescriptor_t layout : {x_layout.get(), y_layout.get()}) {
    ONCHIP_CUDNN_CALL(cudnnSetRNNDataDescriptor, layout, types.data, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps,
                      batch, hidden, all_steps.data(), nullptr);
  }
  const std::array<int, 3> sizes{1, batch, hidden}, strides{batch * hidden, hidden, 1};
  ONCHIP_CUDNN_CALL(cudnnSetTensorNdDescriptor, state_layout.get(), types.data, 3, sizes.data(), strides.data());
  if (algorithm == CudnnAlgorithm::persist_dynamic) {
    ONCHIP_CUDNN_CALL(cudnnBuildRNNDynamic, handle.get(), rnn.get(), batch);
  }

  std::size_t weight_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;
  ONCHIP_CUDNN_CALL(cudnnGetRNNWeightSpaceSize, handle.get(), rnn.get(), &weight_bytes);
  ONCHIP_CUDNN_CALL(cudnnGetRNNTempSpaceSizes, handle.get(), rnn.get(), CUDNN_FWD_MODE_INFERENCE, x_layout.get(),
                    &workspace_bytes, &reserve_bytes);
  const std::size_t state_elements = static_cast<std::size_t>(batch) * static_cast<std::size_t>(hidden);
  const std::size_t bytes =
      static_cast<std::size_t>(steps) * state_elements * static_cast<std::size_t>(info(network.precision).bytes);
  x.emplace(bytes);
  y.emplace(bytes);
  weights.emplace(weight_bytes);
  workspace.emplace(workspace_bytes);
  lengths.emplace(std::span<const std::int32_t>(all_steps));
  fill_random(*x, network.precision, 1.0f, 1);
  // Keeps the state of any cell bounded: a row's sum of squares is a third.
  fill_random(*weights, network.precision, 1.0f / std::sqrt(static_cast<float>(hidden)), 2);
  ONCHIP_CUDA_CHECK(cudaMemset(y->data(), 0xff, y->bytes()));  // NaN in every precision
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // the copies above are on another stream than the forward pass
}

void CudnnRnn::State::forward(cudaStream_t stream) {
  const bool has_cell = network.cell == Cell::lstm;
  ONCHIP_CUDNN_CALL(cudnnSetStream, handle.get(), stream);
  ONCHIP_CUDNN_CALL(cudnnRNNForward, handle.get(), rnn.get(), CUDNN_FWD_MODE_INFERENCE, lengths->data(), x_layout.get(),
                    x->data(), y_layout.get(), y->data(), state_layout.get(), nullptr, nullptr,
                    has_cell ? state_layout.get() : nullptr, nullptr, nullptr, weights->bytes(), weights->data(),
                    workspace->bytes(), workspace->data(), 0, nullptr);
}

void CudnnRnn::State::check_output() const {
  const std::vector<std::byte> bytes = y->download();
  const auto size = static_cast<std::size_t>(info(network.precision).bytes);
  float lowest = INFINITY, highest = -INFINITY;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i], size);
    const float value = from_bits(network.precision, bits);
    if (!std::isfinite(value)) {
      throw OpponentRefusal("output element " + std::to_string(i / size) + " of " +
                            std::to_string(bytes.size() / size) + " was not written or is not finite");
    }
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  if (!(lowest < highest)) {
    throw OpponentRefusal("the output is constant");
  }
}

CudnnRnn::CudnnRnn(const Network& network, CudnnAlgorithm algorithm, int batch) {
  library();  // says that it is missing before anything else can fail
  try {
    device_info();  // likewise
    state_ = std::make_unique<State>(network, algorithm, batch);
    const Stream stream;
    state_->forward(stream.get());
    stream.synchronize();
    state_->check_output();
  } catch (const OpponentRefusal&) {
    throw;
  } catch (const CudaError& error) {  // out of memory, no device
    throw OpponentRefusal(error.what());
  }
}

void CudnnRnn::enqueue(cudaStream_t stream) {
  state_->forward(stream);
}

std::string CudnnRnn::settings() const {
  const std::size_t version = library().cudnnGetVersion();  // 91900, before 9 also 8907
  const std::size_t major = version >= 10000 ? version / 10000 : version / 1000;
  return std::string(kTypes[static_cast<std::size_t>(state_type(state_->network.precision))].text) +
         ", double bias, cuDNN " + std::to_string(major) + "." +
         std::to_string(version / 100 % (version >= 10000 ? 100 : 10)) + "." + std::to_string(version % 100);
}

#else  // built without cuDNN's header

struct CudnnRnn::State {};

CudnnRnn::CudnnRnn(const Network&, CudnnAlgorithm, int) {
  throw OpponentRefusal("built without cuDNN's header");
}
void CudnnRnn::enqueue(cudaStream_t) {}
std::string CudnnRnn::settings() const {
  return "";
}

#endif

CudnnRnn::~CudnnRnn() = default;
CudnnRnn::CudnnRnn(CudnnRnn&&) noexcept = default;

std::vector<CudnnCandidate> cudnn_candidates(const Network& network) {
  const int padded = (network.batch + 7) / 8 * 8;
  std::vector<CudnnCandidate> candidates;
  for (std::size_t i = 0; i < kCudnnAlgorithmNames.size(); ++i) {
    candidates.push_back({static_cast<CudnnAlgorithm>(i), network.batch});
    if (padded != network.batch) {
      candidates.push_back({static_cast<CudnnAlgorithm>(i), padded});
    }
  }
  return candidates;
}

std::string name(const CudnnCandidate& candidate) {
  return "cudnn " + std::string(kCudnnAlgorithmNames[static_cast<std::size_t>(candidate.algorithm)]) +
         " B=" + std::to_string(candidate.batch);
}

std::vector<OpponentResult> time_cudnn(const Network& network, const Stream& stream, int rounds) {
  constexpr int kWarmups = 4;
  const std::vector<CudnnCandidate> candidates = cudnn_candidates(network);
  std::vector<OpponentResult> results(candidates.size());
  std::vector<std::optional<CudnnRnn>> rnns(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    results[i].name = name(candidates[i]);
    try {
      rnns[i].emplace(network, candidates[i].algorithm, candidates[i].batch);
      results[i].settings = rnns[i]->settings();
      results[i].ran = true;
    } catch (const OpponentRefusal& refusal) {
      results[i].refusal = refusal.what();
    }
  }
  std::vector<std::vector<double>> step_us(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (rnns[i]) {
        const auto enqueue = [&](cudaStream_t on) { rnns[i]->enqueue(on); };
        const std::vector<double> ms = time_ms(stream, round == 0 ? kWarmups : 0, 1, enqueue);
        step_us[i].push_back(1e3 * ms[0] / network.steps);
      }
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    results[i].step_us = summarize(step_us[i]);
  }
  return results;
}

}  // namespace onchip
