// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/libraries.hpp"

#include "kernels/baselines/random_fill.hpp"
#include "kernels/baselines/training_baselines.hpp"
#include "kernels/recurrent/recurrence.hpp"  // from_elements
#include "model/base/units.hpp"

#ifdef ONCHIP_HAS_CUDNN
#include <cudnn.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {

namespace {

constexpr std::array<std::string_view, 4> kAlgorithmNames{"STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC",
                                                          "PERSIST_STATIC_SMALL_H"};
constexpr std::size_t kStandard = 0, kPersistStatic = 1, kPersistDynamic = 2;

#ifdef ONCHIP_HAS_CUDNN

// ---- the library ----------------------------------------------------------------------------------------------------

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
  ONCHIP_CUDNN_FUNCTIONS(ONCHIP_DECLARE)

  Library() : SharedLibrary("ONCHIP_CUDNN", "libcudnn.so." + std::to_string(CUDNN_MAJOR)) {
    ONCHIP_CUDNN_FUNCTIONS(ONCHIP_LOAD)
    if (cudnnGetVersion != nullptr && cudnnGetVersion() / (CUDNN_MAJOR >= 9 ? 10000 : 1000) != CUDNN_MAJOR) {
      refuse("this is cuDNN " + std::to_string(cudnnGetVersion()) + ", but the header was of version " +
             std::to_string(CUDNN_MAJOR));
    }
  }
};

using Calls = LibraryCalls<Library, CUDNN_STATUS_SUCCESS, &Library::cudnnGetErrorString>;
constexpr auto& library = Calls::library;
#define ONCHIP_CUDNN_CALL(function, ...) Calls::check(library().function(__VA_ARGS__), #function)

using Handle = Calls::Object<cudnnHandle_t, &Library::cudnnCreate, &Library::cudnnDestroy>;
using Tensor = Calls::Object<cudnnTensorDescriptor_t, &Library::cudnnCreateTensorDescriptor,
                             &Library::cudnnDestroyTensorDescriptor>;
using Dropout = Calls::Object<cudnnDropoutDescriptor_t, &Library::cudnnCreateDropoutDescriptor,
                              &Library::cudnnDestroyDropoutDescriptor>;
using Rnn =
    Calls::Object<cudnnRNNDescriptor_t, &Library::cudnnCreateRNNDescriptor, &Library::cudnnDestroyRNNDescriptor>;
using RnnData = Calls::Object<cudnnRNNDataDescriptor_t, &Library::cudnnCreateRNNDataDescriptor,
                              &Library::cudnnDestroyRNNDataDescriptor>;

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

// "data HALF, sums FLOAT, TENSOR_OP_MATH, double bias, cuDNN 9.19.0"
std::string settings_text(Precision precision) {
  const std::size_t version = library().cudnnGetVersion();  // 91900, before 9 also 8907
  const std::size_t major = version >= 10000 ? version / 10000 : version / 1000;
  return std::string(kTypes[static_cast<std::size_t>(precision)].text) + ", double bias, cuDNN " +
         std::to_string(major) + "." + std::to_string(version / 100 % (version >= 10000 ? 100 : 10)) + "." +
         std::to_string(version % 100);
}

// PERSIST_DYNAMIC compiles a kernel that has the weights in registers. Beyond what there are it does not refuse, but
// compiles code that grows with the weights of a thread, and steps take 8 to 12 times as long as the standard
// algorithm's (LSTM of 2304, ReLU of 5632 units on an H200).
void refuse_without_registers(const Recurrent& network) {
  const double weights =
      static_cast<double>(network.rows()) * network.hidden * static_cast<double>(info(network.precision).bytes);
  const double room = 4.0 * device_attribute(cudaDevAttrMultiProcessorCount) *
                      device_attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  if (weights > room) {
    const auto megabytes = [](double bytes) { return std::to_string(std::llround(bytes / 1e6)) + " MB"; };
    throw BaselineRefusal("not tried: " + megabytes(weights) + " of weights, and it keeps them in the chip's " +
                          megabytes(room) + " of registers");
  }
}

// ---- one network ----------------------------------------------------------------------------------------------------

using Buffer = DeviceBuffer<std::byte>;

// Inference, or with `trains` an iteration, of a network that is ready to run.
class CudnnNetwork final : public Baseline {
 public:
  CudnnNetwork(const Recurrent& network, const Stack& stack, std::size_t algorithm, bool trains);

