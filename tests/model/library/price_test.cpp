// SPDX-License-Identifier: Apache-2.0
#include "model/library/price.hpp"

#include "model/families/planner.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <variant>

using namespace onchip;

namespace {

const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
}

Recurrent network_of(Cell cell, int hidden, int batch, double density = 1, Precision precision = Precision::fp16) {
  return {cell, precision, hidden, batch, 256, density};
}

double step_us(const Recurrent& network, const RecurrentPlan& plan) {
  return predict(h200(), network, plan).step_us;
}

// What was measured on an H200, us per step; experiments/data/h200 has those of 256 steps in graphs.
struct Measured {
  RecurrentPlan plan;
  Cell cell;
  int hidden, batch;
  double density, us;
};
const RecurrentPlan kCublas = CublasPlan{}, kCudnn = CudnnPlan{}, kCusparse = CusparsePlan{};
const Measured kMeasured[] = {
    {kCublas, Cell::relu, 1152, 4, 1, 3.97},      {kCublas, Cell::relu, 1792, 4, 1, 4.63},
    {kCublas, Cell::relu, 2304, 4, 1, 5.59},      {kCublas, Cell::relu, 4096, 4, 1, 9.03},
    {kCublas, Cell::relu, 5632, 4, 1, 17.31},     {kCublas, Cell::lstm, 1152, 4, 1, 4.21},
    {kCublas, Cell::lstm, 1792, 4, 1, 6.57},      {kCublas, Cell::lstm, 2304, 4, 1, 8.72},
    {kCublas, Cell::lstm, 4096, 4, 1, 32.64},     {kCublas, Cell::lstm, 5632, 4, 1, 59.66},
    {kCudnn, Cell::relu, 1152, 8, 1, 2.23},       {kCudnn, Cell::relu, 1792, 8, 1, 2.65},
    {kCudnn, Cell::relu, 2304, 4, 1, 3.62},       {kCudnn, Cell::relu, 2560, 8, 1, 3.66},
    {kCudnn, Cell::relu, 4096, 4, 1, 11.97},      {kCudnn, Cell::relu, 5632, 4, 1, 20.42},
    {kCudnn, Cell::lstm, 1024, 8, 1, 2.66},       {kCudnn, Cell::lstm, 1152, 8, 1, 3.33},
    {kCudnn, Cell::lstm, 1536, 8, 1, 5.28},       {kCudnn, Cell::lstm, 2304, 4, 1, 12.27},
    {kCudnn, Cell::lstm, 3072, 4, 1, 27.0},       {kCudnn, Cell::gru, 1024, 8, 1, 3.19},
    {kCudnn, Cell::gru, 1152, 8, 1, 3.72},        {kCusparse, Cell::relu, 2304, 4, 0.3, 17.2},
    {kCusparse, Cell::relu, 2304, 4, 0.1, 7.6},   {kCusparse, Cell::relu, 2304, 4, 0.05, 5.18},
    {kCusparse, Cell::relu, 2304, 4, 0.01, 3.06}, {kCusparse, Cell::relu, 4096, 4, 0.1, 12.84},
    {kCusparse, Cell::relu, 5632, 4, 0.3, 54.15}, {kCusparse, Cell::relu, 5632, 4, 0.1, 19.8},
    {kCusparse, Cell::relu, 5632, 4, 0.01, 5.79}, {kCusparse, Cell::lstm, 2304, 4, 0.1, 19.09},
    {kCusparse, Cell::lstm, 5632, 4, 0.1, 100.3}, {kCudnn, Cell::lstm, 256, 4, 1, 1.39},
    {kCudnn, Cell::lstm, 512, 32, 1, 3.40},       {kCudnn, Cell::lstm, 1024, 64, 1, 8.24},
    {kCudnn, Cell::gru, 512, 4, 1, 2.68},         {kCudnn, Cell::gru, 1792, 64, 1, 10.95},
    {kCudnn, Cell::relu, 256, 32, 1, 1.48},       {kCudnn, Cell::tanh, 256, 4, 1, 1.27},
};

}  // namespace

TEST_CASE("regression: a library's step is near what was measured, and all but one in twenty within the interval",
          "[fast]") {
  double sum = 0;
  int outside = 0;
  for (const Measured& point : kMeasured) {
    const Recurrent network = network_of(point.cell, point.hidden, point.batch, point.density);
    CAPTURE(describe(network), family_name(point.plan), point.us);
    const Prediction prediction = predict(h200(), network, point.plan);
    outside += point.us < prediction.low_us || point.us > prediction.high_us;
    CHECK(std::abs(prediction.step_us / point.us - 1) < 0.32);
    sum += std::abs(prediction.step_us / point.us - 1);
  }
  CHECK(20 * outside <= static_cast<int>(std::size(kMeasured)));
  CHECK(sum / std::size(kMeasured) < 0.08);
}

TEST_CASE("units that are no whole words are padded for dense libraries", "[fast]") {
  for (const RecurrentPlan& plan : {kCublas, kCudnn}) {
    CHECK(step_us(network_of(Cell::gru, 1577, 64), plan) == step_us(network_of(Cell::gru, 1584, 64), plan));
    CHECK(step_us(network_of(Cell::gru, 1585, 64), plan) > step_us(network_of(Cell::gru, 1584, 64), plan));
    CHECK(step_us(network_of(Cell::relu, 4101, 4, 1, Precision::fp32), plan) ==
          step_us(network_of(Cell::relu, 4104, 4, 1, Precision::fp32), plan));
  }
  CHECK(step_us(network_of(Cell::gru, 1577, 64, 0.1), kCusparse) <
        step_us(network_of(Cell::gru, 1584, 64, 0.1), kCusparse));
}

