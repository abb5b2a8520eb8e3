// SPDX-License-Identifier: Apache-2.0
// What the tests of references compute themselves, with dense arrays of Eigen.
#pragma once

#include "model/workload/recurrent.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace onchip {

inline std::vector<float> random_floats(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(size);
  for (float& value : values) {
    value = static_cast<float>(random()) * 0x1p-31F - 1;
  }
  return values;
}

// Infinite if the sizes differ or an element is NaN.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double largest = a.size() == b.size() ? 0 : kInfinity;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(a[i] - b[i]);
    largest = std::isnan(d) ? kInfinity : std::max(largest, d);
  }
  return largest;
}

// One step of one sample as torch.nn.RNN, LSTM and GRU document it: x of the input and its bias, a of the state.
inline void dense_step(Cell cell, const Eigen::ArrayXd& x, const Eigen::ArrayXd& a, Eigen::ArrayXd& h,
                       Eigen::ArrayXd& c) {
  using Eigen::ArrayXd;
  const auto size = h.size();
  const auto logistic = [](const ArrayXd& v) -> ArrayXd { return 1 / (1 + (-v).exp()); };
  const auto gate = [&](const ArrayXd& all, int g) -> ArrayXd { return all.segment(g * size, size); };
  const auto sum = [&](int g) -> ArrayXd { return gate(x, g) + gate(a, g); };
  if (cell == Cell::relu) {
    h = sum(0).max(0.0);
  } else if (cell == Cell::tanh) {
    h = sum(0).unaryExpr([](double s) { return std::tanh(s); });
  } else if (cell == Cell::lstm) {
    c = logistic(sum(1)) * c + logistic(sum(0)) * sum(2).tanh();
    h = logistic(sum(3)) * c.tanh();
  } else {
    const ArrayXd r = logistic(sum(0)), z = logistic(sum(1));
    const ArrayXd n = (gate(x, 2) + r * gate(a, 2)).tanh();
    h = (1 - z) * n + z * h;
  }
}

}  // namespace onchip
