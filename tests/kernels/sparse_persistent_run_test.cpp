// SPDX-License-Identifier: Apache-2.0
// What the sparse persistent kernel computes, against the reference (tag [gpu]).
#include "model/base/error.hpp"
#include "tests/kernels/runs.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("every cell and precision gives what the reference gives, on awkward sizes", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int batch : {1, 3, 5, 17}) {
    const SparseCase c = sparse_case({.cell = cell,
                                      .precision = precision,
                                      .hidden = batch == 1 ? 257 : 127,
                                      .batch = batch,
                                      .sms = batch == 5 ? 2 : 7,
                                      .lanes = batch == 3 ? 32 : 8,
                                      .units_per_group = batch == 17 ? 1 : 2});
    PersistentKernel kernel(c.layout());
    for (const int steps : {1, 6}) {
      Given g = given(c.network, steps);
      g.input_bias.clear();
      g.recurrent_bias.clear();
      CAPTURE(c.text(), steps);
      check_right(run(kernel, c.network, g), expected(c, g), precision);
    }
  }
}

TEST_CASE("one unit, and fewer units than SMs, are networks too", "[gpu]") {
  const Cell cell = GENERATE(Cell::tanh, Cell::lstm, Cell::gru);
  for (const int hidden : {1, 3}) {
    const SparseCase c = sparse_case({.cell = cell, .hidden = hidden, .sms = 5, .units_per_group = 1, .density = 1});
    check_right(c, given(c.network, 4));
  }
}

TEST_CASE("all SMs of the device work together", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  const SparseCase c = sparse_case({.cell = cell,
                                    .hidden = 1021,
                                    .batch = 4,
                                    .sms = device_info().sm_count,
                                    .lanes = 32,
                                    .units_per_group = 1,
                                    .density = 0.1});
  check_right(c, given(c.network, 300));  // more steps than segments are emptied ahead
}

TEST_CASE("input and recurrent biases are added where they belong", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    for (const int which : {0, 1, 2}) {
      Given g = given(c.network, 4);
      (which == 0 ? g.input_bias : which == 1 ? g.recurrent_bias : g.initial_cell).clear();
      check_right(c, g);
    }
  }
}

TEST_CASE("without an input, an initial state or a cell, they are zeros", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    Given g = given(c.network, 4);
    g.initial_cell.clear();
    std::fill(g.initial.begin(), g.initial.end(), 0.0f);
    const Expected zeros = expected(c, g);
    g.initial.clear();
    CAPTURE(c.text());
    check_right(run(c, g), zeros, c.network.precision);
    g.input.clear();
    check_right(run(c, g), expected(c, g), c.network.precision);
  }
}

TEST_CASE("samples of different lengths end each for itself, forward and backward, in one launch and in several",
          "[gpu]") {
  const bool backward = GENERATE(false, true);
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    Given g = given(c.network, 9);
    g.backward = backward;
    check_right(c, g);  // all as long
    for (int sample = 0; sample < c.network.batch; ++sample) {
      g.lengths.push_back(std::array{5, 9, 1, 8, 4}[sample]);
    }
    check_right(c, g);
    check_right(c, g, 4);
  }
}

TEST_CASE("several launches give the same bits as one, and every run the same as the first", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    Given g = given(c.network, 11);
    CAPTURE(c.text());
    PersistentKernel kernel(c.layout(), g.biases());
    const Got first = run(kernel, c.network, g);
    Given other = given(c.network, 3);  // what another run leaves in the workspace must not matter
    other.backward = true;
    run(kernel, c.network, other);
    for (int again = 0; again < 5; ++again) {
      CHECK(run(kernel, c.network, g) == first);
    }
    for (const int most_steps : {1, 4, 11}) {
      CHECK(run(c, g, most_steps) == first);
    }
  }
}

// Right, and the same bits again and in launches of a few steps.
void check_runs(const std::vector<SparseCase>& cases) {
  for (const SparseCase& c : cases) {
    CAPTURE(c.text());
    const Given g = given(c.network, 300);  // more steps than segments are emptied ahead
    const Got first = run(c, g);
    check_right(first, expected(c, g), c.network.precision);
    CHECK(run(c, g) == first);
    CHECK(run(c, g, 7) == first);
  }
}

