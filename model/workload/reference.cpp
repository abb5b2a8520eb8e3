// SPDX-License-Identifier: Apache-2.0
#include "model/workload/reference.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"

#include <Eigen/Core>
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
template <typename Input>
double next_state(Cell cell, const double* product, const Input* input, std::size_t stride, double h, double& c) {
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

void check_matrix(const SparseMatrix& weights, Cell cell) {
  const int gates = info(cell).gates;
  if (weights.rows != std::int64_t{gates} * weights.columns) {
    throw InputError("the recurrent matrix of the cell '" + std::string(info(cell).name) + "' must " +
                     (gates == 1 ? "be square" : "have " + std::to_string(gates) + " rows per column") + "; found " +
                     std::to_string(weights.rows) + " x " + std::to_string(weights.columns));
  }
}

void check_lengths(std::span<const int> lengths, int batch, int steps) {
  if (!lengths.empty()) {
    check_length("list of lengths", lengths.size(), static_cast<std::size_t>(batch));
  }
  for (const int length : lengths) {
    if (length < 0 || length > steps) {
      throw InputError("a sample has " + std::to_string(length) + " steps; expected 0 to " + std::to_string(steps));
    }
  }
}

void check_input(const SparseMatrix& weights, Cell cell, const ReferenceInput& in, std::size_t input_size) {
  const int gates = info(cell).gates;
  check_matrix(weights, cell);
  if (in.batch < 1 || in.steps < 0) {
    throw InputError("the reference needs a batch of at least 1 and no negative number of steps; found " +
                     std::to_string(in.batch) + " and " + std::to_string(in.steps));
  }
  const std::size_t state_size = static_cast<std::size_t>(weights.columns) * in.batch;
  check_length("initial state", in.initial.size(), state_size);
  if (!in.initial_cell.empty()) {
    check_length("initial cell state", in.initial_cell.size(), cell == Cell::lstm ? state_size : 0);
  }
  check_length("input", input_size, state_size * gates * in.steps);
  if (!in.recurrent_bias.empty()) {
    check_length("recurrent bias", in.recurrent_bias.size(), static_cast<std::size_t>(weights.rows));
  }
  if (!in.handed_on.empty()) {
    check_length("states handed on", in.handed_on.size(), state_size * in.steps);
  }
  check_lengths(in.lengths, in.batch, in.steps);
}

// `input` takes the place of in.input.
template <typename Input>
ReferenceStates states_of(const SparseMatrix& weights, Cell cell, Precision precision, const ReferenceInput& in,
                          std::span<const Input> input) {
  check_input(weights, cell, in, input.size());
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
    const Input* step_input = input.data() + product.size() * step;
    double* step_states = result.states.data() + state_size * step;
    for (std::size_t i = 0; i < state_size; ++i) {
      if (in.lengths.empty() || step < in.lengths[i % in.batch]) {
        carried[i] = next_state(cell, &product[i], step_input + i, state_size, carried[i], c[i]);
        step_states[i] = handed_on(carried[i]);
        result.final_state[i] = in.handed_on.empty() ? step_states[i] : in.handed_on[state_size * step + i];
      }
    }
  }
  if (cell == Cell::lstm) {
    result.final_cell = std::move(c);
  }
  return result;
}

// ---- several layers -------------------------------------------------------------------------------------------------

void check_stack(std::span<const ReferenceLayer> layers, Cell cell, const ReferenceStackInput& in) {
  if (in.directions < 1 || in.directions > 2 || layers.empty() || layers.size() % in.directions != 0) {
    throw InputError("there are weights for " + std::to_string(layers.size()) + " directions of layers with " +
                     std::to_string(in.directions) + " each; expected 1 or 2, and whole layers");
  }
  if (in.input_size < 1 || in.batch < 1 || in.steps < 0) {
    throw InputError("a stack needs an input size and a batch of at least 1 and no negative number of steps; found " +
                     std::to_string(in.input_size) + ", " + std::to_string(in.batch) + " and " +
                     std::to_string(in.steps));
  }
  check_lengths(in.lengths, in.batch, in.steps);
  const int hidden = layers[0].recurrent_weights.columns;
  const auto rows = static_cast<std::size_t>(info(cell).gates) * hidden;
  check_length("input of the stack", in.input.size(), std::size_t(in.steps) * in.batch * in.input_size);
  const std::size_t states_size = layers.size() * in.batch * hidden;
  check_length("initial state of the stack", in.initial.size(), in.initial.empty() ? 0 : states_size);
  check_length("initial cell state of the stack", in.initial_cell.size(), in.initial_cell.empty() ? 0 : states_size);
  for (std::size_t place = 0; place < layers.size(); ++place) {
    const ReferenceLayer& layer = layers[place];
    check_matrix(layer.recurrent_weights, cell);
    if (layer.recurrent_weights.columns != hidden) {
      throw InputError("a recurrent matrix has " + std::to_string(layer.recurrent_weights.columns) +
                       " columns; that of the first layer has " + std::to_string(hidden));
    }
    const int columns = place < static_cast<std::size_t>(in.directions) ? in.input_size : in.directions * hidden;
    check_length("matrix of input weights", layer.input_weights.size(), rows * columns);
    check_length("input bias", layer.input_bias.size(), layer.input_bias.empty() ? 0 : rows);
  }
}

