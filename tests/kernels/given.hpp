// SPDX-License-Identifier: Apache-2.0
// What runs of the persistent kernels are given, and what the reference says of them: on a GPU (runs.hpp) or
// interpreted (tests/experiments/simulation/interpret_test.cpp).
#pragma once

#include "kernels/recurrent/recurrence.hpp"
#include "model/base/numeric.hpp"
#include "model/workload/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace onchip {

// What a run is given, rounded as the kernel sees it; sample by sample, as the caller of a kernel has it.
struct Given {
  std::vector<float> input;                       // [steps, batch, gates, hidden]
  std::vector<float> initial, initial_cell;       // [batch, hidden]
  std::vector<float> input_bias, recurrent_bias;  // [gates * hidden]
  std::vector<int> lengths;                       // [batch]; empty: all
  int steps = 0;
  bool backward = false;

  Biases biases() const { return {input_bias, recurrent_bias}; }
};

inline std::vector<float> random_values(std::size_t count, Precision precision, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = round_to(precision, static_cast<float>(random()) * 0x1p-31f - 1.0f);
  }
  return values;
}

inline Given given(const Recurrent& network, int steps) {
  const std::size_t state = static_cast<std::size_t>(network.batch) * network.hidden;
  const Precision type = network.precision;
  Given g;
  g.steps = steps;
  g.input = random_values(steps * state * info(network.cell).gates, type, 1);
  g.initial = random_values(state, type, 2);
  if (network.cell == Cell::lstm) {
    g.initial_cell = random_values(state, type, 3);
  }
  g.input_bias = random_values(network.rows(), Precision::fp32, 4);
  g.recurrent_bias = random_values(network.rows(), Precision::fp32, 5);
  return g;
}

struct Expected {
  std::vector<double> states;                   // [steps, batch, hidden]
  std::vector<double> final_state, final_cell;  // [batch, hidden]
};

template <typename P>
Expected expected(const PlannedCase<P>& c, const Given& g) {
  const Recurrent& network = c.network;
  const int batch = network.batch, hidden = network.hidden, rows = network.rows();
  const bool is_gru = network.cell == Cell::gru;
  const auto length = [&](int sample) { return g.lengths.empty() ? g.steps : g.lengths[sample]; };
  // Step t of the recurrence, in the sequence.
  const auto in_sequence = [&](int t, int sample) {
    return g.backward && t < length(sample) ? length(sample) - 1 - t : t;
  };
  // All biases are part of the input, but that of the GRU's n gate, which the reset gate multiplies.
  const auto added = [&](int row) {
    const float in = g.input_bias.empty() ? 0.0f : g.input_bias[row];
    const float recurrent = g.recurrent_bias.empty() || (is_gru && row >= 2 * hidden) ? 0.0f : g.recurrent_bias[row];
    return in + recurrent;
  };
  std::vector<float> input(static_cast<std::size_t>(g.steps) * rows * batch, 0.0f);
  for (int t = 0; t < g.steps; ++t) {
    for (int sample = 0; sample < batch; ++sample) {
      const std::size_t from = (static_cast<std::size_t>(in_sequence(t, sample)) * batch + sample) * rows;
      for (int row = 0; row < rows; ++row) {
        const float x = g.input.empty() ? 0.0f : g.input[from + row];
        input[(static_cast<std::size_t>(t) * rows + row) * batch + sample] =
            round_to(network.precision, x + added(row));
      }
    }
  }
  const auto units_first = [&](const std::vector<float>& samples_first) {
    std::vector<float> values(static_cast<std::size_t>(hidden) * batch, 0.0f);
    for (std::size_t i = 0; i < samples_first.size(); ++i) {
      values[i % hidden * batch + i / hidden] = samples_first[i];
    }
    return values;
  };
  const std::vector<float> initial = units_first(g.initial);
  const std::vector<float> initial_cell = g.initial_cell.empty() ? std::vector<float>() : units_first(g.initial_cell);
  std::vector<float> recurrent_bias(is_gru ? rows : 0, 0.0f);
  if (is_gru && !g.recurrent_bias.empty()) {
    std::copy(g.recurrent_bias.begin() + 2 * hidden, g.recurrent_bias.end(), recurrent_bias.begin() + 2 * hidden);
  }
  const ReferenceStates reference = reference_states(c.matrix, network.cell, network.precision,
                                                     {.batch = batch,
                                                      .steps = g.steps,
                                                      .initial = initial,
                                                      .initial_cell = initial_cell,
                                                      .input = input,
                                                      .recurrent_bias = recurrent_bias,
                                                      .lengths = g.lengths,
                                                      .round_state = true});
  const auto samples_first = [&](const std::vector<double>& values) {
    std::vector<double> result(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      result[i % batch * hidden + i / batch] = values[i];
    }
    return result;
  };
  Expected e{std::vector<double>(reference.states.size()), samples_first(reference.final_state),
             samples_first(reference.final_cell)};
  for (int t = 0; t < g.steps; ++t) {
    for (int sample = 0; sample < batch; ++sample) {
      for (int unit = 0; unit < hidden; ++unit) {
        e.states[(static_cast<std::size_t>(in_sequence(t, sample)) * batch + sample) * hidden + unit] =
            reference.states[(static_cast<std::size_t>(t) * hidden + unit) * batch + sample];
      }
    }
  }
  return e;
}

