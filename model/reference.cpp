// SPDX-License-Identifier: Apache-2.0
#include "model/reference.hpp"

#include "model/error.hpp"
#include "model/numeric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace onchip {
namespace {

// out[:, first .. first+width) = W state + input, for `width` columns of the batch: a compile-time number, so that the
// sums stay in registers. `state`, `input`, `out`: [hidden, batch].
template <int width>
void multiply(const SparseMatrix& weights, std::span<const double> value, int batch, int first, const double* state,
              const float* input, double* out) {
  for (int row = 0; row < weights.rows; ++row) {
    const std::size_t at = static_cast<std::size_t>(row) * batch + first;
    double sum[width];
    for (int b = 0; b < width; ++b) {
      sum[b] = input[at + b];
    }
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      const double* other = state + static_cast<std::size_t>(weights.column[i]) * batch + first;
      for (int b = 0; b < width; ++b) {
        sum[b] += value[i] * other[b];
      }
    }
    std::copy(sum, sum + width, out + at);
  }
}

double activate(Cell cell, double sum) {
  if (cell == Cell::tanh) {
    return std::tanh(sum);
  }
  return sum <= 0 ? 0 : sum;  // not `sum > 0 ? sum : 0`, which loses NaN
}

void check_length(std::string_view what, std::size_t found, std::size_t expected) {
  if (found != expected) {
    throw InputError("the " + std::string(what) + " has " + std::to_string(found) + " elements; expected " +
                     std::to_string(expected));
  }
}

}  // namespace

std::vector<double> reference_states(const SparseMatrix& weights, Cell cell, Precision precision, int batch, int steps,
                                     std::span<const float> initial, std::span<const float> input, bool round_state) {
  if (cell != Cell::relu && cell != Cell::tanh) {
    throw InputError("the reference has no cell '" + std::string(info(cell).name) + "' yet");
  }
  if (weights.rows != weights.columns) {
    throw InputError("the recurrent matrix of a " + std::string(info(cell).name) + " cell must be square; found " +
                     std::to_string(weights.rows) + " x " + std::to_string(weights.columns));
  }
  if (batch < 1 || steps < 0) {
    throw InputError("the reference needs a batch of at least 1 and no negative number of steps; found " +
                     std::to_string(batch) + " and " + std::to_string(steps));
  }
  const std::size_t state_size = static_cast<std::size_t>(weights.rows) * batch;
  check_length("initial state", initial.size(), state_size);
  check_length("input", input.size(), state_size * steps);

  const auto round_all = [&](std::span<double> state) {
    for (double& element : state) {
      element = round_to(precision, static_cast<float>(element));
    }
  };
  std::vector<double> value(weights.value.begin(), weights.value.end());
  round_all(value);
  std::vector<double> start(initial.begin(), initial.end());
  if (round_state) {
    round_all(start);
  }

  std::vector<double> states(state_size * steps);
  const double* previous = start.data();
  for (int step = 0; step < steps; ++step) {
    double* next = states.data() + state_size * step;
    const float* step_input = input.data() + state_size * step;
    int first = 0;
    for (; first + 4 <= batch; first += 4) {
      multiply<4>(weights, value, batch, first, previous, step_input, next);
    }
    for (; first < batch; ++first) {
      multiply<1>(weights, value, batch, first, previous, step_input, next);
    }
    std::transform(next, next + state_size, next, [cell](double sum) { return activate(cell, sum); });
    if (round_state) {
      round_all({next, state_size});
    }
    previous = next;
  }
  return states;
}

double relative_error(std::span<const double> expected, std::span<const float> got) {
  check_length("result", got.size(), expected.size());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double scale = 0;  // keeps the squares of large states finite, and those of small ones from vanishing
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = expected[i];
    const double g = got[i];
    if (!std::isfinite(e) || !std::isfinite(g)) {
      if (e != g && !(std::isnan(e) && std::isnan(g))) {
        return kInfinity;
      }
      continue;
    }
    scale = std::max({scale, std::abs(e), std::abs(g)});
  }
  if (scale == 0) {
    return 0;
  }
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(expected[i])) {
      const double e = expected[i] / scale;
      const double d = got[i] / scale - e;
      difference += d * d;
      norm += e * e;
    }
  }
  return norm == 0 ? kInfinity : std::sqrt(difference / norm);
}

}  // namespace onchip
