// SPDX-License-Identifier: Apache-2.0
#include "model/reference.hpp"

#include "model/error.hpp"
#include "model/numeric.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace onchip {
namespace {

// out[:, first .. first+width) = W state + bias, for `width` columns of the batch: a compile-time number, so that the
// sums stay in registers. `state`: [hidden, batch]; `bias`: [rows]; `out`: [rows, batch].
template <int width>
void multiply(const SparseMatrix& weights, std::span<const double> bias, int batch, int first, const double* state,
              double* out) {
  for (int row = 0; row < weights.rows; ++row) {
    double sum[width];
    std::fill(sum, sum + width, bias[row]);
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      const double value = weights.value[i];
      const double* other = state + static_cast<std::size_t>(weights.column[i]) * batch + first;
      for (int b = 0; b < width; ++b) {
        sum[b] += value * other[b];
      }
    }
    std::copy(sum, sum + width, out + static_cast<std::size_t>(row) * batch + first);
  }
}

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

// h' of one unit and sample. `product` and `input` are those of gate 0; the next gate's is `stride` elements on.
double next_state(Cell cell, const double* product, const float* input, std::size_t stride, double h, double& c) {
  const auto sum = [&](int gate) { return input[gate * stride] + product[gate * stride]; };
  switch (cell) {
    case Cell::relu:
      return sum(0) <= 0 ? 0 : sum(0);  // not `sum > 0 ? sum : 0`, which loses NaN
    case Cell::tanh:
      return std::tanh(sum(0));
    case Cell::lstm: {
      c = logistic(sum(1)) * c + logistic(sum(0)) * std::tanh(sum(2));
      return logistic(sum(3)) * std::tanh(c);
    }
    case Cell::gru: {
      const double z = logistic(sum(1));
      const double n = std::tanh(input[2 * stride] + logistic(sum(0)) * product[2 * stride]);
      return (1 - z) * n + z * h;
    }
  }
  return 0;
}

void check_length(std::string_view what, std::size_t found, std::size_t expected) {
  if (found != expected) {
    throw InputError("the " + std::string(what) + " has " + std::to_string(found) + " elements; expected " +
                     std::to_string(expected));
  }
}

void check_input(const SparseMatrix& weights, Cell cell, const ReferenceInput& in) {
  const int gates = info(cell).gates;
  if (weights.rows != std::int64_t{gates} * weights.columns) {
    throw InputError("the recurrent matrix of the cell '" + std::string(info(cell).name) + "' must " +
                     (gates == 1 ? "be square" : "have " + std::to_string(gates) + " rows per column") + "; found " +
                     std::to_string(weights.rows) + " x " + std::to_string(weights.columns));
  }
  if (in.batch < 1 || in.steps < 0) {
    throw InputError("the reference needs a batch of at least 1 and no negative number of steps; found " +
                     std::to_string(in.batch) + " and " + std::to_string(in.steps));
  }
  const std::size_t state_size = static_cast<std::size_t>(weights.columns) * in.batch;
  check_length("initial state", in.initial.size(), state_size);
  if (!in.initial_cell.empty()) {
    check_length("initial cell state", in.initial_cell.size(), cell == Cell::lstm ? state_size : 0);
  }
  check_length("input", in.input.size(), state_size * gates * in.steps);
  if (!in.recurrent_bias.empty()) {
    check_length("recurrent bias", in.recurrent_bias.size(), static_cast<std::size_t>(weights.rows));
  }
  if (!in.lengths.empty()) {
    check_length("list of lengths", in.lengths.size(), static_cast<std::size_t>(in.batch));
  }
  for (const int length : in.lengths) {
    if (length < 0 || length > in.steps) {
      throw InputError("a sample has " + std::to_string(length) + " steps; expected 0 to " + std::to_string(in.steps));
    }
  }
}

}  // namespace

ReferenceStates reference_states(const SparseMatrix& weights, Cell cell, Precision precision,
                                 const ReferenceInput& in) {
  check_input(weights, cell, in);
  SparseMatrix rounded_weights = weights;
  round_weights(rounded_weights, precision);
  std::vector<double> bias(weights.rows);
  std::copy(in.recurrent_bias.begin(), in.recurrent_bias.end(), bias.begin());
  const auto handed_on = [&](double h) { return in.round_state ? round_to(precision, static_cast<float>(h)) : h; };

  const std::size_t state_size = in.initial.size();
  ReferenceStates result;
  result.states.resize(state_size * in.steps);
  result.final_state.resize(state_size);  // between the steps: what the next one multiplies
  std::transform(in.initial.begin(), in.initial.end(), result.final_state.begin(), handed_on);
  std::vector<double> carried = result.final_state;
  std::vector<double> c(state_size);
  std::copy(in.initial_cell.begin(), in.initial_cell.end(), c.begin());

  std::vector<double> product(bias.size() * in.batch);
  for (int step = 0; step < in.steps; ++step) {
    int first = 0;
    for (; first + 4 <= in.batch; first += 4) {
      multiply<4>(rounded_weights, bias, in.batch, first, result.final_state.data(), product.data());
    }
    for (; first < in.batch; ++first) {
      multiply<1>(rounded_weights, bias, in.batch, first, result.final_state.data(), product.data());
    }
    const float* step_input = in.input.data() + product.size() * step;
    double* step_states = result.states.data() + state_size * step;
    for (std::size_t i = 0; i < state_size; ++i) {
      if (in.lengths.empty() || step < in.lengths[i % in.batch]) {
        carried[i] = next_state(cell, &product[i], step_input + i, state_size, carried[i], c[i]);
        step_states[i] = result.final_state[i] = handed_on(carried[i]);
      }
    }
  }
  if (cell == Cell::lstm) {
    result.final_cell = std::move(c);
  }
  return result;
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