TEST_CASE("pipelined passes come out right, over any number of steps and launches, with the same bits", "[gpu]") {
  check_runs(every_pipeline());
}

TEST_CASE("rows that are split come out right, over any number of steps and launches, with the same bits", "[gpu]") {
  check_runs(every_split());
}

TEST_CASE("the exchange does not change a bit", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    SparseCase c = sparse_case(shape);
    const Given g = given(c.network, 150);  // more than segments are emptied ahead
    CAPTURE(c.text());
    const Got lamport = run(c, g);
    check_right(run(c, given(c.network, 7)), expected(c, given(c.network, 7)), c.network.precision);
    for (const auto exchange : {ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier}) {
      c.plan.exchange = exchange;
      CHECK(run(c, g) == lamport);
      CHECK(run(c, g, 40) == lamport);
    }
  }
}

TEST_CASE("where the words of the state lie in L2 does not change a bit", "[gpu]") {
  for (Shape shape : kEveryKind) {
    for (const int batch : {1, 17}) {
      shape.batch = batch;
      SparseCase c = sparse_case(shape);
      Given g = given(c.network, 150);  // more than segments are emptied ahead
      const Got usual = run(c, g);
      for (const int line_words : {1, 2, 4}) {
        c.plan.line_words = line_words;
        CAPTURE(c.text());
        CHECK(run(c, g) == usual);
        CHECK(run(c, g, 40) == usual);
      }
      c.plan.exchange = ExchangeProtocol::atomic_barrier;
      CHECK(run(c, g) == usual);
    }
  }
}

TEST_CASE("natural order, narrow loads, tiles of several rows and passes of several planes give the same", "[gpu]") {
  for (Shape shape : kEveryKind) {
    shape.batch = 17;
    SparseCase c = sparse_case(shape);
    const Given g = given(c.network, 5);
    c.plan.order = RowOrder::natural;
    check_right(c, g);
    c.plan.order = RowOrder::bank_aware;
    for (int load_bytes = info(shape.precision).bytes; load_bytes < kWidestLoad; load_bytes *= 2) {
      c.plan.load_bytes = load_bytes;
      check_right(c, g);
    }
    c.plan.load_bytes = kWidestLoad;
    c.plan.pass_planes = 2;
    c.plan.loads_in_flight = 5;
    c.plan.promote_every = 1;
    if (info(shape.cell).gates == 1) {
      c.plan.tile_rows = 4;  // of two rows
    }
    check_right(c, g);
  }
}

TEST_CASE("NaN and infinity travel as in the reference, stay in their sample, and hang nothing", "[gpu]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const Shape& shape : kEveryKind) {
    const SparseCase c = sparse_case(shape);
    const std::size_t hidden = c.network.hidden, rows = c.network.rows();
    for (const float poison : {kNan, -kNan, kInfinity, -kInfinity}) {
      Given g = given(c.network, 5);
      g.input[(1 * c.network.batch + 0) * rows + 7] = poison;  // step 1, sample 0
      CAPTURE(c.text(), poison);
      const Got got = run(c, g);
      const std::vector<float> states = from_elements(got.states, c.network.precision);
      const Expected e = expected(c, g);
      if (std::isnan(poison)) {
        CHECK(std::isnan(states[c.network.batch * hidden + 7]));
      }
      check_right(got, e, c.network.precision);
      Given at_start = given(c.network, 3);
      at_start.initial[7] = poison;
      check_right(run(c, at_start), expected(c, at_start), c.network.precision);
    }
  }
}

TEST_CASE("lengths that cannot be are refused", "[gpu]") {
  const SparseCase c = sparse_case({.batch = 3});
  Given g = given(c.network, 4);
  PersistentKernel kernel(c.layout(), g.biases());
  for (const std::vector<int>& lengths : {std::vector<int>{1, 2}, {1, 2, 3, 4}, {0, 1, 1}, {1, 5, 1}, {-1, 1, 1}}) {
    g.lengths = lengths;
    CHECK_THROWS_AS(run(kernel, c.network, g), InputError);
  }
  g.lengths = {4, 1, 2};
  check_right(run(kernel, c.network, g), expected(c, g), c.network.precision);
  g.input_bias.pop_back();
  CHECK_THROWS_AS(PersistentKernel(c.layout(), g.biases()), InputError);
}

}  // namespace
}  // namespace onchip
