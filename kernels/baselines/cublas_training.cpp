// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/random_fill.hpp"
#include "kernels/baselines/training_baselines.hpp"
#include "kernels/recurrent/recurrence.hpp"  // from_elements
#include "kernels/runtime/cublas.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace onchip {
namespace {

// Every layer and direction multiplies the same buffers: times do not depend on what is in them.
class CublasTraining final : public Baseline {
 public:
  CublasTraining(const Recurrent& network, const Stack& stack);

  void enqueue(cudaStream_t stream) override {
    cublas_.use(stream);
    for (int layer = 0; layer < stack_.layers; ++layer) {
      for (int direction = 0; direction < stack_.directions(); ++direction) {
        for (const DenseProduct& product : products_of(layer)) {
          cublas_.multiply(product);
        }
      }
    }
  }
  int steps() const override { return network_.steps; }
  std::string settings() const override {
    return "products only, without cells and biases, a product for every step of both recurrences, cuBLAS " +
           cublas_.version();
  }
  void poison_results() override {
    for (const Buffer* result : results()) {
      poison(*result);
    }
  }
  void check_results() const override {
    for (const Buffer* result : results()) {
      check_written(*result, network_.precision);
    }
  }
  void check_products();

 private:
  using Buffer = DeviceBuffer<std::byte>;

  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * info(network_.precision).bytes;
  }
  std::vector<const Buffer*> results() const {
    return {&projected_, &gates_, &hidden_gradient_, &input_gradient_, &input_weight_gradient_, &weight_gradient_};
  }
  std::vector<DenseProduct> products_of(int layer) const;

  Recurrent network_;
  Stack stack_;
  int columns_, samples_;
  // Inputs: [samples, columns], [samples, hidden], [samples, rows], [rows, columns], [rows, hidden].
  Buffer x_, h_, gate_gradient_, input_weights_, weights_;
  // Results, each as large as its counterpart: W_ih x, W h, W^T dgates, W_ih^T dgates, and of the weights.
  Buffer projected_, gates_, hidden_gradient_, input_gradient_, input_weight_gradient_, weight_gradient_;
  Cublas cublas_;  // goes first: it may wait for work that uses the buffers
};

CublasTraining::CublasTraining(const Recurrent& network, const Stack& stack)
    : network_(network),
      stack_(stack),
      columns_(std::max(stack.columns(network, 0), stack.layers > 1 ? stack.columns(network, 1) : 0)),
      samples_(network.steps * network.batch),
      x_(bytes(std::int64_t{samples_} * columns_)),
      h_(bytes(std::int64_t{samples_} * network.hidden)),
      gate_gradient_(bytes(std::int64_t{samples_} * network.rows())),
      input_weights_(bytes(std::int64_t{network.rows()} * columns_)),
      weights_(bytes(std::int64_t{network.rows()} * network.hidden)),
      projected_(gate_gradient_.bytes()),
      gates_(gate_gradient_.bytes()),
      hidden_gradient_(h_.bytes()),
      input_gradient_(x_.bytes()),
      input_weight_gradient_(input_weights_.bytes()),
      weight_gradient_(weights_.bytes()) {
  const float limit = 1.0f / std::sqrt(static_cast<float>(network.hidden));
  unsigned seed = 0;
  for (const auto& [buffer, most] : {std::pair{&x_, 1.0f}, std::pair{&h_, 1.0f}, std::pair{&gate_gradient_, 0.01f},
                                     std::pair{&input_weights_, limit}, std::pair{&weights_, limit}}) {
    fill(*buffer, network.precision,
         random_pattern(buffer->bytes() / info(network.precision).bytes, network.precision, most, ++seed));
  }
  poison_results();
}

