// SPDX-License-Identifier: Apache-2.0
// What the planner chooses, a user may hand back as text, and a layout can be made of.
#include "experiments/measurement/configuration.hpp"

#include "model/base/error.hpp"
#include "model/plan/layout.hpp"
#include "tests/catch.hpp"
#include "tests/tails.hpp"

#include <functional>
#include <string>
#include <utility>

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
  const Network& network = configuration.network;
  INFO(describe(network) << ": " << to_string(planned.plan));
  CHECK_NOTHROW(check_plan(network, planned.plan));
  Configuration handed_back = configuration;
  handed_back.plan = parse_plan(to_string(planned.plan));
  CHECK(plan_network(chip, handed_back, rows).prediction.step_us == planned.prediction.step_us);
  if (planned.prediction.footprint.fits) {
    CHECK(planned.plan.threads <= chip.max_threads_per_block);
    CHECK(planned.plan.sms <= chip.sm_count);
    CHECK(static_cast<double>(shared_bytes(network, planned.plan)) <= chip.smem_bytes_per_block);
    CHECK(register_words(network, planned.plan) < chip.registers_per_thread);
  }
  CHECK_NOTHROW(make_layout(network, planned.plan, *matrix));
  return planned;
}

}  // namespace

TEST_CASE("a dense plan for many samples, which has many loads in flight, may be handed back", "[fast]") {
  Configuration configuration = configuration_of(Cell::relu, Precision::fp16, 1024, 64, 0.01);
  configuration.wishes.exchange = ExchangeProtocol::lamport;
  configuration.wishes.teams = 1;
  configuration.wishes.family = Family::dense_persistent;
  configuration.wishes.loads_in_flight = 32;
  const PlannedNetwork planned = require_sound(h200(), configuration);
  CHECK(planned.plan.loads_in_flight > kMostLoadsInFlight);
}

TEST_CASE("plans of every cell and precision are sound and hold the rows of their mask", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const auto& [hidden, batch] : {std::pair{1, 1}, {127, 3}, {509, 17}, {1021, 5}}) {
    const PlannedNetwork planned = require_sound(h200(), configuration_of(cell, precision, hidden, batch, 0.1));
    CHECK(planned.prediction.footprint.fits);
  }
}

TEST_CASE("plans for uneven rows, with and without a tail, are sound", "[fast]") {
  const Cell cell = GENERATE(Cell::tanh, Cell::lstm, Cell::gru);
  CAPTURE(info(cell).name);
  Configuration configuration = configuration_of(cell, Precision::fp16, 761, 4, 0.1, MaskKind::power_law);
  for (const Tier tier : {Tier::registers, Tier::shared_memory, Tier::streamed}) {
    configuration.wishes.tier = tier;
    const PlannedNetwork planned = require_sound(h200(), configuration);
    CAPTURE(to_string(planned.plan));
    CHECK((tier != Tier::registers || !planned.plan.has_tail()));
    CHECK((tier == Tier::streamed || planned.plan.ring_chunks == 0));
  }
}

TEST_CASE("plans that need shared memory and L2 are sound", "[fast]") {
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
    used += planned.prediction.footprint.fits && planned.plan.has_tail();
    streamed += planned.prediction.footprint.fits && planned.plan.streamed_chunks() > 0;
  }
  CHECK(used > 0);
  CHECK((streamed > 0 || precision == Precision::fp8));  // half of which stays on the SMs even of such a chip
}

TEST_CASE("dense plans are sound at every width of the loads", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::gru);
  for (const int load_bytes : {2, 4, 8, 16}) {
    Configuration configuration = configuration_of(cell, Precision::fp16, 101, 8, 1);
    configuration.wishes.storage = Storage::dense;
    configuration.wishes.load_bytes = load_bytes;
    CHECK(require_sound(h200(), configuration).plan.load_bytes == load_bytes);
  }
}