  void enqueue(cudaStream_t stream) override {
    forward(stream);
    if (trains_) {
      backward(stream);
    }
  }
  int steps() const override { return network_.steps; }
  std::string settings() const override {
    return !trains_ ? settings_text(network_.precision)
                    : "forward and all gradients, " + settings_text(network_.precision) + ", reserve space " +
                          std::to_string(reserve_->bytes()) + " B";
  }
  void poison_results() override {
    for (const auto* result : {&y_, &input_gradient_, &state_gradient_}) {
      if (*result) {
        poison(**result);
      }
    }
  }
  void check_results() const override {
    for (const auto* result : {&y_, &input_gradient_, &state_gradient_, &weight_gradient_}) {
      if (*result) {
        check_written(**result, network_.precision);
      }
    }
  }
  void check_gradients();

 private:
  void forward(cudaStream_t stream);
  void backward(cudaStream_t stream);
  cudnnForwardMode_t mode() const { return trains_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }
  bool is_lstm() const { return network_.cell == Cell::lstm; }
  double loss();
  void check_gradient(const char* of, const Buffer& values, const Buffer& gradient);

  Recurrent network_;
  bool trains_;
  Handle handle_;
  Dropout dropout_;
  Rnn rnn_;
  RnnData x_layout_, y_layout_;
  Tensor state_layout_;
  // Gradients of h0 and c0 are both `state_gradient_`, one behind the other.
  std::optional<Buffer> x_, y_, weights_, workspace_;
  std::optional<Buffer> state_, reserve_, output_gradient_, input_gradient_, weight_gradient_, state_gradient_;
  std::optional<DeviceBuffer<std::int32_t>> lengths_;
  std::size_t state_bytes_ = 0;
};

CudnnNetwork::CudnnNetwork(const Recurrent& network, const Stack& stack, std::size_t algorithm, bool trains)
    : network_(network), trains_(trains) {
  if (algorithm == kPersistDynamic) {
    refuse_without_registers(network);
  }
  const Types& types = kTypes[static_cast<std::size_t>(network.precision)];
  const int hidden = network.hidden, steps = network.steps, batch = network.batch;
  const int input = stack.columns(network, 0), directions = stack.directions(), outputs = directions * hidden;
  ONCHIP_CUDNN_CALL(cudnnSetDropoutDescriptor, dropout_.get(), handle_.get(), 0.0f, nullptr, 0, 0);
  ONCHIP_CUDNN_CALL(cudnnSetRNNDescriptor_v8, rnn_.get(), kAlgorithms[algorithm],
                    kModes[static_cast<std::size_t>(network.cell)], CUDNN_RNN_DOUBLE_BIAS,
                    stack.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, types.data,
                    types.sums, types.math, input, hidden, hidden, stack.layers, dropout_.get(),
                    CUDNN_RNN_PADDED_IO_DISABLED);
  const std::vector<int> all_steps(static_cast<std::size_t>(batch), steps);
  for (const auto& [layout, width] : {std::pair{x_layout_.get(), input}, std::pair{y_layout_.get(), outputs}}) {
    ONCHIP_CUDNN_CALL(cudnnSetRNNDataDescriptor, layout, types.data, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps,
                      batch, width, all_steps.data(), nullptr);
  }
  const std::array<int, 3> sizes{stack.layers * directions, batch, hidden}, strides{batch * hidden, hidden, 1};
  ONCHIP_CUDNN_CALL(cudnnSetTensorNdDescriptor, state_layout_.get(), types.data, 3, sizes.data(), strides.data());
  if (algorithm == kPersistDynamic) {
    ONCHIP_CUDNN_CALL(cudnnBuildRNNDynamic, handle_.get(), rnn_.get(), batch);
  }
  std::size_t weight_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;
  ONCHIP_CUDNN_CALL(cudnnGetRNNWeightSpaceSize, handle_.get(), rnn_.get(), &weight_bytes);
  ONCHIP_CUDNN_CALL(cudnnGetRNNTempSpaceSizes, handle_.get(), rnn_.get(), mode(), x_layout_.get(), &workspace_bytes,
                    &reserve_bytes);
  const auto element = static_cast<std::size_t>(info(network.precision).bytes);
  const std::size_t samples = static_cast<std::size_t>(steps) * batch;
  state_bytes_ = static_cast<std::size_t>(sizes[0]) * batch * hidden * element;
  x_.emplace(samples * input * element);
  y_.emplace(samples * outputs * element);
  weights_.emplace(weight_bytes);
  workspace_.emplace(workspace_bytes);
  if (trains) {
    input_gradient_.emplace(x_->bytes());
    output_gradient_.emplace(y_->bytes());
    weight_gradient_.emplace(weight_bytes);
    state_.emplace(2 * state_bytes_);
    state_gradient_.emplace((is_lstm() ? 2 : 1) * state_bytes_);
    reserve_.emplace(reserve_bytes);
  }
  lengths_.emplace(std::span<const std::int32_t>(all_steps));
  // A row's sum of squares is a third, and gradients stay in the range of fp16 over all steps.
  const float limit = 1.0f / std::sqrt(static_cast<float>(hidden));
  constexpr float kGradient = 0.01f;
  unsigned seed = 0;
  for (const auto& [buffer, most] : {std::pair{&x_, 1.0f}, std::pair{&weights_, limit}, std::pair{&state_, 1.0f},
                                     std::pair{&output_gradient_, kGradient}}) {
    ++seed;
    if (*buffer) {
      fill(**buffer, network.precision, random_pattern((*buffer)->bytes() / element, network.precision, most, seed));
    }
  }
  poison_results();
  const Stream stream;
  enqueue(stream.get());
  stream.synchronize();
  check_results();
}