// Row-major [r, c] is column-major [c, r] here.
std::vector<DenseProduct> CublasTraining::products_of(int layer) const {
  const int rows = network_.rows(), hidden = network_.hidden, batch = network_.batch;
  const int columns = stack_.columns(network_, layer);
  const auto product = [&](int m, int n, int k, bool transposed, const std::byte* a, int leading_a, bool transposed_b,
                           const std::byte* b, int leading_b, std::byte* c) {
    return DenseProduct{.rows = m,
                        .columns = n,
                        .depth = k,
                        .precision = network_.precision,
                        .transposed = transposed,
                        .transposed_b = transposed_b,
                        .a = a,
                        .leading_a = leading_a,
                        .b = b,
                        .leading_b = leading_b,
                        .c = c,
                        .leading_c = m};
  };
  std::vector<DenseProduct> all;
  all.push_back(product(rows, samples_, columns, true, input_weights_.data(), columns, false, x_.data(), columns,
                        projected_.data()));
  const auto of_step = [&](int step, int width) { return bytes(std::int64_t{step} * batch * width); };
  for (int step = 0; step < network_.steps; ++step) {
    all.push_back(product(rows, batch, hidden, true, weights_.data(), hidden, false, h_.data() + of_step(step, hidden),
                          hidden, gates_.data() + of_step(step, rows)));
  }
  for (int step = network_.steps; step-- > 0;) {
    all.push_back(product(hidden, batch, rows, false, weights_.data(), hidden, false,
                          gate_gradient_.data() + of_step(step, rows), rows,
                          hidden_gradient_.data() + of_step(step, hidden)));
  }
  all.push_back(product(columns, samples_, rows, false, input_weights_.data(), columns, false, gate_gradient_.data(),
                        rows, input_gradient_.data()));
  all.push_back(product(columns, rows, samples_, false, x_.data(), columns, true, gate_gradient_.data(), rows,
                        input_weight_gradient_.data()));
  all.push_back(product(hidden, rows, samples_, false, h_.data(), hidden, true, gate_gradient_.data(), rows,
                        weight_gradient_.data()));
  return all;
}

// Some elements of each kind of product, which are the first and last steps' and those over all steps.
void CublasTraining::check_products() {
  constexpr int kElements = 64;
  const Stream stream;
  cublas_.use(stream.get());
  const std::vector<DenseProduct> products = products_of(0);
  const auto download = [&](const void* from, std::int64_t elements) {
    std::vector<std::byte> copy(bytes(elements));
    ONCHIP_CUDA_CHECK(cudaMemcpy(copy.data(), from, copy.size(), cudaMemcpyDeviceToHost));
    return from_elements(copy, network_.precision);
  };
  for (std::size_t i = 0; i < products.size(); ++i) {
    const DenseProduct& p = products[i];
    cublas_.multiply(p);
    const bool is_of_step = i > 0 && i + 3 < products.size();
    if (is_of_step && i != 1 && i + 4 != products.size()) {
      continue;
    }
    stream.synchronize();
    const auto a = download(p.a, std::int64_t{p.leading_a} * (p.transposed ? p.rows : p.depth));
    const auto b = download(p.b, std::int64_t{p.leading_b} * (p.transposed_b ? p.depth : p.columns));
    const auto c = download(p.c, std::int64_t{p.leading_c} * p.columns);
    std::vector<double> expected;
    std::vector<float> got;
    for (std::int64_t element = 0; element < kElements; ++element) {
      const auto row = static_cast<std::size_t>(element * 7919 % p.rows),
                 column = static_cast<std::size_t>(element * 104729 % p.columns);
      double sum = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(p.depth); ++k) {
        const auto lead_a = static_cast<std::size_t>(p.leading_a), lead_b = static_cast<std::size_t>(p.leading_b);
        sum += static_cast<double>(a[p.transposed ? row * lead_a + k : k * lead_a + row]) *
               b[p.transposed_b ? k * lead_b + column : column * lead_b + k];
      }
      expected.push_back(sum);
      got.push_back(c[column * static_cast<std::size_t>(p.leading_c) + row]);
    }
    onchip::check_products("product " + std::to_string(i) + "'s", expected, got, network_.precision);
  }
}

}  // namespace

std::vector<BaselineCandidate> cublas_training_candidates(const Recurrent& network, const Stack& stack) {
  std::vector<BaselineCandidate> candidates;
  for (const int hidden : padded(network.hidden, {8})) {
    for (const int batch : padded(network.batch, {8})) {
      candidates.push_back({"cublas GEMM" + shape_name(network, hidden, batch),
                            [=](Recurrent wanted, const SparseMatrix&) {
                              Cublas::require();
                              wanted.hidden = hidden;
                              wanted.batch = batch;
                              Recurrent checked = wanted;
                              checked.steps = std::min(wanted.steps, kCheckedSteps);
                              CublasTraining(checked, stack).check_products();
                              return std::make_unique<CublasTraining>(wanted, stack);
                            },
                            /*likely=*/true});
    }
  }
  return with_graphs(candidates);
}

std::vector<BaselineCandidate> training_baseline_candidates(const Recurrent& network, const Stack& stack) {
  std::vector<BaselineCandidate> all = cudnn_training_candidates(network, stack);
  std::ranges::move(cublas_training_candidates(network, stack), std::back_inserter(all));
  return all;
}

void check_derivative(const char* of, double change, double expected) {
  constexpr double kTolerance = 0.05;
  if (!(std::abs(change - expected) <= kTolerance * std::abs(expected))) {
    throw BaselineRefusal("wrong: along the gradient of its " + std::string(of) + " the output changes by " +
                          std::to_string(change) + ", not by " + std::to_string(expected));
  }
}

}  // namespace onchip