// Steps of h100_sxm/drawn_again.csv, which nothing was fitted to.
TEST_CASE("regression: libraries in fp32 have prices of their own, a persistent cuDNN among them", "[fast]") {
  const Chip h100 = find_chip("h100_sxm").chip;
  const Measured measured =
      GENERATE(Measured{kCublas, Cell::lstm, 944, 1, 1, 5.28}, Measured{kCublas, Cell::relu, 1196, 4, 1, 7.13},
               Measured{kCublas, Cell::gru, 479, 31, 1, 7.85}, Measured{kCublas, Cell::relu, 541, 37, 1, 8.50},
               Measured{kCudnn, Cell::relu, 412, 4, 1, 2.53}, Measured{kCudnn, Cell::relu, 1196, 4, 1, 4.14},
               Measured{kCudnn, Cell::lstm, 1724, 1, 1, 45.4}, Measured{kCudnn, Cell::tanh, 303, 53, 1, 9.67},
               Measured{kCudnn, Cell::lstm, 453, 64, 1, 16.4});
  const Recurrent network = network_of(measured.cell, measured.hidden, measured.batch, 1, Precision::fp32);
  const double us = predict(h100, network, measured.plan).step_us;
  CAPTURE(describe(network), us, measured.us);
  CHECK(std::abs(us / measured.us - 1) < 0.25);
}

TEST_CASE("a library's terms sum to its step, and it keeps nothing on the SMs", "[fast]") {
  const RecurrentPlan plan = GENERATE(kCublas, kCudnn, kCusparse);
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  const int hidden = GENERATE(1, 31, 2304, 65472);
  const Recurrent network = network_of(cell, hidden, 32, 0.3, precision);
  const Prediction prediction = predict(h200(), network, plan);
  double sum = 0;
  for (const Term& term : prediction.terms) {
    CHECK(term.us >= 0);
    sum += term.us;
  }
  CHECK_THAT(prediction.step_us, Catch::Matchers::WithinRel(sum, 1e-9));
  CHECK(prediction.floor_us <= prediction.step_us);
  CHECK(prediction.low_us <= prediction.step_us);
  CHECK(prediction.footprint.fits);
  for (const ResourceUse& use : prediction.footprint.resources) {
    CHECK(use.used <= use.available);
  }
}

TEST_CASE("weights beyond L2 come from DRAM, and more of them take longer", "[fast]") {
  double last = 0;
  for (const int hidden : {256, 1024, 4096, 4736, 4864, 8192}) {
    const double us = step_us(network_of(Cell::relu, hidden, 4), kCublas);
    CHECK(us > last);
    last = us;
  }
  CHECK(step_us(network_of(Cell::relu, 4864, 4), kCublas) - step_us(network_of(Cell::relu, 4736, 4), kCublas) > 3);
  CHECK(step_us(network_of(Cell::relu, 4096, 4, 0.1), kCusparse) < step_us(network_of(Cell::relu, 4096, 4), kCusparse));
}

TEST_CASE("the quickest library is the fastest of those that can be asked for", "[fast]") {
  for (const int hidden : {512, 2304, 20000}) {
    const Recurrent network = network_of(Cell::lstm, hidden, 4, 0.01);
    const PlannedNetwork quickest = quickest_library(h200(), network);
    for (const RecurrentPlan& plan : {kCublas, kCudnn, kCusparse}) {
      Constraints constraints;
      constraints.family = family_name(plan);
      const PlannedNetwork one = choose_plan(h200(), network, RowProfile::uniform(network), constraints);
      CHECK(one.plan == plan);
      CHECK(parse_recurrent_plan(family_name(plan)) == plan);
      CHECK(to_string(one.plan) == family_name(plan));
      CHECK(quickest.prediction.step_us <= one.prediction.step_us);
    }
  }
}

TEST_CASE("all families are ranked, the fastest first, and those that do not fit last", "[fast]") {
  const Recurrent small = network_of(Cell::relu, 2304, 4, 0.3), large = network_of(Cell::lstm, 20000, 4, 0.5);
  for (const Recurrent& network : {small, large}) {
    const std::vector<RankedPlan> ranking = rank_families(h200(), network, RowProfile::uniform(network));
    REQUIRE(ranking.size() == std::variant_size_v<RecurrentPlan>);
    for (std::size_t i = 1; i < ranking.size(); ++i) {
      const Prediction &before = ranking[i - 1].planned->prediction, &after = ranking[i].planned->prediction;
      CHECK(before.footprint.fits >= after.footprint.fits);
      if (after.footprint.fits) {
        CHECK(before.step_us <= after.step_us);
      }
      CHECK((ranking[i].why.find(" us slower, most of it ") != std::string::npos) == after.footprint.fits);
    }
  }
  CHECK(rank_families(h200(), small, RowProfile::uniform(small))[0].why == "the fastest that fits");
  const RankedPlan first = rank_families(h200(), large, RowProfile::uniform(large))[0];
  CHECK(first.family == CublasPlan::kName);
  CHECK(first.why.find("reading all weights anew") != std::string::npos);
}