void CudnnNetwork::forward(cudaStream_t stream) {
  std::byte* const state = state_ ? state_->data() : nullptr;
  ONCHIP_CUDNN_CALL(cudnnSetStream, handle_.get(), stream);
  ONCHIP_CUDNN_CALL(cudnnRNNForward, handle_.get(), rnn_.get(), mode(), lengths_->data(), x_layout_.get(), x_->data(),
                    y_layout_.get(), y_->data(), state_layout_.get(), state, nullptr,
                    is_lstm() ? state_layout_.get() : nullptr, is_lstm() && state ? state + state_bytes_ : nullptr,
                    nullptr, weights_->bytes(), weights_->data(), workspace_->bytes(), workspace_->data(),
                    reserve_ ? reserve_->bytes() : 0, reserve_ ? reserve_->data() : nullptr);
}

void CudnnNetwork::backward(cudaStream_t stream) {
  ONCHIP_CUDNN_CALL(cudnnRNNBackwardData_v8, handle_.get(), rnn_.get(), lengths_->data(), y_layout_.get(), y_->data(),
                    output_gradient_->data(), x_layout_.get(), input_gradient_->data(), state_layout_.get(),
                    state_->data(), nullptr, state_gradient_->data(), is_lstm() ? state_layout_.get() : nullptr,
                    is_lstm() ? state_->data() + state_bytes_ : nullptr, nullptr,
                    is_lstm() ? state_gradient_->data() + state_bytes_ : nullptr, weights_->bytes(), weights_->data(),
                    workspace_->bytes(), workspace_->data(), reserve_->bytes(), reserve_->data());
  // It only adds.
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(weight_gradient_->data(), 0, weight_gradient_->bytes(), stream));
  ONCHIP_CUDNN_CALL(cudnnRNNBackwardWeights_v8, handle_.get(), rnn_.get(), CUDNN_WGRAD_MODE_ADD, lengths_->data(),
                    x_layout_.get(), x_->data(), state_layout_.get(), state_->data(), y_layout_.get(), y_->data(),
                    weights_->bytes(), weight_gradient_->data(), workspace_->bytes(), workspace_->data(),
                    reserve_->bytes(), reserve_->data());
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

// What the gradients are of: the sum of outputs times the gradients from above.
double CudnnNetwork::loss() {
  const Stream stream;
  forward(stream.get());
  stream.synchronize();
  return dot(from_elements(y_->download(), network_.precision),
             from_elements(output_gradient_->download(), network_.precision));
}

