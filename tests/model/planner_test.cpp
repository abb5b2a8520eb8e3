// SPDX-License-Identifier: Apache-2.0
#include "model/planner.hpp"

#include "model/error.hpp"
#include "model/exchange_time.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

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
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::tanh, Precision::fp16}, std::pair{Cell::tanh, Precision::bf16},
               std::pair{Cell::relu, Precision::fp32}, std::pair{Cell::relu, Precision::fp8},
               std::pair{Cell::lstm, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  const Network network{cell, precision, hidden, batch, 1, density};
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

TEST_CASE("what the user wishes of a plan is what the plan has", "[fast]") {
  PlanWishes wishes;
  wishes.storage = Storage::packed_pair;
  wishes.order = RowOrder::natural;
  wishes.sms = 100;
  wishes.lanes_per_row = 16;
  wishes.rows_per_group = 2;
  wishes.loads_in_flight = 3;
  wishes.promote_every = 4;
  wishes.exchange = GENERATE(ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier);
  wishes.tile_rows = 2;
  wishes.load_bytes = 4;
  wishes.skip = GENERATE(false, true);
  const Plan plan = planned(headline(), wishes).plan;
  CHECK(plan.storage == Storage::packed_pair);
  CHECK(plan.order == RowOrder::natural);
  CHECK(plan.sms == 100);
  CHECK(plan.lanes_per_row == 16);
  CHECK(plan.rows_per_group == 2);
  CHECK(plan.loads_in_flight == 3);
  CHECK(plan.promote_every == 4);
  CHECK(plan.exchange == *wishes.exchange);
  CHECK(plan.tile_rows == 2);
  CHECK(plan.load_bytes == 4);
  CHECK(plan.skips() == *wishes.skip);
}

TEST_CASE("without wishes a plan is what the kernels do best: packed, bank-aware, lamport, wide loads", "[fast]") {
  const Plan plan = planned(headline()).plan;
  CHECK(plan.storage == Storage::packed_pair);
  CHECK(plan.order == RowOrder::bank_aware);
  CHECK(plan.exchange == ExchangeProtocol::lamport);
  CHECK(plan.load_bytes == kWidestLoad);
}

TEST_CASE("a plan has room for every unit", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  for (const int hidden : {1, 5, 131, 132, 133, 1000, 5000}) {
    const PlannedNetwork result = planned({cell, Precision::fp16, hidden, 4, 1, 0.02});
    CAPTURE(hidden, to_string(result.plan));
    CHECK(result.plan.rows_per_group % info(cell).gates == 0);
    CHECK(result.plan.sms * result.plan.groups() * result.plan.rows_per_group / info(cell).gates >= hidden);
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
  const ChipFile chip = find_chip("h200");
  PlanWishes wishes;
  const bool streams = GENERATE(true, false);
  if (streams) {
    wishes.tier = Tier::streamed;
  }
  const auto found = sensitivities(chip, network, RowProfile::uniform(network), 32, wishes);
  REQUIRE(found.size() >= 5);
  const auto hidden_percent = [&](std::string_view key) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const Sensitivity& s) { return s.key == key; });
    return at == found.end() ? 0 : at->hidden_percent;
  };
  CHECK(std::any_of(found.begin(), found.end(),
                    [](const Sensitivity& s) { return s.key == "sm.clock" && s.step_percent < -2; }));
  CHECK(hidden_percent("shared_memory.per_sm") > 2);
  if (streams) {  // half of the weights come from L2 then
    CHECK(hidden_percent("l2.size") > 2);
  } else {
    CHECK(hidden_percent("l2.size") == 0);
    CHECK(hidden_percent("registers.per_sm") > 2);
  }
}

