// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/cudnn_library.hpp"
#include "kernels/baselines/graph.hpp"
#include "kernels/baselines/random_fill.hpp"
#include "kernels/baselines/training/training_baselines.hpp"
#include "kernels/recurrent/persistent_kernel.hpp"  // from_elements, to_elements
#include "model/base/units.hpp"

#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

namespace onchip {

using namespace cudnn;

namespace {

#ifdef ONCHIP_HAS_CUDNN

using Buffer = DeviceBuffer<std::byte>;

class CudnnTraining final : public Baseline {
 public:
  CudnnTraining(const Recurrent& network, const Stack& stack, std::size_t algorithm);

  void enqueue(cudaStream_t stream) override {
    forward(stream);
    backward(stream);
  }
  int steps() const override { return network_.steps; }
  std::string settings() const override {
    return "forward and all gradients, " + settings_text(network_.precision) + ", reserve space " +
           std::to_string(reserve_->bytes()) + " B";
  }
  void poison_results() override {
    for (const Buffer* result : {&*y_, &*input_gradient_, &*state_gradient_}) {
      poison(*result);
    }
  }
  void check_results() const override {
    for (const Buffer* result : {&*y_, &*input_gradient_, &*state_gradient_, &*weight_gradient_}) {
      check_written(*result, network_.precision);
    }
  }
  void check_gradients();

 private:
  void forward(cudaStream_t stream);
  void backward(cudaStream_t stream);
  bool is_lstm() const { return network_.cell == Cell::lstm; }
  double loss();
  void check_gradient(const char* of, const Buffer& values, const Buffer& gradient);

