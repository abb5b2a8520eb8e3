// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/product.hpp"

#include "kernels/baselines/random_fill.hpp"
#include "kernels/recurrent/recurrence.hpp"  // from_elements

#include <algorithm>
#include <cmath>
#include <utility>

namespace onchip {

// ---- the states -----------------------------------------------------------------------------------------------------

namespace {

DeviceBuffer<std::byte> result_buffer(const Recurrent& network) {
  return DeviceBuffer<std::byte>(static_cast<std::size_t>(network.rows()) * network.batch *
                                 info(network.precision).bytes);
}

}  // namespace

ProductStates::ProductStates(const Recurrent& network, MatrixOrder order)
    : network_(network),
      order_(order),
      matrices_{result_buffer(network), result_buffer(network), result_buffer(network)} {
  const std::size_t elements = static_cast<std::size_t>(network.rows()) * network.batch;
  fill(matrices_[0], network.precision, random_pattern(elements, network.precision, 1.0f, 1));
  poison_results();
}

void ProductStates::poison_results() const {
  poison(matrices_[1]);
  poison(matrices_[2]);
}

std::vector<float> ProductStates::download(int which) const {
  return from_elements(matrices_[which].download(), network_.precision);
}

std::size_t ProductStates::index(int row, int sample) const {
  const auto lead = static_cast<std::size_t>(leading());
  return order_ == MatrixOrder::column_major ? sample * lead + row : row * lead + sample;
}

// ---- the baseline ---------------------------------------------------------------------------------------------------

namespace {

class ProductBaseline final : public Baseline {
 public:
  ProductBaseline(const Recurrent& network, MatrixOrder order, const MakeProduct& make,
                  const RowOfWeights& row_of_weights)
      : network_(network), states_(network, order), product_(make(states_)), steps_(network.steps) {
    const Stream stream;
    find_scale(stream);
    check_steps(stream, row_of_weights);
    poison_results();
    enqueue(stream.get());
    stream.synchronize();
    check_results();
  }

  void enqueue(cudaStream_t stream) override { enqueue_steps(stream, steps_); }

  int steps() const override { return steps_; }

  std::string settings() const override {
    return std::string(kProductOnly) + ", " + product_->settings() +
           (steps_ < network_.steps
                ? ", " + std::to_string(steps_) + " of " + std::to_string(network_.steps) + " steps, as they take long"
                : "");
  }

  void poison_results() override { states_.poison_results(); }

  void check_results() const override {
    for (int which = 1; which <= std::min(steps_, 2); ++which) {
      if (!std::isfinite(norm_of(which))) {
        throw BaselineRefusal("a state was not written or is not finite");
      }
    }
  }

 private:
  static int source_of(int step) { return step == 0 ? 0 : target_of(step - 1); }
  static int target_of(int step) { return 1 + step % 2; }

  void enqueue_steps(cudaStream_t stream, int steps) {
    product_->use(stream);
    for (int step = 0; step < steps; ++step) {
      product_->multiply(scale_, source_of(step), target_of(step));
    }
  }

  double norm_of(int which) const {
    double sum = 0;
    for (const double value : states_.download(which)) {
      sum += value * value;
    }
    return std::sqrt(sum);
  }

  // Ever longer runs, each with the scale that would have kept the state's norm in the run before it. Doubling keeps
  // the growth of a run within what the first state hides of the fastest growing one. Not all steps if they take long.
  void find_scale(const Stream& stream) {
    using Clock = std::chrono::steady_clock;
    constexpr int kFewest = 16;  // the first runs load the library's kernels
    const double initial = norm_of(0);
    for (int steps = 1;; steps = std::min(2 * steps, steps_)) {
      const Clock::time_point begin = Clock::now();
      enqueue_steps(stream.get(), steps);
      stream.synchronize();
      const double share = std::chrono::duration<double>(Clock::now() - begin) / kLongestSequence;
      if (steps >= kFewest && share * steps_ > steps) {
        steps_ = std::max(steps, static_cast<int>(steps / share));
      }
      const double growth = norm_of(target_of(steps - 1)) / initial;
      if (!std::isfinite(growth)) {
        throw BaselineRefusal("the state after " + std::to_string(steps) + " steps was not written or is not finite");
      }
      if (growth > 0) {  // else the weights are such that nothing can keep the state
        scale_ = static_cast<float>(scale_ * std::pow(growth, -1.0 / steps));
      }
      if (steps == steps_) {
        return;
      }
    }
  }

  // Each of the ways from one matrix to another that a sequence takes.
  void check_steps(const Stream& stream, const RowOfWeights& row_of_weights) {
    constexpr int kRows = 16;
    std::vector<int> rows;
    std::vector<std::vector<float>> weights;
    for (int i = 0; i < std::min(kRows, network_.rows()); ++i) {
      const std::int64_t span = network_.rows() - 1;
      rows.push_back(static_cast<int>(span * i / std::max(1, std::min(kRows, network_.rows()) - 1)));
      weights.push_back(row_of_weights(rows.back()));
    }
    poison_results();
    for (const auto& [from, to] : {std::pair{0, 1}, std::pair{1, 2}, std::pair{2, 1}}) {
      const std::vector<float> state = states_.download(from);
      product_->use(stream.get());
      product_->multiply(scale_, from, to);
      stream.synchronize();
      const std::vector<float> result = states_.download(to);
      std::vector<double> expected;
      std::vector<float> got;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (int sample = 0; sample < network_.batch; ++sample) {
          double sum = 0;
          for (int unit = 0; unit < network_.hidden; ++unit) {
            sum += static_cast<double>(weights[i][unit]) * state[states_.index(unit, sample)];
          }
          expected.push_back(scale_ * sum);
          got.push_back(result[states_.index(rows[i], sample)]);
        }
      }
      check_products("a step's", expected, got, network_.precision);
    }
  }

  Recurrent network_;
  ProductStates states_;
  std::unique_ptr<Product> product_;  // may refer to the states
  int steps_;
  float scale_ = 1;
};

}  // namespace

std::unique_ptr<Baseline> make_product_baseline(const Recurrent& network, MatrixOrder order, const MakeProduct& make,
                                                const RowOfWeights& row_of_weights) {
  return std::make_unique<ProductBaseline>(network, order, make, row_of_weights);
}

}  // namespace onchip