TEST_CASE("plans that no kernel can be built from are refused", "[fast]") {
  const Network network{Cell::tanh, Precision::bf16, 509, 4, 16, 0.2};
  const Network gated{Cell::lstm, Precision::fp16, 127, 4, 16, 0.2};
  const Plan plan = shape_plan(network, RowProfile::uniform(network), Storage::packed_pair, 7, 16, 3);
  const Plan gated_plan = shape_plan(gated, RowProfile::uniform(gated), Storage::packed_pair, 7, 16, 4);
  REQUIRE_NOTHROW(check_plan(network, plan));
  REQUIRE_NOTHROW(check_plan(gated, gated_plan));
  const Plan tail_plan = with_tail(network, plan, RowProfile::uniform(network), 0.5);
  REQUIRE(tail_plan.has_tail());
  REQUIRE_NOTHROW(check_plan(network, tail_plan));
  const auto refused = [&](const std::function<void(Plan&)>& change) {
    Plan changed = plan;
    change(changed);
    CAPTURE(to_string(changed));
    CHECK_THROWS_AS(check_plan(network, changed), InputError);
  };
  refused([](Plan& p) { p.sms = 0; });
  refused([](Plan& p) { p.line_words = 3; });
  refused([](Plan& p) { p.line_words = 16; });
  refused([](Plan& p) { p.threads += 16; });
  refused([](Plan& p) { p.threads = 0; });
  refused([](Plan& p) { p.lanes_per_row = 3; });
  refused([](Plan& p) { p.lanes_per_row = 64; });
  refused([](Plan& p) { p.rows_per_group = 0; });
  refused([](Plan& p) { p.slots[1] = 0; });
  refused([](Plan& p) { p.slots[2] = -1; });
  refused([](Plan& p) { p.slots[2] = kMaxDimension + 1; });
  refused([](Plan& p) { p.tile_rows = 3; });
  refused([](Plan& p) { p.tile_rows = 16; });
  refused([](Plan& p) { p.pass_planes = 2; });  // of one plane
  const auto in_turns = [](Plan& p) { p.load_bytes = 4, p.exchange_warps = 2; };
  Plan turns = plan;
  in_turns(turns);
  CHECK_NOTHROW(check_plan(network, turns));
  refused([&](Plan& p) { in_turns(p), p.exchange_warps = 1; });
  refused([&](Plan& p) { in_turns(p), p.exchange_warps = kMostExchangeWarps + 1; });
  refused([&](Plan& p) { in_turns(p), p.pass_planes = 2; });  // one pass
  refused([&](Plan& p) { in_turns(p), p.exchange = ExchangeProtocol::atomic_barrier; });
  refused([](Plan& p) { p.exchange_warps = 2; });  // of one plane
  const auto in_bulk = [&](Plan& p) { in_turns(p), p.exchange = ExchangeProtocol::bulk_copy; };
  Plan bulk = plan;
  in_bulk(bulk);
  CHECK_NOTHROW(check_plan(network, bulk));
  refused([&](Plan& p) { in_bulk(p), p.line_words = 4; });
  refused([](Plan& p) { p.exchange = ExchangeProtocol::bulk_copy; });  // without warps that copy
  const auto in_pieces = [](Plan& p) { p.pieces = 2, p.piece_slots = 3, p.most_pieces = 4; };
  Plan pieces = plan;
  in_pieces(pieces);
  CHECK_NOTHROW(check_plan(network, pieces));
  in_turns(pieces);
  CHECK_NOTHROW(check_plan(network, pieces));
  refused([&](Plan& p) { in_pieces(p), p.pieces = 3; });
  refused([&](Plan& p) { in_pieces(p), p.pieces = 2 * kMostPieces; });
  refused([&](Plan& p) { in_pieces(p), p.piece_slots = 0; });
  refused([&](Plan& p) { in_pieces(p), p.most_pieces = 0; });
  refused([&](Plan& p) { in_pieces(p), p.storage = Storage::dense; });
  refused([&](Plan& p) { in_pieces(p), p.piece_chunks = 1; });  // without a tail
  refused([](Plan& p) { p.row_chunks = 1; });                   // of no piece
  refused([](Plan& p) { p.piece_slots = 3; });                  // of no piece
  refused([](Plan& p) { p.batch_padded = 8; });
  refused([](Plan& p) { p.load_bytes = 1; });
  refused([](Plan& p) { p.load_bytes = 12; });
  refused([](Plan& p) { p.load_bytes = 32; });
  refused([](Plan& p) { p.loads_in_flight = 0; });
  refused([](Plan& p) { p.chunks_in_flight = 0; });
  refused([](Plan& p) { p.chunks_in_flight = 3; });
  refused([](Plan& p) { p.chunks_in_flight = 2 * kMostChunksInFlight; });
  refused([](Plan& p) { p.promote_every = 2; });  // bf16
  // What only a tail has.
  refused([](Plan& p) { p.tail_chunks = -1; });
  refused([](Plan& p) { p.longest_tail = 1; });
  refused([](Plan& p) { p.shared_chunks = 1; });
  refused([](Plan& p) { p.ring_chunks = 2; });
  refused([](Plan& p) { p.tail_chunks = 1; });  // without a longest
  const auto allowed_with_tail = [&](const std::function<void(Plan&)>& change) {
    Plan changed = tail_plan;
    change(changed);
    CAPTURE(to_string(changed));
    try {
      check_plan(network, changed);
    } catch (const InputError&) {
      return false;
    }
    return true;
  };
  CHECK(allowed_with_tail([](Plan& p) { p.slots.fill(0); }));
  CHECK(allowed_with_tail([](Plan& p) { p.shared_chunks = 0, p.ring_chunks = 2; }));
  CHECK(allowed_with_tail([](Plan& p) { p.ring_chunks = kMostRingChunks; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.slots[1] = -1; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.tail_chunks = 0; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.tail_chunks = 2000000000; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.longest_tail = 0; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.longest_tail = 2000000000; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.shared_chunks = -1; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.shared_chunks = 2000000000; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.ring_chunks = 1; }));
  CHECK_FALSE(allowed_with_tail([](Plan& p) { p.ring_chunks = kMostRingChunks + 1; }));
  const auto refused_gated = [&](const std::function<void(Plan&)>& change) {
    Plan changed = gated_plan;
    change(changed);
    CAPTURE(to_string(changed));
    CHECK_THROWS_AS(check_plan(gated, changed), InputError);
  };
  refused_gated([](Plan& p) { p.tile_rows = 1; });
  refused_gated([](Plan& p) { p.lanes_per_row = 2; });
  refused_gated([](Plan& p) { p.rows_per_group = 3; });
}

