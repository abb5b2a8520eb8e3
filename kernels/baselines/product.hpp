// SPDX-License-Identifier: Apache-2.0
// Baselines that are one library call per time step:
//   result[t] = scale W state[t]      W: [rows, hidden], rows = gates * hidden; result: [rows, batch]
//   state[0] is random; state[t] is the first `hidden` rows of result[t - 1]
// As in the real recurrence, no call can begin before the one before it is done. Input, bias and activation are
// missing: a real step made of these calls takes longer. The scale keeps the state from dying out and from overflowing.
//
// A sequence that would take longer than kLongestSequence has fewer steps: what a step takes is known then, too.
#pragma once

#include "kernels/baselines/baseline.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

enum class MatrixOrder : std::uint8_t { column_major, row_major };
inline constexpr std::array<std::string_view, 2> kMatrixOrderNames{"column-major", "row-major"};

inline constexpr std::chrono::milliseconds kLongestSequence{40};

inline constexpr std::string_view kProductOnly = "product only, without input, bias and activation";

// Three matrices [rows, batch] on the device: 0 has the first state in its first `hidden` rows and is never written;
// results alternate between 1 and 2.
class ProductStates {
 public:
  ProductStates(const Recurrent& network, MatrixOrder order);

  void* data(int which) const { return matrices_[which].data(); }
  MatrixOrder order() const { return order_; }
  // Elements from one column to the next, or from one row to the next.
  int leading() const { return order_ == MatrixOrder::column_major ? network_.rows() : network_.batch; }

  void poison_results() const;
  std::vector<float> download(int which) const;
  std::size_t index(int row, int sample) const;  // of an element in what download returns

 private:
  Recurrent network_;
  MatrixOrder order_;
  std::array<DeviceBuffer<std::byte>, 3> matrices_;
};

// W in a library's hands.
class Product {
 public:
  virtual ~Product() = default;
  virtual void use(cudaStream_t stream) = 0;
  // Enqueues result[to] = scale W result[from][0 : hidden].
  virtual void multiply(float scale, int from, int to) = 0;
  virtual std::string settings() const = 0;
};

using MakeProduct = std::function<std::unique_ptr<Product>(const ProductStates&)>;
// A row of W as the device has it, zeros included: [hidden].
using RowOfWeights = std::function<std::vector<float>(int row)>;

// Finds the scale, then compares some rows of single steps with sums in double precision. Throws BaselineRefusal if a
// result is wrong, was not written or is not finite.
std::unique_ptr<Baseline> make_product_baseline(const Recurrent& network, MatrixOrder order, const MakeProduct& make,
                                                const RowOfWeights& row_of_weights);

}  // namespace onchip
