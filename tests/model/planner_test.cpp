// SPDX-License-Identifier: Apache-2.0
#include "model/planner.hpp"

#include "model/error.hpp"
#include "model/exchange_time.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <numeric>

using namespace onchip;

namespace {

const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
}

Network headline() {
  return {Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};
}

PlannedNetwork planned(const Network& network, const PlanWishes& wishes = {}) {
  return choose_plan(h200(), network, RowProfile::uniform(network), wishes);
}

}  // namespace

TEST_CASE("the parts of a prediction sum to its total, and the total lies between floor and interval", "[fast]") {
  const double density = GENERATE(0.01, 0.1, 0.3, 1.0);
  const int hidden = GENERATE(1, 31, 512, 2304);
  const int batch = GENERATE(1, 3, 8, 32);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32);
  const Network network{Cell::tanh, precision, hidden, batch, 1, density};
  const PlannedNetwork result = planned(network);
  CAPTURE(describe(network), to_string(result.plan));
  const Prediction& p = result.prediction;
  CHECK_THAT(std::accumulate(p.parts_us.begin(), p.parts_us.end(), 0.0), Catch::Matchers::WithinRel(p.step_us, 1e-12));
  for (const double part : p.parts_us) {
    CHECK(part >= 0);
  }
  CHECK(p.low_us <= p.step_us);
  CHECK(p.step_us <= p.high_us);
  CHECK(p.floor_us <= p.step_us);
  CHECK(p.floor_us > 0);
}

TEST_CASE("plans survive being written and read", "[fast]") {
  for (const Precision precision : {Precision::fp16, Precision::fp32}) {
    for (const int hidden : {64, 777, 2304}) {
      const Plan plan = planned({Cell::relu, precision, hidden, 4, 1, 0.2}).plan;
      CHECK(parse_plan(to_string(plan)) == plan);
    }
  }
  CHECK_THROWS_WITH(parse_plan("sparse_persistent smz=132"), "plan: unknown key 'smz'; did you mean 'sms'?");
  CHECK_THROWS_WITH(parse_plan("sparse_persistent sms=-4"), "plan: 'sms' expects a whole number, found '-4'");
  CHECK_THROWS_AS(parse_plan("slots=1/2/3/4/5/6/7/8/9"), InputError);
}

TEST_CASE("what the user wishes of a plan is what the plan has", "[fast]") {
  PlanWishes wishes;
  wishes.storage = Storage::packed_pair;
  wishes.order = RowOrder::natural;
  wishes.sms = 100;
  wishes.lanes_per_row = 16;
  wishes.rows_per_group = 2;
  wishes.loads_in_flight = 3;
  wishes.promote_every = 4;
  wishes.unpacked = false;
  const Plan plan = planned(headline(), wishes).plan;
  CHECK(plan.storage == Storage::packed_pair);
  CHECK(plan.order == RowOrder::natural);
  CHECK(plan.sms == 100);
  CHECK(plan.lanes_per_row == 16);
  CHECK(plan.rows_per_group == 2);
  CHECK(plan.loads_in_flight == 3);
  CHECK(plan.promote_every == 4);
  CHECK_FALSE(plan.unpacked);
}

TEST_CASE("a plan has room for every row", "[fast]") {
  for (const int hidden : {1, 5, 131, 132, 133, 1000, 5000}) {
    const PlannedNetwork result = planned({Cell::relu, Precision::fp16, hidden, 4, 1, 0.05});
    CAPTURE(hidden, to_string(result.plan));
    CHECK(result.plan.sms * result.plan.groups() * result.plan.rows_per_group >= hidden);
    CHECK(result.plan.threads % 32 == 0);
    CHECK(result.plan.sms <= 132);
  }
}

TEST_CASE("the largest size fits and the next granule does not", "[fast]") {
  const double density = GENERATE(0.05, 0.3, 1.0);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32);
  const Capacity capacity = find_capacity(h200(), {Cell::relu, precision, 1, 4, 1, density}, 32);
  REQUIRE(capacity.largest);
  CHECK(capacity.largest->prediction.footprint.fits);
  CHECK_FALSE(capacity.next.prediction.footprint.fits);
  CHECK(capacity.next.network.hidden == capacity.largest->network.hidden + 32);
}

TEST_CASE("more of a chip never makes the largest network smaller", "[fast]") {
  const Network network{Cell::relu, Precision::fp16, 1, 4, 1, 0.1};
  const int base = find_capacity(h200(), network, 32).largest->network.hidden;
  for (const char* change : {"registers.per_sm=+20%", "sm.count=+20%", "shared_memory.per_sm=+20%"}) {
    ChipFile changed = find_chip("h200");
    set_chip_key(changed, change);
    CAPTURE(change);
    CHECK(find_capacity(changed.chip, network, 32).largest->network.hidden >= base);
  }
}

TEST_CASE("a network that no plan can hold is answered with what is missing", "[fast]") {
  const PlannedNetwork result = planned({Cell::relu, Precision::fp32, 20000, 32, 1, 0.5});
  CHECK_FALSE(result.prediction.footprint.fits);
  const ResourceUse& use = result.prediction.footprint.resources[static_cast<int>(result.prediction.footprint.binding)];
  CHECK(use.used > use.available);
}

TEST_CASE("sensitivities name the resource that binds", "[fast]") {
  Network network = headline();
  network.density = 0.2;
  const auto found = sensitivities(find_chip("h200"), network,
                                   RowProfile::uniform(network), 32);
  REQUIRE(found.size() >= 5);
  bool clock = false, registers = false;
  for (const Sensitivity& s : found) {
    clock |= s.key == "sm.clock" && s.step_percent < -2;
    registers |= s.key == "registers.per_sm" && s.hidden_percent > 2;
  }
  CHECK(clock);
  CHECK(registers);
}

TEST_CASE("expected row lengths follow the binomial distribution", "[fast]") {
  const RowProfile expected = RowProfile::uniform(2304, 2304, 0.1);
  const RowProfile drawn = RowProfile::from_matrix(generate_mask(2304, 2304, 0.1, 3, Precision::fp16));
  CHECK(expected.rows() == drawn.rows());
  for (const int rank : {0, 100, 1152, 2200, 2303}) {
    CAPTURE(rank);
    CHECK(std::abs(expected.length_at(rank) - drawn.length_at(rank)) <= (rank == 0 || rank == 2303 ? 15 : 4));
  }
}
