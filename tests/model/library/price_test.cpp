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

// What was measured of cuSPARSE on an H200, us per step. Files have the other libraries (validate_test.cpp).
struct Measured {
  Cell cell;
  int hidden, batch;
  double density, us;
};
const RecurrentPlan kCublas = CublasPlan{}, kCudnn = CudnnPlan{}, kCusparse = CusparsePlan{};
const Measured kMeasured[] = {
    {Cell::relu, 2304, 4, 0.3, 17.2},  {Cell::relu, 2304, 4, 0.1, 7.6},   {Cell::relu, 2304, 4, 0.05, 5.18},
    {Cell::relu, 2304, 4, 0.01, 3.06}, {Cell::relu, 4096, 4, 0.1, 12.84}, {Cell::relu, 5632, 4, 0.3, 54.15},
    {Cell::relu, 5632, 4, 0.1, 19.8},  {Cell::relu, 5632, 4, 0.01, 5.79}, {Cell::lstm, 2304, 4, 0.1, 19.09},
    {Cell::lstm, 5632, 4, 0.1, 100.3},
};

}  // namespace

TEST_CASE("regression: steps of cuSPARSE are near what was measured, all but one within the interval", "[fast]") {
  double sum = 0;
  int outside = 0;
  for (const Measured& point : kMeasured) {
    const Recurrent network = network_of(point.cell, point.hidden, point.batch, point.density);
    CAPTURE(describe(network), point.us);
    const Prediction prediction = predict(h200(), network, kCusparse);
    outside += point.us < prediction.low_us || point.us > prediction.high_us;
    CHECK(std::abs(prediction.step_us / point.us - 1) < 0.32);
    sum += std::abs(prediction.step_us / point.us - 1);
  }
  CHECK(outside <= 1);
  CHECK(sum / std::size(kMeasured) < 0.12);
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

TEST_CASE("the fastest library takes no longer than any that can be asked for", "[fast]") {
  for (const int hidden : {512, 2304, 20000}) {
    const Recurrent network = network_of(Cell::lstm, hidden, 4, 0.01);
    const PlannedNetwork fastest = fastest_library(h200(), network);
    for (const RecurrentPlan& plan : {kCublas, kCudnn, kCusparse}) {
      Constraints constraints;
      constraints.family = family_name(plan);
      const PlannedNetwork one = choose_plan(h200(), network, RowProfile::uniform(network), constraints);
      CHECK(one.plan == plan);
      CHECK(parse_recurrent_plan(family_name(plan)) == plan);
      CHECK(to_string(one.plan) == family_name(plan));
      CHECK(fastest.prediction.step_us <= one.prediction.step_us);
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
      CHECK((says(ranking[i].why, " us slower, most of it ")) == after.footprint.fits);
    }
  }
  CHECK(rank_families(h200(), small, RowProfile::uniform(small))[0].why == "the fastest that fits");
  const RankedPlan first = rank_families(h200(), large, RowProfile::uniform(large))[0];
  CHECK(first.family == CublasPlan::kName);
  CHECK(says(first.why, "reading all weights anew"));
}
