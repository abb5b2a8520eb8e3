// SPDX-License-Identifier: Apache-2.0
// What the planner chooses, a user may hand back as text, and a layout can be made of.
#include "model/answer/answer.hpp"
#include "model/base/error.hpp"
#include "model/families/layout.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/overflow.hpp"

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <variant>

using namespace onchip;

namespace {

const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
}

Configuration configuration_of(Cell cell, Precision precision, int hidden, int batch, double density,
                               MaskKind mask = MaskKind::uniform) {
  Configuration configuration;
  configuration.network = {cell, precision, hidden, batch, 16, density};
  configuration.mask = mask;
  return configuration;
}

// The plan for the configuration's own mask, checked as text from a user would be.
PlannedNetwork require_sound(const Chip& chip, const Configuration& configuration) {
  const auto matrix = recurrent_matrix(configuration);
  const RowProfile rows = RowProfile::from_matrix(*matrix);
  const PlannedNetwork planned = plan_network(chip, configuration, rows);
  const Recurrent& network = configuration.network;
  INFO(describe(network) << ": " << to_string(planned.plan));
  CHECK_NOTHROW(check_plan(network, planned.plan));
  Configuration handed_back = configuration;
  handed_back.plan = parse_recurrent_plan(to_string(planned.plan));
  CHECK(plan_network(chip, handed_back, rows).prediction.step_us == planned.prediction.step_us);
  if (planned.prediction.footprint.fits) {
    std::visit(
        [&](const auto& of_family) {
          if constexpr (requires { geometry(network, of_family).register_words; }) {
            const auto shape = geometry(network, of_family);
            CHECK(shape.block_threads() <= chip.max_threads_per_block);
            CHECK(shape.blocks <= chip.sm_count);
            CHECK(static_cast<double>(shape.shared_bytes()) <= chip.smem_bytes_per_block);
            CHECK(shape.register_words < chip.registers_per_thread);
          }
        },
        planned.plan);
  }
  CHECK_NOTHROW(make_layout(network, planned.plan, *matrix));
  return planned;
}

}  // namespace

TEST_CASE("a dense plan for many samples, which has many loads in flight, may be handed back", "[fast]") {
  Configuration configuration = configuration_of(Cell::relu, Precision::fp16, 1024, 64, 0.01);
  fix<&DensePlan::exchange>(configuration.constraints, ExchangeProtocol::lamport);
  fix<&DensePlan::batch_groups>(configuration.constraints, 1);
  fix<&DensePlan::loads_in_flight>(configuration.constraints, 32);
  configuration.constraints.family = DensePlan::kName;
  const auto plan = std::get<DensePlan>(require_sound(h200(), configuration).plan);
  CHECK(plan.loads_in_flight > kMostLoadsInFlight);
}

TEST_CASE("plans of every cell and precision are sound and hold the rows of their mask", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const auto& [hidden, batch] : {std::pair{1, 1}, {127, 3}, {509, 17}, {1021, 5}}) {
    const PlannedNetwork planned = require_sound(h200(), configuration_of(cell, precision, hidden, batch, 0.1));
    CHECK(planned.prediction.footprint.fits);
  }
}

TEST_CASE("plans for uneven rows, with and without overflow, are sound", "[fast]") {
  const Cell cell = GENERATE(Cell::tanh, Cell::lstm, Cell::gru);
  CAPTURE(info(cell).name);
  Configuration configuration = configuration_of(cell, Precision::fp16, 761, 4, 0.1, MaskKind::power_law);
  for (const Tier tier : {Tier::registers, Tier::shared_memory, Tier::streamed}) {
    configuration.constraints.tier = tier;
    const PlannedNetwork planned = require_sound(h200(), configuration);
    CAPTURE(to_string(planned.plan));
    if (const auto* plan = std::get_if<SparsePlan>(&planned.plan)) {
      CHECK((tier != Tier::registers || !plan->has_overflow()));
      CHECK((tier == Tier::streamed || plan->ring_chunks == 0));
    }
  }
}

