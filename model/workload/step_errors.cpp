// SPDX-License-Identifier: Apache-2.0
#include "model/workload/step_errors.hpp"

#include "model/base/numeric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace onchip {
namespace {

// The roundings of sums in the state's type, and of the hardware's approximations, beside those of the state.
constexpr double kRoundings = 16;
// Of one rounding the next state may hardly know, where it is at the foot of a steep slope: the mean is of several.
constexpr int kSamples = 4;
// Of the instructions of fp32 that kernels use for exponentials and reciprocals.
constexpr double kLeastRoundoff = 1e-7;
// What a row's partial sums may be beyond the state that they become.
constexpr double kHeadroom = 16;

// Each off by one roundoff.
std::vector<float> rounded_once(std::span<const float> values, double roundoff, std::mt19937& random) {
  std::vector<float> result(values.begin(), values.end());
  for (float& value : result) {
    value *= static_cast<float>(1 + (random() % 2 == 0 ? roundoff : -roundoff));
  }
  return result;
}

// Steps up to the first in which a state is that large.
int steps_in_range(std::span<const double> states, std::size_t state_size, double most) {
  const auto beyond = std::ranges::find_if(states, [&](double h) { return !(std::abs(h) <= most); });
  const auto step = static_cast<std::size_t>(beyond - states.begin()) / state_size;
  return static_cast<int>(std::min(step + 1, states.size() / state_size));
}

std::vector<double> step_weights(std::span<const double> states, std::size_t state_size) {
  std::vector<double> weights;
  for (std::size_t at = 0; at < states.size(); at += state_size) {
    const auto step = states.subspan(at, state_size);
    const double squares = std::inner_product(step.begin(), step.end(), step.begin(), 0.0);
    weights.push_back(squares > 0 ? static_cast<double>(state_size) / squares : 1);
  }
  return weights;
}

}  // namespace

Correctness check_steps(const SparseMatrix& weights, Cell cell, Precision precision, ReferenceInput in,
                        std::span<const float> got) {
  const double roundoff = std::max(info(precision).unit_roundoff, kLeastRoundoff);
  in.handed_on = got;
  const std::vector<double> expected = reference_states(weights, cell, precision, in).states;
  const std::size_t state_size = in.initial.size();
  const double largest = precision == Precision::fp16 || precision == Precision::fp8 ? 65504 : 3e38;
  const int steps = steps_in_range(expected, state_size, largest / kHeadroom);
  const auto batch = static_cast<std::size_t>(in.batch);
  const std::size_t compared = state_size * static_cast<std::size_t>(steps);
  // Of each step 1 / the mean square of its state: one step counts as much as another, however the state grows.
  const std::vector<double> weight = step_weights(expected, state_size);
  std::vector<double> error(state_size / batch), scale(error.size());  // sums of squares, by unit
  const auto add = [&](std::vector<double>& to, std::size_t i, double off) {
    to[i % state_size / batch] += off * off * weight[i / state_size];
  };
  for (std::size_t i = 0; i < compared; ++i) {
    add(error, i, got[i] - expected[i]);
    add(scale, i, roundoff * expected[i]);
  }
  const double mean_scale = std::accumulate(scale.begin(), scale.end(), 0.0) / static_cast<double>(scale.size());
  std::mt19937 random(1);
  for (int sample = 0; sample < kSamples; ++sample) {
    const std::vector<float> initial = rounded_once(in.initial, roundoff, random);
    const std::vector<float> handed_on = rounded_once(got, roundoff, random);
    ReferenceInput rounded = in;
    rounded.initial = initial;
    rounded.handed_on = handed_on;
    const std::vector<double> moved = reference_states(weights, cell, precision, rounded).states;
    for (std::size_t i = 0; i < compared; ++i) {
      add(scale, i, (moved[i] - expected[i]) / std::sqrt(kSamples));
    }
  }
  Correctness result{0, kRoundings * roundoff, true};
  for (std::size_t unit = 0; unit < error.size(); ++unit) {
    const double found = error[unit] == 0 ? 0 : roundoff * std::sqrt(error[unit] / (scale[unit] + mean_scale));
    result.relative_error =
        std::max(result.relative_error, std::isnan(found) ? std::numeric_limits<double>::infinity() : found);
  }
  result.correct = result.relative_error <= result.tolerance;
  return result;
}

}  // namespace onchip