// Differences between two steps of the values along their gradient, one in each direction, so that curvature cancels.
// What units lose that ReLU turns off on the way grows with the step's length: of two lengths it is taken off.
void CudnnNetwork::check_gradient(const char* of, const Buffer& values, const Buffer& gradient) {
  const std::vector<float> at = from_elements(values.download(), network_.precision);
  const std::vector<float> slope = from_elements(gradient.download(), network_.precision);
  const double size = std::sqrt(dot(at, at) / dot(slope, slope));
  const auto loss_and_place_at = [&](double distance) {
    std::vector<float> there(at);
    for (std::size_t i = 0; i < there.size(); ++i) {
      there[i] += static_cast<float>(distance * slope[i]);
    }
    fill(values, network_.precision, there);
    const double place = dot(from_elements(values.download(), network_.precision), slope);  // of what is rounded
    return std::pair{loss(), place};
  };
  const auto change_per_expected = [&](double share_of_values) {
    const auto [loss_after, after] = loss_and_place_at(share_of_values * size);
    const auto [loss_before, before] = loss_and_place_at(-share_of_values * size);
    return (loss_after - loss_before) / (after - before);
  };
  constexpr double kFar = 0.03;
  const double far = change_per_expected(kFar), near = change_per_expected(kFar / 2);
  fill(values, network_.precision, at);
  check_derivative(of, 2 * near - far, 1);
}

void CudnnNetwork::check_gradients() {
  check_gradient("input", *x_, *input_gradient_);
  check_gradient("weights", *weights_, *weight_gradient_);
}

// Of a few steps, before all are run.
void check_training(Recurrent network, const Stack& stack, std::size_t algorithm) {
  // PERSIST_DYNAMIC takes forty times as long as the standard algorithm at large sizes: minutes of a grid.
  constexpr double kMostUs = 500;
  network.steps = std::min(network.steps, kCheckedSteps);
  CudnnNetwork few(network, stack, algorithm, true);
  few.check_gradients();
  const Stream stream;
  const double us =
      1e3 * EventTimer().milliseconds_of(stream.get(), [&] { few.enqueue(stream.get()); }) / network.steps;
  if (algorithm != kStandard && us > kMostUs) {
    throw BaselineRefusal("not run at full length: " + fixed(us, 0) + " us a step of " + std::to_string(network.steps));
  }
}

std::unique_ptr<Baseline> make_network(const Recurrent& network, const Stack& stack, std::size_t algorithm,
                                       bool trains) {
  library();  // says that it is missing before anything else can fail
  if (trains) {
    check_training(network, stack, algorithm);
  }
  return std::make_unique<CudnnNetwork>(network, stack, algorithm, trains);
}

#else

std::unique_ptr<Baseline> make_network(const Recurrent&, const Stack&, std::size_t, bool) {
  throw BaselineRefusal("built without cuDNN's header");
}

#endif

// Of an algorithm, with the hidden size and the batch as they are and padded.
std::vector<BaselineCandidate> padded_candidates(const Recurrent& network, const Stack& stack, std::size_t algorithm,
                                                 bool trains) {
  std::vector<BaselineCandidate> candidates;
  for (const int hidden : padded(network.hidden, {8, 64})) {
    for (const int batch : padded(network.batch, {8})) {
      candidates.push_back({"cudnn " + std::string(kAlgorithmNames[algorithm]) + shape_name(network, hidden, batch),
                            [=](Recurrent wanted, const SparseMatrix&) {
                              wanted.hidden = hidden;
                              wanted.batch = batch;
                              return make_network(wanted, stack, algorithm, trains);
                            }});
    }
  }
  return candidates;
}

}  // namespace

std::vector<BaselineCandidate> cudnn_candidates(const Recurrent& network) {
  std::vector<BaselineCandidate> candidates;
  for (std::size_t algorithm = 0; algorithm < kAlgorithmNames.size(); ++algorithm) {
    std::vector<BaselineCandidate> some = padded_candidates(network, Stack{}, algorithm, false);
    // With the largest batch and a padded hidden size.
    const std::size_t batches = padded(network.batch, {8}).size(), sizes = some.size() / batches;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const bool is_padded = i % batches == batches - 1 && (i >= batches || sizes == 1);
      some[i].likely = algorithm == kPersistStatic || (algorithm != kPersistDynamic && is_padded);
    }
    if (algorithm == kStandard) {
      some = with_graphs(some);
    }
    std::ranges::move(some, std::back_inserter(candidates));
  }
  return candidates;
}

std::vector<BaselineCandidate> cudnn_training_candidates(const Recurrent& network, const Stack& stack) {
  std::vector<BaselineCandidate> candidates;
  for (std::size_t algorithm = 0; algorithm < kAlgorithmNames.size(); ++algorithm) {
    for (BaselineCandidate& candidate : padded_candidates(network, stack, algorithm, true)) {
      candidate.likely = algorithm != kPersistDynamic;
      candidates.push_back(std::move(candidate));
    }
  }
  return with_graphs(candidates);
}

}  // namespace onchip
