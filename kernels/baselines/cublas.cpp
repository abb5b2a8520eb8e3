// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/libraries.hpp"

#include "kernels/baselines/product.hpp"
#include "kernels/baselines/random_fill.hpp"
#include "kernels/runtime/cublas.hpp"

#include <cmath>
#include <utility>

namespace onchip {
namespace {

// cuBLAS's names: the weights row-major, to be transposed in its eyes, or column-major.
enum class WeightOrder : std::uint8_t { tn, nn };
constexpr std::array<std::string_view, 2> kWeightOrderNames{"TN", "NN"};

// By Precision.
constexpr std::array<std::string_view, 3> kTypeNames{"R_16F", "R_16BF", "R_32F"};

// The same for every order and batch: a repeating pattern.
struct Weights {
  std::vector<float> pattern;
  DeviceBuffer<std::byte> elements;

  explicit Weights(const Recurrent& network)
      // Variance 1 / hidden, as a recurrent network's.
      : pattern(
            random_pattern(count(network), network.precision, std::sqrt(3.0f / static_cast<float>(network.hidden)), 2)),
        elements(count(network) * info(network.precision).bytes) {
    fill(elements, network.precision, pattern);
  }
  static std::size_t count(const Recurrent& network) {
    return static_cast<std::size_t>(network.rows()) * network.hidden;
  }
};

class Gemm final : public Product {
 public:
  Gemm(const Recurrent& network, WeightOrder order, std::shared_ptr<const Weights> weights, const ProductStates& states)
      : network_(network), order_(order), states_(states), weights_(std::move(weights)) {}

  void use(cudaStream_t stream) override { cublas_.use(stream); }

  void multiply(float scale, int from, int to) override {
    const bool transposed = order_ == WeightOrder::tn;
    cublas_.multiply({.rows = network_.rows(),
                      .columns = network_.batch,
                      .depth = network_.hidden,
                      .precision = network_.precision,
                      .transposed = transposed,
                      .a = weights_->elements.data(),
                      .leading_a = transposed ? network_.hidden : network_.rows(),
                      .b = states_.data(from),
                      .leading_b = states_.leading(),
                      .c = states_.data(to),
                      .leading_c = states_.leading(),
                      .scale = scale});
  }

  std::string settings() const override {
    return "dense " + std::string(kTypeNames[static_cast<std::size_t>(network_.precision)]) + ", COMPUTE_32F, cuBLAS " +
           cublas_.version();
  }

 private:
  Recurrent network_;
  WeightOrder order_;
  const ProductStates& states_;
  std::shared_ptr<const Weights> weights_;
  Cublas cublas_;  // goes first: it may wait for work that uses the buffers
};

std::unique_ptr<Baseline> make_gemm(const Recurrent& network, WeightOrder order, Shared<Weights>& shared) {
  Cublas::require();  // says that it is missing before anything else can fail
  const auto rows = static_cast<std::size_t>(network.rows()), hidden = static_cast<std::size_t>(network.hidden);
  const auto uploaded = shared.get([&] { return std::make_shared<Weights>(network); });
  const std::vector<float>& pattern = uploaded->pattern;
  const auto row_of_weights = [&](int row) {
    std::vector<float> weights(hidden);
    for (std::size_t unit = 0; unit < hidden; ++unit) {
      const std::size_t element = order == WeightOrder::tn ? row * hidden + unit : unit * rows + row;
      weights[unit] = pattern[element % pattern.size()];
    }
    return weights;
  };
  const auto make = [&](const ProductStates& states) {
    return std::make_unique<Gemm>(network, order, uploaded, states);
  };
  return make_product_baseline(network, MatrixOrder::column_major, make, row_of_weights);
}

}  // namespace

std::vector<BaselineCandidate> cublas_candidates(const Recurrent& network) {
  const bool is_narrow = network.precision != Precision::fp32;
  const std::vector<int> batches = padded(network.batch, {is_narrow ? 8 : 1});
  const std::vector<int> sizes = padded(network.hidden, {16 / info(network.precision).bytes});
  std::vector<BaselineCandidate> candidates;
  for (const int hidden : sizes) {
    const auto shared = std::make_shared<Shared<Weights>>();
    for (const WeightOrder order : {WeightOrder::tn, WeightOrder::nn}) {
      for (const int batch : batches) {
        candidates.push_back({"cublas GEMM " + std::string(kWeightOrderNames[static_cast<std::size_t>(order)]) +
                                  shape_name(network, hidden, batch),
                              [order, hidden, batch, shared](Recurrent wanted, const SparseMatrix&) {
                                wanted.hidden = hidden;
                                wanted.batch = batch;
                                return make_gemm(wanted, order, *shared);
                              },
                              /*likely=*/batch == batches.back() && hidden == sizes.back()});
      }
    }
  }
  return with_graphs(candidates);
}

}  // namespace onchip
