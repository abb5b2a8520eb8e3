// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/cudnn.hpp"

#include "kernels/baselines/cudnn_library.hpp"
#include "kernels/baselines/graph.hpp"
#include "kernels/baselines/random_fill.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

namespace onchip {

using namespace cudnn;

namespace {

#ifdef ONCHIP_HAS_CUDNN

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
  return settings_text(network_.precision);
}

void CudnnRnn::check_results() const {
  check_written(*y_, network_.precision);
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
