// SPDX-License-Identifier: Apache-2.0
// What the sparse persistent kernel computes, against the reference (tag [gpu]).
#include "model/base/error.hpp"
#include "tests/kernels/runs.hpp"

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
    check_steps(c);
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