TEST_CASE("shared memory and L2 hold weights that the registers cannot", "[fast]") {
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::tanh, Precision::fp8},
               std::pair{Cell::lstm, Precision::fp16}, std::pair{Cell::gru, Precision::fp32});
  const Network network{cell, precision, 1, 4, 1, 0.1};
  CAPTURE(describe(network));
  const Capacity whole = find_capacity(h200(), network, 32);
  REQUIRE(whole.largest);
  CHECK(whole.largest->plan.shared_quads > 0);
  // The same with no more shared memory than the state needs, and no L2 to stream from.
  Chip bare = h200();
  bare.smem_bytes_per_block.value =
      static_cast<double>(state_bytes(whole.largest->network, whole.largest->plan)) + 8 * 1024;
  bare.smem_bytes_per_sm.value = bare.smem_bytes_per_block + 1024;
  bare.l2_bytes.value = 0;
  const Capacity registers_only = find_capacity(bare, network, 32);
  REQUIRE(registers_only.largest);
  CHECK(registers_only.largest->plan.streamed_quads == 0);
  CHECK(whole.largest->network.hidden > registers_only.largest->network.hidden * 1.05);
}

TEST_CASE("tiers take no more shared memory than there is, wherever the state and a ring leave room", "[fast]") {
  const double kib = GENERATE(8, 16, 24, 32, 48, 64, 100, 227);
  const auto [cell, precision] = GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  Chip chip = h200();
  chip.smem_bytes_per_block.value = kib * 1024;
  chip.smem_bytes_per_sm.value = kib * 1024 + 1024;
  for (const int hidden : {500, 1000, 1500, 2300, 3100, 4000}) {
    const Network network{cell, precision, hidden, 4, 1, 0.2};
    for (const int lanes : {32, 8}) {
      PlanWishes wishes;
      wishes.lanes_per_row = lanes;
      const PlannedNetwork result = choose_plan(chip, network, RowProfile::uniform(network), wishes);
      const Plan& plan = result.plan;
      CAPTURE(kib, describe(network), to_string(plan));
      const double quad_bytes = static_cast<double>(kQuadBytes) * plan.threads;
      const double least =
          static_cast<double>(state_bytes(network, plan)) + quad_bytes * (plan.streamed_quads > 0 ? 2 : 0);
      if (least <= chip.smem_bytes_per_block) {
        CHECK(static_cast<double>(shared_bytes(network, plan)) <= chip.smem_bytes_per_block);
      } else {
        CHECK_FALSE(result.prediction.footprint.fits);
      }
      CHECK(plan.shared_quads + plan.streamed_quads <= total_quads(network, plan));
      CHECK((plan.streamed_quads == 0 || plan.ring_quads >= 2));
    }
  }
}

TEST_CASE("tiers are used as far as they are needed", "[fast]") {
  // Just what the registers hold: nothing elsewhere.
  const PlannedNetwork small = planned({Cell::relu, Precision::fp16, 1000, 4, 1, 0.1});
  CHECK(small.prediction.footprint.fits);
  CHECK(small.plan.shared_quads == 0);
  CHECK(small.plan.streamed_quads == 0);
  // More than registers and shared memory of all SMs, less than these and L2.
  const Network large{Cell::relu, Precision::fp16, 4600, 4, 1, 0.7};
  PlanWishes wishes;
  wishes.storage = Storage::packed_pair;
  const PlannedNetwork streamed = planned(large, wishes);
  CAPTURE(to_string(streamed.plan));
  CHECK(streamed.plan.shared_quads > 0);
  CHECK(streamed.plan.streamed_quads > 0);
}

TEST_CASE("stored indices reach every unit and every zero behind them", "[fast]") {
  for (int hidden = kMaxHidden; hidden > kMaxHidden - 1500; hidden -= 61) {
    for (const int batch : {1, 4}) {
      const Network network{Cell::relu, Precision::fp16, hidden, batch, 1, 0.0005};
      const PlannedNetwork result = planned(network);
      if (!result.prediction.footprint.fits) {
        continue;
      }
      CAPTURE(describe(network), to_string(result.plan));
      CHECK(state_units(network, result.plan) + zero_units(network, result.plan) <= 65536);
    }
  }
}