// From [batch, hidden] to [hidden, batch]; zeros from nothing.
std::vector<float> transposed(std::span<const float> from, int batch, int hidden) {
  std::vector<float> to(static_cast<std::size_t>(batch) * hidden, 0.0f);
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i % hidden * batch + i / hidden] = from[i];
  }
  return to;
}

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Row of a [steps * batch, ...] sequence that step t of the recurrence has.
Eigen::Index row_of(const ReferenceStackInput& in, bool backward, int t, int sample) {
  const int length = in.lengths.empty() ? in.steps : in.lengths[sample];
  return Eigen::Index{backward && t < length ? length - 1 - t : t} * in.batch + sample;
}

// x in the recurrence's order, [steps, gates * hidden, batch]. `input`: [steps * batch, columns].
std::vector<double> projection(const ReferenceLayer& layer, Precision precision, const ReferenceStackInput& in,
                               bool backward, const Matrix& input) {
  Matrix weights(layer.recurrent_weights.rows, input.cols());
  std::transform(layer.input_weights.begin(), layer.input_weights.end(), weights.data(),
                 [&](float w) { return round_to(precision, w); });
  const Matrix product = input * weights.transpose();
  std::vector<double> x;
  x.reserve(static_cast<std::size_t>(product.size()));
  for (int t = 0; t < in.steps; ++t) {
    for (int row = 0; row < layer.recurrent_weights.rows; ++row) {
      for (int sample = 0; sample < in.batch; ++sample) {
        const double sum =
            product(row_of(in, backward, t, sample), row) + (layer.input_bias.empty() ? 0 : layer.input_bias[row]);
        x.push_back(in.round_state ? round_to(precision, static_cast<float>(sum)) : sum);
      }
    }
  }
  return x;
}

}  // namespace

ReferenceStates reference_states(const SparseMatrix& weights, Cell cell, Precision precision,
                                 const ReferenceInput& in) {
  return states_of(weights, cell, precision, in, in.input);
}

ReferenceStack reference_stack(std::span<const ReferenceLayer> layers, Cell cell, Precision precision,
                               const ReferenceStackInput& in) {
  check_stack(layers, cell, in);
  const int hidden = layers[0].recurrent_weights.columns;
  const std::size_t state_size = static_cast<std::size_t>(in.batch) * hidden;
  ReferenceStack result;
  result.final_state.resize(layers.size() * state_size);
  result.final_cell.resize(cell == Cell::lstm ? result.final_state.size() : 0);

  Matrix input(Eigen::Index{in.steps} * in.batch, in.input_size), output;
  std::copy(in.input.begin(), in.input.end(), input.data());
  for (std::size_t place = 0; place < layers.size(); ++place) {
    const ReferenceLayer& layer = layers[place];
    const auto direction = static_cast<int>(place % in.directions);
    const bool backward = direction == 1;
    if (direction == 0 && place > 0) {
      input = std::move(output);
    }
    if (direction == 0) {
      output = Matrix::Zero(input.rows(), Eigen::Index{in.directions} * hidden);
    }
    const std::vector<double> x = projection(layer, precision, in, backward, input);
    const auto own = [&](std::span<const float> states) {
      return transposed(states.empty() ? states : states.subspan(place * state_size, state_size), in.batch, hidden);
    };
    const std::vector<float> initial = own(in.initial);
    const std::vector<float> initial_cell = own(in.initial_cell);
    ReferenceInput recurrence{.batch = in.batch, .steps = in.steps, .initial = initial};
    recurrence.initial_cell = in.initial_cell.empty() ? in.initial_cell : initial_cell;
    recurrence.recurrent_bias = layer.recurrent_bias;
    recurrence.lengths = in.lengths;
    recurrence.round_state = in.round_state;
    const ReferenceStates states =
        states_of(layer.recurrent_weights, cell, precision, recurrence, std::span<const double>(x));

    for (int sample = 0; sample < in.batch; ++sample) {
      for (int unit = 0; unit < hidden; ++unit) {
        const std::size_t from = static_cast<std::size_t>(unit) * in.batch + sample;
        const std::size_t to = place * state_size + static_cast<std::size_t>(sample) * hidden + unit;
        result.final_state[to] = states.final_state[from];
        if (cell == Cell::lstm) {
          result.final_cell[to] = states.final_cell[from];
        }
        for (int t = 0; t < in.steps; ++t) {
          output(row_of(in, backward, t, sample), direction * hidden + unit) = states.states[state_size * t + from];
        }
      }
    }
  }
  result.output.assign(output.data(), output.data() + output.size());
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