  Recurrent network_;
  Handle handle_;
  Dropout dropout_;
  Rnn rnn_;
  cudnn::Sequences x_layout_, y_layout_;
  Tensor state_layout_;
  // Gradients of h0 and c0 are both `state_gradient_`, one behind the other.
  std::optional<Buffer> x_, y_, weights_, state_, workspace_, reserve_;
  std::optional<Buffer> output_gradient_, input_gradient_, weight_gradient_, state_gradient_;
  std::optional<DeviceBuffer<std::int32_t>> lengths_;
  std::size_t state_bytes_ = 0;
};

CudnnTraining::CudnnTraining(const Recurrent& network, const Stack& stack, std::size_t algorithm) : network_(network) {
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
    refuse_without_registers(network);
    ONCHIP_CUDNN_CALL(cudnnBuildRNNDynamic, handle_.get(), rnn_.get(), batch);
  }
  std::size_t weight_bytes = 0, workspace_bytes = 0, reserve_bytes = 0;
  ONCHIP_CUDNN_CALL(cudnnGetRNNWeightSpaceSize, handle_.get(), rnn_.get(), &weight_bytes);
  ONCHIP_CUDNN_CALL(cudnnGetRNNTempSpaceSizes, handle_.get(), rnn_.get(), CUDNN_FWD_MODE_TRAINING, x_layout_.get(),
                    &workspace_bytes, &reserve_bytes);
  const auto element = static_cast<std::size_t>(info(network.precision).bytes);
  const std::size_t samples = static_cast<std::size_t>(steps) * batch;
  state_bytes_ = static_cast<std::size_t>(sizes[0]) * batch * hidden * element;
  x_.emplace(samples * input * element);
  input_gradient_.emplace(samples * input * element);
  y_.emplace(samples * outputs * element);
  output_gradient_.emplace(samples * outputs * element);
  weights_.emplace(weight_bytes);
  weight_gradient_.emplace(weight_bytes);
  state_.emplace(2 * state_bytes_);
  state_gradient_.emplace((is_lstm() ? 2 : 1) * state_bytes_);
  workspace_.emplace(workspace_bytes);
  reserve_.emplace(reserve_bytes);
  lengths_.emplace(std::span<const std::int32_t>(all_steps));
  // A row's sum of squares is a third, and gradients stay in the range of fp16 over all steps.
  const float limit = 1.0f / std::sqrt(static_cast<float>(hidden));
  constexpr float kGradient = 0.01f;
  const std::pair<const Buffer*, float> random[] = {
      {&*x_, 1.0f}, {&*weights_, limit}, {&*state_, 1.0f}, {&*output_gradient_, kGradient}};
  unsigned seed = 0;
  for (const auto& [buffer, most] : random) {
    fill(*buffer, network.precision, random_pattern(buffer->bytes() / element, network.precision, most, ++seed));
  }
  poison_results();
  const Stream stream;
  enqueue(stream.get());
  stream.synchronize();
  check_results();
}

void CudnnTraining::forward(cudaStream_t stream) {
  ONCHIP_CUDNN_CALL(cudnnSetStream, handle_.get(), stream);
  ONCHIP_CUDNN_CALL(cudnnRNNForward, handle_.get(), rnn_.get(), CUDNN_FWD_MODE_TRAINING, lengths_->data(),
                    x_layout_.get(), x_->data(), y_layout_.get(), y_->data(), state_layout_.get(), state_->data(),
                    nullptr, is_lstm() ? state_layout_.get() : nullptr,
                    is_lstm() ? state_->data() + state_bytes_ : nullptr, nullptr, weights_->bytes(), weights_->data(),
                    workspace_->bytes(), workspace_->data(), reserve_->bytes(), reserve_->data());
}

void CudnnTraining::backward(cudaStream_t stream) {
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
double CudnnTraining::loss() {
  const Stream stream;
  forward(stream.get());
  stream.synchronize();
  return dot(from_elements(y_->download(), network_.precision),
             from_elements(output_gradient_->download(), network_.precision));
}

// Two steps of the values along their gradient, one in each direction, so that curvature cancels.
void CudnnTraining::check_gradient(const char* of, const Buffer& values, const Buffer& gradient) {
  constexpr double kShare = 0.03;  // of the values' size
  const std::vector<float> at = from_elements(values.download(), network_.precision);
  const std::vector<float> slope = from_elements(gradient.download(), network_.precision);
  const double scale = kShare * std::sqrt(dot(at, at) / dot(slope, slope));
  const auto moved = [&](double sign) {
    std::vector<float> there(at);
    for (std::size_t i = 0; i < there.size(); ++i) {
      there[i] += static_cast<float>(sign * scale * slope[i]);
    }
    return there;
  };
  const auto loss_at = [&](std::vector<float>& there) {
    fill(values, network_.precision, there);
    there = from_elements(values.download(), network_.precision);  // rounded
    return loss();
  };
  std::vector<float> before = moved(-1), after = moved(1);
  const double change = loss_at(after) - loss_at(before);
  const double expected = dot(after, slope) - dot(before, slope);
  fill(values, network_.precision, at);
  check_derivative(of, change, expected);
}

void CudnnTraining::check_gradients() {
  check_gradient("input", *x_, *input_gradient_);
  check_gradient("weights", *weights_, *weight_gradient_);
}

std::unique_ptr<Baseline> make_training(const Recurrent& network, const Stack& stack, std::size_t algorithm) {
  library();  // says that it is missing before anything else can fail
  Recurrent checked = network;
  checked.steps = std::min(network.steps, kCheckedSteps);
  {
    // PERSIST_DYNAMIC takes forty times as long as the standard algorithm at large sizes: minutes of a grid.
    constexpr double kMostUs = 500;
    CudnnTraining few(checked, stack, algorithm);
    few.check_gradients();
    const Stream stream;
    const double us =
        1e3 * EventTimer().milliseconds_of(stream.get(), [&] { few.enqueue(stream.get()); }) / checked.steps;
    if (algorithm != kStandard && us > kMostUs) {
      throw BaselineRefusal("not run at full length: " + fixed(us, 0) + " us a step of " +
                            std::to_string(checked.steps));
    }
  }
  return std::make_unique<CudnnTraining>(network, stack, algorithm);
}

#else

std::unique_ptr<Baseline> make_training(const Recurrent&, const Stack&, std::size_t) {
  throw BaselineRefusal("built without cuDNN's header");
}

#endif

}  // namespace

std::vector<BaselineCandidate> cudnn_training_candidates(const Recurrent& network, const Stack& stack) {
  std::vector<BaselineCandidate> candidates;
  for (std::size_t algorithm = 0; algorithm < kAlgorithmNames.size(); ++algorithm) {
    for (const int hidden : padded(network.hidden, {8, 64})) {
      for (const int batch : padded(network.batch, {8})) {
        candidates.push_back({"cudnn " + std::string(kAlgorithmNames[algorithm]) + shape_name(network, hidden, batch),
                              [=](Recurrent wanted, const SparseMatrix&) {
                                wanted.hidden = hidden;
                                wanted.batch = batch;
                                return make_training(wanted, stack, algorithm);
                              },
                              /*likely=*/algorithm != kPersistDynamic});
      }
    }
  }
  return with_graphs(candidates);
}

}  // namespace onchip