struct Got {
  std::vector<std::byte> states, final_state, final_cell;
  friend bool operator==(const Got&, const Got&) = default;
};

// Roundings of the state and of sums, several in sequence at most.
inline double tolerance(Precision precision) {
  return std::max(4 * info(precision).unit_roundoff, 2e-6);
}

inline void check_right(const Got& got, const Expected& e, Precision precision) {
  CHECK(relative_error(e.states, from_elements(got.states, precision)) < tolerance(precision));
  CHECK(relative_error(e.final_state, from_elements(got.final_state, precision)) < tolerance(precision));
  CHECK(relative_error(e.final_cell, from_elements(got.final_cell, precision)) < tolerance(precision));
}

inline const std::vector<Shape> kEveryKind{
    {.cell = Cell::relu, .precision = Precision::fp16, .batch = 5},
    {.cell = Cell::tanh, .precision = Precision::bf16, .batch = 3},
    {.cell = Cell::lstm, .precision = Precision::fp16, .batch = 3},
    {.cell = Cell::lstm, .precision = Precision::fp32, .batch = 1},
    {.cell = Cell::gru, .precision = Precision::fp8, .batch = 5},
    {.cell = Cell::gru, .precision = Precision::fp32, .batch = 3},
};

// Calls `check` with a case of every kind of sparse and of dense kernel.
void for_every_kind(auto&& check) {
  for (const Shape& shape : kEveryKind) {
    check(sparse_case(shape));
  }
  for (const DenseShape& shape : kEveryDenseKind) {
    check(dense_case(shape));
  }
}

// One unit, and fewer units than SMs, of every storage.
void for_every_tiny_network(Cell cell, auto&& check) {
  for (const int hidden : {1, 3}) {
    check(sparse_case({.cell = cell, .hidden = hidden, .units_per_group = 1, .density = 1}));
    for (const Storage storage : {Storage::dense, kStructured, kBitmap}) {
      check(dense_case({.cell = cell, .hidden = hidden, .storage = storage}));
    }
  }
}

// Each value that is not finite, in the input of one sample and in its state: `check` is given a case and what it
// computes with. Dense kernels have no zeros: multiplied by infinity, they are not the reference's.
void for_every_poison(auto&& check) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const auto poison = [&](const auto& c) {
    for (const float value : {kNan, -kNan, kInfinity, -kInfinity}) {
      CAPTURE(c.text(), value);
      Given in_input = given(c.network, 5), at_start = given(c.network, 3);
      in_input.input[(1 * c.network.batch + 0) * static_cast<std::size_t>(c.network.rows()) + 7] = value;  // step 1
      at_start.initial[7] = value;
      check(c, in_input);
      check(c, at_start);
    }
  };
  for (const Shape& shape : kEveryKind) {
    poison(sparse_case(shape));
  }
  for (DenseShape shape : kEveryDenseKind) {
    shape.density = 1;
    poison(dense_case(shape));
  }
}

}  // namespace onchip
