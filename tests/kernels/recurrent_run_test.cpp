// SPDX-License-Identifier: Apache-2.0
// What sparse and dense persistent kernels have in common, against the reference (tag [gpu]).
#include "tests/kernels/runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("input and recurrent biases are added where they belong", "[gpu]") {
  for_every_kind([](const auto& c) {
    for (const int which : {0, 1, 2}) {
      Given g = given(c.network, 4);
      (which == 0 ? g.input_bias : which == 1 ? g.recurrent_bias : g.initial_cell).clear();
      check_right(c, g);
    }
  });
}

TEST_CASE("without an input, an initial state or a cell, they are zeros", "[gpu]") {
  for_every_kind([](const auto& c) {
    Given g = given(c.network, 4);
    g.initial_cell.clear();
    std::ranges::fill(g.initial, 0.0F);
    const Expected zeros = expected(c, g);
    g.initial.clear();
    CAPTURE(c.text());
    check_right(run(c, g), zeros, c.network.precision);
    g.input.clear();
    check_right(c, g);
  });
}

TEST_CASE("samples of different lengths end each for itself, forward and backward, in one launch and in several",
          "[gpu]") {
  const bool backward = GENERATE(false, true);
  for_every_kind([&](const auto& c) {
    Given g = given(c.network, 9);
    g.backward = backward;
    check_right(c, g);  // all as long
    for (int sample = 0; sample < c.network.batch; ++sample) {
      g.lengths.push_back(std::array{5, 9, 1, 8, 4}[sample]);
    }
    check_right(c, g);
    check_right(c, g, 4);
  });
}

TEST_CASE("every run, launch, exchange and place of the state in L2 gives the same bits", "[gpu]") {
  const auto check = [](auto c) {
    const Given g = given(c.network, 150);  // more than segments are emptied ahead
    CAPTURE(c.text());
    PersistentKernel kernel(c.layout(), g.biases());
    const Got first = run(kernel, c.network, g);
    Given other = given(c.network, 3);  // what another run leaves in the workspace must not matter
    other.backward = true;
    run(kernel, c.network, other);
    for (int again = 0; again < 5; ++again) {
      CHECK(run(kernel, c.network, g) == first);
    }
    for (const int most_steps : {1, 40, 150}) {
      CHECK(run(c, g, most_steps) == first);
    }
    for (const int line_words : {1, 2, 4}) {
      c.plan.line_words = line_words;
      CHECK(run(c, g) == first);
      CHECK(run(c, g, 40) == first);
    }
    for (const auto exchange : {ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier}) {
      c.plan.exchange = exchange;
      CHECK(run(c, g) == first);
      CHECK(run(c, g, 40) == first);
    }
  };
  for_every_kind(check);
  for (Shape shape : kEveryKind) {
    shape.batch = 17;
    check(sparse_case(shape));
  }
}

TEST_CASE("NaN and infinity travel as in the reference, stay in their sample, and hang nothing", "[gpu]") {
  for_every_poison([](const auto& c, const Given& g) {
    const Got got = run(c, g);
    const std::size_t batch = c.network.batch, rows = c.network.rows(), hidden = c.network.hidden;
    if (std::isnan(g.input[batch * rows + 7])) {
      CHECK(std::isnan(from_elements(got.states, c.network.precision)[batch * hidden + 7]));
    }
    check_right(got, expected(c, g), c.network.precision);
  });
}

}  // namespace
}  // namespace onchip
