// SPDX-License-Identifier: Apache-2.0
#include "model/workload/step_errors.hpp"

#include "model/base/numeric.hpp"
#include "model/workload/mask.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

constexpr int kHidden = 200, kBatch = 2, kSteps = 12;

// Weights as N(0, 1): every step makes an error several times as large.
SparseMatrix normal_weights(Cell cell, Precision precision) {
  SparseMatrix weights = generate_mask(info(cell).gates * kHidden, kHidden, 0.2, 3, precision);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (float& value : weights.value) {
    value = normal(random);
  }
  return weights;
}

struct Network {
  Cell cell;
  Precision precision;
  SparseMatrix weights = normal_weights(cell, precision);
  std::vector<float> initial = values(kHidden * kBatch, 1);
  std::vector<float> input = values(std::size_t(kSteps) * info(cell).gates * kHidden * kBatch, 2);

  std::vector<float> values(std::size_t count, unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<float> result(count);
    for (float& value : result) {
      value = round_to(precision, static_cast<float>(random()) * 0x1p-31f - 1.0f);
    }
    return result;
  }
  ReferenceInput in() const { return {.batch = kBatch, .steps = kSteps, .initial = initial, .input = input}; }
  // What a kernel computes that rounds its state, with these weights.
  std::vector<float> states(const SparseMatrix& of) const {
    ReferenceInput rounding = in();
    rounding.round_state = true;
    const std::vector<double> states = reference_states(of, cell, precision, rounding).states;
    return {states.begin(), states.end()};
  }
  Correctness check(std::span<const float> got) const { return check_steps(weights, cell, precision, in(), got); }
};

}  // namespace

TEST_CASE("a kernel that rounds is right, however much the network amplifies its roundings", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    const Network network{cell, precision};
    const std::vector<float> got = network.states(network.weights);
    CHECK(network.check(got).correct);
    if (cell == Cell::tanh && precision == Precision::bf16) {  // as whole sequences the same states are far apart
      CHECK(relative_error(reference_states(network.weights, cell, precision, network.in()).states, got) > 0.3);
    }
  }
}

TEST_CASE("one weight dropped, or one unit's state in another's place, is wrong", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    const Network network{cell, precision};
    const std::vector<float> right = network.states(network.weights);
    // Of 40 roundings of bf16 a weight like all others of its row cannot be told.
    int dropped = 0, found = 0;
    for (std::size_t at = 0; precision != Precision::bf16 && at < network.weights.value.size(); at += 311) {
      SparseMatrix weights = network.weights;
      const auto unit = static_cast<std::size_t>(weights.column[at]);
      // A weight like most; of relu, of a unit that is not zero.
      if (std::abs(std::exchange(weights.value[at], 0.0f)) > 1 && right[kHidden * kBatch + unit * kBatch] != 0) {
        ++dropped;
        found += !network.check(network.states(weights)).correct;
      }
    }
    CAPTURE(info(cell).name, info(precision).name, dropped, found);
    CHECK(found >= 0.8 * dropped);  // the others' rows are zero, or their gates closed
    std::vector<float> swapped = right;
    const auto most = std::max_element(swapped.begin(), swapped.begin() + kHidden * kBatch);
    std::swap(*most, *std::min_element(swapped.begin(), swapped.begin() + kHidden * kBatch));
    CHECK_FALSE(network.check(swapped).correct);
  }
}

TEST_CASE("states that are no numbers are wrong, unless the reference leaves the range of the type", "[fast]") {
  const Network network{Cell::relu, Precision::fp16};
  std::vector<float> got = network.states(network.weights);
  const std::vector<float> right = got;
  got[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(network.check(got).correct);
  got = right;
  got.back() = -1;  // of a step beyond 65504 / 16, where sums may be infinite
  CHECK(*std::ranges::max_element(right) > 65504);
  CHECK(network.check(got).correct);
}
