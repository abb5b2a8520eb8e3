// SPDX-License-Identifier: Apache-2.0
#include "model/workload/recurrent.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <limits>
#include <string>

using namespace onchip;

namespace {

std::string check_error(const Recurrent& network) {
  return error_of([&] { check(network); });
}

}  // namespace

TEST_CASE("cells and precisions are read by name", "[fast]") {
  for (const CellInfo& cell : kCells) {
    REQUIRE(info(parse_cell(cell.name)).name == cell.name);
  }
  for (const PrecisionInfo& precision : kPrecisions) {
    REQUIRE(info(parse_precision(precision.name)).name == precision.name);
  }
  REQUIRE(error_of([] { parse_cell("lsmt"); }) == "unknown cell 'lsmt'; did you mean 'lstm'?");
  REQUIRE(error_of([] { parse_cell("rnn"); }) == "unknown cell 'rnn': expected relu, tanh, lstm or gru");
  REQUIRE(error_of([] { parse_cell("lst"); }) == "unknown cell 'lst'; did you mean 'lstm'?");
  REQUIRE(error_of([] { parse_cell(""); }) == "unknown cell '': expected relu, tanh, lstm or gru");
  REQUIRE(parse_precision("FP16") == Precision::fp16);
  REQUIRE(parse_cell("LSTM") == Cell::lstm);
  REQUIRE(error_of([] { parse_precision("double"); }) ==
          "unknown precision 'double': expected fp16, bf16, fp32 or fp8");
}

TEST_CASE("the limits of a network are inclusive", "[fast]") {
  REQUIRE_NOTHROW(check({.hidden = 1, .batch = 1, .steps = 1, .density = 1e-9}));
  REQUIRE_NOTHROW(check({.hidden = kMaxHidden, .batch = kMaxBatch, .steps = 2147483647, .density = 1}));
}

TEST_CASE("a network out of range is refused by the field's name", "[fast]") {
  REQUIRE(check_error({.hidden = 0}) == "hidden 0 is out of range: expected 1 to " + std::to_string(kMaxHidden));
  REQUIRE(check_error({.hidden = kMaxHidden + 1}) ==
          "hidden " + std::to_string(kMaxHidden + 1) + " is out of range: expected 1 to " + std::to_string(kMaxHidden));
  REQUIRE(check_error({.hidden = 8, .batch = 16385}) == "batch 16385 is out of range: expected 1 to 16384");
  REQUIRE(check_error({.hidden = 8, .batch = -1}) == "batch -1 is out of range: expected 1 to 16384");
  REQUIRE(check_error({.hidden = 8, .steps = 0}) == "steps 0 is out of range: expected 1 to 2147483647");
  const std::string expected = " is out of range: expected a number above 0 and at most 1";
  REQUIRE(check_error({.hidden = 8, .density = 1.5}) == "density 1.5" + expected);
  REQUIRE(check_error({.hidden = 8, .density = 0}) == "density 0" + expected);
  REQUIRE(check_error({.hidden = 8, .density = std::numeric_limits<double>::quiet_NaN()}) == "density nan" + expected);
}

TEST_CASE("a network is described on one line", "[fast]") {
  REQUIRE(describe({.hidden = 2304, .batch = 4, .density = 0.3}) == "relu H=2304 B=4 30 % fp16");
  REQUIRE(describe({.cell = Cell::lstm, .precision = Precision::fp32, .hidden = 7, .density = 0.07}) ==
          "lstm H=7 B=1 7 % fp32");
}