TEST_CASE("plans that need shared memory and L2 are sound", "[fast][long]") {
  // A chip of few and small SMs, so that a small network does not fit its registers.
  Chip chip = h200();
  chip.sm_count.value = 3;
  chip.smem_bytes_per_block.value = GENERATE(48, 100, 227) * 1024;
  chip.smem_bytes_per_sm.value = chip.smem_bytes_per_block + 1024;
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::tanh, Precision::fp8},
               std::pair{Cell::lstm, Precision::bf16}, std::pair{Cell::gru, Precision::fp32});
  int used = 0, streamed = 0;
  for (const int hidden : {251, 509, 1021}) {
    const PlannedNetwork planned = require_sound(chip, configuration_of(cell, precision, hidden, 4, 0.5));
    const auto* plan = std::get_if<SparsePlan>(&planned.plan);
    used += planned.prediction.footprint.fits && plan != nullptr && plan->has_overflow();
    streamed += planned.prediction.footprint.fits && plan != nullptr && plan->streamed_chunks() > 0;
  }
  CHECK(used > 0);
  CHECK((streamed > 0 || precision == Precision::fp8));  // half of which stays on the SMs even of such a chip
}

TEST_CASE("plans of dense storage are sound at every width of the loads", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::gru);
  for (const int load_bytes : {2, 4, 8, 16}) {
    Configuration configuration = configuration_of(cell, Precision::fp16, 101, 8, 1);
    fix<&SparsePlan::storage>(configuration.constraints, Storage::dense);
    fix<&SparsePlan::load_bytes>(configuration.constraints, load_bytes);
    const RecurrentPlan plan = require_sound(h200(), configuration).plan;
    if (const auto* sparse = std::get_if<SparsePlan>(&plan)) {
      CHECK(sparse->load_bytes == load_bytes);
    } else {
      CHECK(load_bytes == kWidestLoad);  // what a family without the field has
    }
  }
}