TEST_CASE("a fixed plan without room for the pieces of its rows is refused", "[fast]") {
  Configuration configuration = configuration_of(Cell::relu, Precision::fp16, 1024, 4, 0.1, MaskKind::power_law);
  configuration.wishes.pieces = 1;
  const RowProfile rows = row_profile(configuration);
  const Plan plan = plan_network(h200(), configuration, rows).plan;
  REQUIRE(plan.pieces == 1);
  configuration.plan = plan;
  REQUIRE_NOTHROW(plan_network(h200(), configuration, rows));
  --configuration.plan->piece_slots;
  CHECK_THROWS_AS(plan_network(h200(), configuration, rows), InputError);
}

TEST_CASE("a fixed plan without room for the rows is refused", "[fast]") {
  const Storage storage = GENERATE(Storage::packed_pair, Storage::dense);
  Configuration configuration = configuration_of(Cell::gru, Precision::fp16, 101, 8, 0.9);
  const RowProfile rows = row_profile(configuration);
  const Plan plan = shape_plan(configuration.network, rows, storage, 11, 16, 3);
  configuration.plan = plan;
  REQUIRE_NOTHROW(plan_network(h200(), configuration, rows));
  --configuration.plan->slots[2];
  CHECK_THROWS_AS(plan_network(h200(), configuration, rows), InputError);
  configuration.plan = with_tail(configuration.network, plan, rows, 0.9);  // what slots do not hold, chunks do
  REQUIRE(configuration.plan->has_tail());
  CHECK_NOTHROW(plan_network(h200(), configuration, rows));
  configuration.plan = plan;
  configuration.plan->sms = 5;
  CHECK_THROWS_AS(plan_network(h200(), configuration, rows), InputError);
}