// What a field may be by itself is tested field by field (tests/model/plan/fields_test.cpp); here, what goes together.
TEST_CASE("plans that no kernel can be built from are refused", "[fast]") {
  const Recurrent network{Cell::tanh, Precision::bf16, 509, 4, 16, 0.2};
  const Recurrent gated{Cell::lstm, Precision::fp16, 127, 4, 16, 0.2};
  const RowProfile rows = RowProfile::uniform(network);
  const SparsePlan plan = shape_sparse_plan(network, rows, Storage::packed_pair, 7, 16, 3);
  const SparsePlan gated_plan = shape_sparse_plan(gated, RowProfile::uniform(gated), Storage::packed_pair, 7, 16, 4);
  const SparsePlan overflow_plan = with_overflow(network, plan, rows, 0.5);
  REQUIRE(overflow_plan.has_overflow());
  SparsePlan pipelined = plan, bulk = plan, split = plan;
  pipelined.load_bytes = 4, pipelined.producer_warps = 2;
  bulk = pipelined, bulk.exchange = ExchangeProtocol::bulk_copy;
  split.row_splits = 2, split.split_slots = 3, split.most_splits = 4;
  using Change = void (*)(SparsePlan&);
  const auto check_changes = [](const Recurrent& of, const SparsePlan& good, bool is_allowed,
                                std::initializer_list<Change> changes) {
    REQUIRE_NOTHROW(check_plan(of, good));
    for (const Change change : changes) {
      SparsePlan changed = good;
      change(changed);
      CAPTURE(to_string(changed));
      CHECK((error_of([&] { check_plan(of, changed); }) == "no error") == is_allowed);
    }
  };
  check_changes(
      network, plan, false,
      {[](SparsePlan& p) { p.threads += 16; }, [](SparsePlan& p) { p.slots[1] = 0; },
       [](SparsePlan& p) { p.slots[2] = -1; }, [](SparsePlan& p) { p.slots[2] = kMostSlots + 1; },
       [](SparsePlan& p) { p.pass_planes = 2; },                                             // of one plane
       [](SparsePlan& p) { p.producer_warps = 2; },                                          // of one plane
       [](SparsePlan& p) { p.exchange = ExchangeProtocol::bulk_copy; },                      // without warps that copy
       [](SparsePlan& p) { p.row_chunks = 1; },                                              // of no split
       [](SparsePlan& p) { p.split_slots = 3; },                                             // of no split
       [](SparsePlan& p) { p.load_bytes = 1; }, [](SparsePlan& p) { p.promote_every = 2; },  // bf16
       // What only overflow has.
       [](SparsePlan& p) { p.longest_overflow = 1; }, [](SparsePlan& p) { p.shared_chunks = 1; },
       [](SparsePlan& p) { p.ring_chunks = 2; }, [](SparsePlan& p) { p.overflow_chunks = 1; }});  // without a longest
  check_changes(network, pipelined, false,
                {[](SparsePlan& p) { p.producer_warps = 1; }, [](SparsePlan& p) { p.pass_planes = 2; },  // one pass
                 [](SparsePlan& p) { p.exchange = ExchangeProtocol::atomic_barrier; }});
  check_changes(network, bulk, false, {[](SparsePlan& p) { p.line_words = 4; }});
  check_changes(network, split, true, {[](SparsePlan& p) { p.load_bytes = 4, p.producer_warps = 2; }});
  check_changes(network, split, false,
                {[](SparsePlan& p) { p.split_slots = 0; }, [](SparsePlan& p) { p.most_splits = 0; },
                 [](SparsePlan& p) { p.storage = Storage::dense; },
                 [](SparsePlan& p) { p.split_chunks = 1; }});  // without overflow
  check_changes(network, overflow_plan, true,
                {[](SparsePlan& p) { p.slots.fill(0); }, [](SparsePlan& p) { p.shared_chunks = 0, p.ring_chunks = 2; },
                 [](SparsePlan& p) { p.ring_chunks = kMostRingChunks; }});
  check_changes(network, overflow_plan, false,
                {[](SparsePlan& p) { p.slots[1] = -1; }, [](SparsePlan& p) { p.overflow_chunks = 0; },
                 [](SparsePlan& p) { p.longest_overflow = 0; }, [](SparsePlan& p) { p.longest_overflow = 2000000000; },
                 [](SparsePlan& p) { p.shared_chunks = 2000000000; }, [](SparsePlan& p) { p.ring_chunks = 1; }});
  check_changes(gated, gated_plan, false,
                {[](SparsePlan& p) { p.tile_rows = 1; }, [](SparsePlan& p) { p.lanes_per_row = 2; },
                 [](SparsePlan& p) { p.rows_per_group = 3; }});
}

TEST_CASE("a fixed plan without room for the rows, or the splits of its rows, is refused", "[fast]") {
  const auto fits = [](const Configuration& configuration, const SparsePlan& plan) {
    Configuration fixed = configuration;
    fixed.plan = plan;
    return error_of([&] { plan_network(h200(), fixed, row_profile(configuration)); }) == "no error";
  };
  for (const Storage storage : {Storage::packed_pair, Storage::dense}) {
    const Configuration configuration = configuration_of(Cell::gru, Precision::fp16, 101, 8, 0.9);
    const RowProfile rows = row_profile(configuration);
    const SparsePlan plan = shape_sparse_plan(configuration.network, rows, storage, 11, 16, 3);
    CHECK(fits(configuration, plan));
    SparsePlan changed = plan;
    --changed.slots[2];
    CHECK_FALSE(fits(configuration, changed));
    changed = with_overflow(configuration.network, plan, rows, 0.9);  // what slots do not hold, chunks do
    REQUIRE(changed.has_overflow());
    CHECK(fits(configuration, changed));
    changed = plan;
    changed.sms = 5;
    CHECK_FALSE(fits(configuration, changed));
  }
  Configuration uneven = configuration_of(Cell::relu, Precision::fp16, 1024, 4, 0.1, MaskKind::power_law);
  fix<&SparsePlan::row_splits>(uneven.constraints, 1);
  uneven.constraints.family = SparsePlan::kName;
  auto plan = std::get<SparsePlan>(plan_network(h200(), uneven, row_profile(uneven)).plan);
  REQUIRE(plan.row_splits == 1);
  CHECK(fits(uneven, plan));
  --plan.split_slots;
  CHECK_FALSE(fits(uneven, plan));
}
