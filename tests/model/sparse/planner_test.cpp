// SPDX-License-Identifier: Apache-2.0
// What the planner chooses of the sparse family: pipelined passes, storage, overflow, splits of rows, indices.
#include "model/families/planner.hpp"

#include "model/base/error.hpp"
#include "model/sparse/row_assignment.hpp"
#include "tests/catch.hpp"
#include "tests/model/plan/planned.hpp"

#include <cmath>
#include <tuple>
#include <utility>

using namespace onchip;

namespace {

// Rows that are all of one length.
RowProfile equal_rows(int units, int length) {
  return RowProfile::from_matrix(rows_of_lengths(units, std::vector<int>(units, length)));
}

RowProfile drawn_rows(const Recurrent& network, MaskKind mask) {
  return RowProfile::from_matrix(
      generate_mask(network.rows(), network.hidden, network.density, 1, network.precision, mask));
}

}  // namespace

// ---- exchange -------------------------------------------------------------------------------------------------------

TEST_CASE("passes are pipelined where that is faster, and one sample has no pass to be pipelined with", "[fast]") {
  Recurrent network{Cell::gru, Precision::fp16, 2048, 16, 1, 0.1};
  Constraints without = kSparse;
  fix<&SparsePlan::producer_warps>(without, 0);
  const PlannedNetwork pipelined = planned(network, kSparse);
  CAPTURE(to_string(pipelined.plan));
  CHECK(sparse(pipelined).producer_warps >= 2);
  CHECK(sparse_geometry(pipelined).can_pipeline());
  CHECK(sparse(pipelined).block_threads() == sparse(pipelined).threads + 32 * sparse(pipelined).producer_warps);
  CHECK(pipelined.prediction.footprint.fits);
  CHECK(pipelined.prediction.step_us < planned(network, without).prediction.step_us);
  Constraints with = kSparse;
  fix<&SparsePlan::producer_warps>(with, 4);
  CHECK(sparse(planned(network, with)).producer_warps == 4);
  const Chip v100 = find_chip("v100").chip;  // which has no mbarriers
  CHECK(sparse(choose_plan(v100, network, RowProfile::uniform(network), kSparse)).producer_warps == 0);
  CHECK_THROWS_AS(choose_plan(v100, network, RowProfile::uniform(network), with), InputError);

  network.batch = 1;
  CHECK(sparse(planned(network, kSparse)).producer_warps == 0);
  CHECK_THROWS_AS(planned(network, with), InputError);
  fix<&SparsePlan::exchange>(with, ExchangeProtocol::atomic_barrier);
  network.batch = 16;
  CHECK_THROWS_AS(planned(network, with), InputError);
}

TEST_CASE("large states of pipelined samples come as bulk copies, on chips that have them", "[fast]") {
  Recurrent network{Cell::lstm, Precision::fp16, 4096, 16, 256, 0.1};
  const PlannedNetwork bulk = planned(network, kSparse);
  CAPTURE(to_string(bulk.plan));
  CHECK(sparse(bulk).exchange == ExchangeProtocol::bulk_copy);
  CHECK(sparse(bulk).line_words == kLineWords);
  CHECK(sparse(bulk).poll_delay == 0);
  const SparseGeometry geometry = sparse_geometry(bulk);
  CHECK(geometry.can_pipeline());
  // A flag of every SM for each pass, in lines of 32.
  CHECK(geometry.barrier_bytes == 4 * geometry.passes * ((geometry.sms + 31) / 32 * 32));
  CHECK(parse_recurrent_plan(to_string(bulk.plan)) == bulk.plan);
  Constraints polled = kSparse;
  fix<&SparsePlan::exchange>(polled, ExchangeProtocol::lamport);
  const PlannedNetwork lamport = planned(network, polled);
  CHECK(bulk.prediction.step_us < lamport.prediction.step_us);
  CHECK(sparse_geometry(lamport).barrier_bytes == 4);

  Constraints asked = kSparse;
  fix<&SparsePlan::exchange>(asked, ExchangeProtocol::bulk_copy);
  const Chip a100 = find_chip("a100").chip;
  CHECK_THROWS_AS(choose_plan(a100, network, RowProfile::uniform(network), asked), InputError);
  asked.family = DensePlan::kName;
  CHECK_THROWS_AS(planned(network, asked), InputError);
  asked.family = SparsePlan::kName;
  const Constraints without_warps = asked;
  fix<&SparsePlan::producer_warps>(asked, 0);
  CHECK_THROWS_AS(planned(network, asked), InputError);
  // Small ones only where it is asked for: then flags take longer than words.
  network.hidden = 1024;
  network.density = 0.3;
  CHECK(sparse(planned(network, kSparse)).exchange == ExchangeProtocol::lamport);
  const PlannedNetwork small = planned(network, without_warps);
  CHECK(sparse(small).exchange == ExchangeProtocol::bulk_copy);
  CHECK(small.prediction.step_us > planned(network, polled).prediction.step_us);
}

// ---- shapes and storage ---------------------------------------------------------------------------------------------

TEST_CASE("a plan has room for every unit", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  for (const int hidden : {1, 5, 131, 132, 133, 1000, 5000}) {
    const PlannedNetwork result = planned({cell, Precision::fp16, hidden, 4, 1, 0.02}, kSparse);
    const SparsePlan& plan = sparse(result);
    CAPTURE(hidden, to_string(plan));
    CHECK(plan.rows_per_group % info(cell).gates == 0);
    CHECK(plan.sms * plan.groups() * plan.rows_per_group / info(cell).gates >= hidden);
    CHECK(plan.threads % 32 == 0);
    CHECK(plan.sms <= 132);
  }
}

TEST_CASE("distances are stored where indices leave no room for a network, and never beside fp32", "[fast]") {
  Recurrent network{Cell::relu, Precision::fp8, 13000, 1, 1, 0.1};
  Constraints constraints = kSparse;
  constraints.tier = Tier::shared_memory;
  fix<&SparsePlan::lanes_per_row>(constraints, 8);
  fix<&SparsePlan::loads_in_flight>(constraints, 4);
  CHECK(sparse(planned(network, constraints)).storage == Storage::packed_delta);
  fix<&SparsePlan::storage>(constraints, Storage::packed_pair);
  CHECK_FALSE(planned(network, constraints).prediction.footprint.fits);
  network.precision = Precision::fp32;
  network.hidden = 4000;
  fix<&SparsePlan::storage>(constraints, Storage::packed_delta);
  CHECK_THROWS_WITH(planned(network, constraints),
                    Catch::Matchers::Contains("packed_delta stores values of 8 or 16 bits, found fp32"));
}

TEST_CASE("a row whose non-zeros are further apart than its slots foresee is refused as distances", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, 1024, 1, 1, 0.25};
  const SparseMatrix matrix = rows_of_lengths(1024, std::vector<int>(1024, 256));
  SparsePlan plan = shape_sparse_plan(network, RowProfile::from_matrix(matrix), Storage::packed_delta, 32, 8, 1);
  REQUIRE_NOTHROW(layout_of(network, plan, matrix));
  plan.slots[0] = 256 / 8 - 1;
  REQUIRE_THROWS_WITH(layout_of(network, plan, matrix), Catch::Matchers::Contains("slots as packed_delta"));
}

// ---- overflow -------------------------------------------------------------------------------------------------------

TEST_CASE("overflow takes no more shared memory than there is, wherever the state and a ring leave room", "[fast]") {
  const double kib = GENERATE(8, 16, 24, 32, 48, 64, 100, 227);
  const auto [cell, precision] = GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  Chip chip = h200();
  chip.smem_bytes_per_block.value = kib * 1024;
  chip.smem_bytes_per_sm.value = kib * 1024 + 1024;
  for (const int hidden : {500, 1000, 1500, 2300, 3100, 4000}) {
    const Recurrent network{cell, precision, hidden, 4, 1, 0.2};
    for (const int lanes : {32, 8}) {
      Constraints constraints = kSparse;
      fix<&SparsePlan::lanes_per_row>(constraints, lanes);
      const PlannedNetwork result = choose_plan(chip, network, RowProfile::uniform(network), constraints);
      const SparseGeometry plan = sparse_geometry(result);
      CAPTURE(kib, describe(network), to_string(plan));
      const double ring_bytes = static_cast<double>(plan.chunk_bytes) * plan.warps();
      const double least =
          static_cast<double>(plan.bytes_without_weights()) + ring_bytes * (plan.ring_chunks > 0 ? 2 : 0);
      if (least <= chip.smem_bytes_per_block) {
        CHECK(static_cast<double>(plan.shared_bytes()) <= chip.smem_bytes_per_block);
      } else {
        CHECK_FALSE(result.prediction.footprint.fits);
      }
      CHECK((plan.ring_chunks == 0 || (plan.ring_chunks >= 2 && plan.ring_chunks <= kMostRingChunks)));
      CHECK((plan.chunks_in_flight == 1 || plan.has_overflow()));
      CHECK(plan.chunks_in_flight <= kMostChunksInFlight);
      CHECK((plan.has_overflow() || plan.shared_chunks + plan.ring_chunks + plan.longest_overflow == 0));
    }
  }
}

TEST_CASE("tiers are used as far as they are needed", "[fast]") {
  // Rows that are all alike, and just what the registers hold: nothing elsewhere.
  const PlannedNetwork small =
      choose_plan(h200(), {Cell::relu, Precision::fp16, 1000, 4, 1, 0.1}, equal_rows(1000, 100), kSparse);
  CHECK(small.prediction.footprint.fits);
  CHECK_FALSE(sparse(small).has_overflow());
  // The same for dense rows, which are alike whatever the mask.
  Constraints stored_dense = kSparse;
  fix<&SparsePlan::storage>(stored_dense, Storage::dense);
  CHECK_FALSE(sparse(planned({Cell::relu, Precision::fp16, 1000, 4, 1, 0.9}, stored_dense)).has_overflow());
  // More than the registers of all SMs, less than these and shared memory.
  const PlannedNetwork medium =
      choose_plan(h200(), {Cell::relu, Precision::fp16, 6000, 4, 1, 0.25}, equal_rows(6000, 1500), kSparse);
  CAPTURE(to_string(medium.plan));
  CHECK(medium.prediction.footprint.fits);
  CHECK(sparse(medium).has_overflow());
  CHECK(sparse(medium).ring_chunks == 0);
  // More than registers and shared memory of all SMs, less than these and L2.
  Constraints constraints;
  fix<&SparsePlan::storage>(constraints, Storage::packed_pair);
  const PlannedNetwork streamed = planned({Cell::relu, Precision::fp16, 4600, 4, 1, 0.7}, constraints);
  CAPTURE(to_string(streamed.plan));
  CHECK(sparse(streamed).shared_chunks > 0);
  CHECK(sparse(streamed).streamed_chunks() > 0);
}

TEST_CASE("tiers are used no further than asked for", "[fast][long]") {
  const auto [cell, precision] = GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::power_law);
  for (const int hidden : {500, 1500, 3500}) {
    const Recurrent network{cell, precision, hidden, 4, 1, 0.2};
    const RowProfile rows = drawn_rows(network, mask);
    Constraints constraints = kSparse;
    constraints.tier = Tier::registers;
    const PlannedNetwork in_registers = choose_plan(h200(), network, rows, constraints);
    CAPTURE(describe(network), static_cast<int>(mask), to_string(in_registers.plan));
    CHECK_FALSE(sparse(in_registers).has_overflow());
    CHECK(sparse_geometry(in_registers).shared_bytes() == sparse_geometry(in_registers).bytes_without_weights());
    constraints.tier = Tier::shared_memory;
    const PlannedNetwork in_shared = choose_plan(h200(), network, rows, constraints);
    CAPTURE(to_string(in_shared.plan));
    CHECK(sparse(in_shared).ring_chunks == 0);
    // Overflow in shared memory is all that is not in registers, or does not fit.
    if (sparse(in_shared).has_overflow()) {
      CHECK(sparse(in_shared).shared_chunks == overflow_of(sparse_geometry(in_shared), rows, /*exact=*/true).fullest);
    }
    CHECK((in_shared.prediction.footprint.fits || !in_registers.prediction.footprint.fits));
  }
}

TEST_CASE("rows of a power law overflow, which makes their steps faster", "[fast]") {
  const auto [cell, hidden] = GENERATE(std::pair{Cell::relu, 2304}, std::pair{Cell::gru, 1024});
  const Recurrent network{cell, Precision::fp16, hidden, 4, 1, 0.1};
  const RowProfile rows = drawn_rows(network, MaskKind::power_law);
  Constraints constraints = kSparse;
  fix<&SparsePlan::producer_warps>(constraints, 0);
  fix<&SparsePlan::row_splits>(constraints, 0);
  const PlannedNetwork best = choose_plan(h200(), network, rows, constraints);
  CAPTURE(describe(network), to_string(best.plan));
  REQUIRE(best.prediction.footprint.fits);
  CHECK(sparse(best).has_overflow());
  constraints.tier = Tier::registers;
  const PlannedNetwork even = choose_plan(h200(), network, rows, constraints);
  CHECK((!even.prediction.footprint.fits || best.prediction.step_us < even.prediction.step_us));
}

TEST_CASE("rows of a power law are split where registers hold them, which is faster than overflow", "[fast][long]") {
  const auto [cell, hidden] = GENERATE(std::pair{Cell::relu, 4096}, std::pair{Cell::lstm, 2304});
  const Recurrent network{cell, Precision::fp16, hidden, 4, 1, 0.1};
  const RowProfile rows = drawn_rows(network, MaskKind::power_law);
  Constraints constraints = kSparse;
  const PlannedNetwork split = choose_plan(h200(), network, rows, constraints);
  CAPTURE(describe(network), to_string(split.plan));
  CHECK(sparse(split).row_splits > 0);
  CHECK(split.prediction.footprint.fits);
  fix<&SparsePlan::row_splits>(constraints, 0);
  const PlannedNetwork whole = choose_plan(h200(), network, rows, constraints);
  CHECK(sparse(whole).row_splits == 0);
  CHECK(split.prediction.step_us < whole.prediction.step_us);
  fix<&SparsePlan::row_splits>(constraints, 2);
  CHECK(sparse(choose_plan(h200(), network, rows, constraints)).row_splits == 2);
  fix<&SparsePlan::storage>(constraints, Storage::dense);
  CHECK_THROWS_AS(choose_plan(h200(), network, rows, constraints), InputError);
  CHECK(sparse(planned(network, kSparse)).row_splits == 0);
}

TEST_CASE("a plan's numbers of its overflow are those of its rows", "[fast][long]") {
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::power_law);
  const auto [cell, precision, hidden] =
      GENERATE(std::tuple{Cell::relu, Precision::fp16, 6000}, std::tuple{Cell::lstm, Precision::fp16, 3000},
               std::tuple{Cell::relu, Precision::fp32, 6000});
  const Recurrent network{cell, precision, hidden, 4, 1, 0.2};
  const RowProfile rows = drawn_rows(network, mask);
  const PlannedNetwork result = choose_plan(h200(), network, rows, kSparse);
  const SparsePlan& plan = sparse(result);
  CAPTURE(describe(network), static_cast<int>(mask), to_string(plan));
  REQUIRE(plan.has_overflow());
  const Overflow overflow = overflow_of(sparse_geometry(result), rows, /*exact=*/true);
  CHECK(plan.overflow_chunks == static_cast<int>(std::ceil(overflow.mean)));
  CHECK(plan.longest_overflow == overflow.longest);
  CHECK((plan.ring_chunks > 0 || plan.shared_chunks == overflow.fullest));
}

// ---- indices --------------------------------------------------------------------------------------------------------

constexpr int kMostUnits = kMostIndexedUnits - 64;  // less the zero units

TEST_CASE("stored indices reach every unit and every zero behind them", "[fast]") {
  for (int hidden = kMostUnits; hidden > kMostUnits - 1500; hidden -= 187) {
    for (const int batch : {1, 4}) {
      const Recurrent network{Cell::relu, Precision::fp16, hidden, batch, 1, 0.0005};
      Constraints constraints = kSparse;
      fix<&SparsePlan::loads_in_flight>(constraints, 4);
      const PlannedNetwork result = planned(network, constraints);
      if (!result.prediction.footprint.fits) {
        continue;
      }
      CAPTURE(describe(network), to_string(result.plan));
      CHECK(sparse_geometry(result).state_units + sparse_geometry(result).zero_units <= 65536);
    }
  }
}

TEST_CASE("a plan whose stored indices do not reach is refused with its reason", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, kMostUnits, 1, 1, 0.0002};
  Constraints constraints = kSparse;
  fix<&SparsePlan::storage>(constraints, Storage::packed_pair);
  fix<&SparsePlan::sms>(constraints, 108);  // 608 units each, of which the last 192 are none
  const PlannedNetwork refused = planned(network, constraints);
  CAPTURE(to_string(refused.plan));
  CHECK(refused.prediction.footprint.indexed_units == 108 * 608 + 64);
  CHECK_FALSE(refused.prediction.footprint.fits);
  CHECK_THAT(
      explain(refused.prediction.footprint),
      Catch::Matchers::StartsWith("does not fit: needs indices of 65728 units, of which 16 bits tell 65536 apart"));

  // Of all numbers of SMs on all chips, one is taken whose indices reach.
  for (const char* name : {"a100", "h200", "b200", "rtx 4090"}) {
    for (const int batch : {1, 2}) {
      const Recurrent wide{Cell::relu, Precision::fp16, kMostUnits - 7, batch, 1, 0.0002};
      const PlannedNetwork found = choose_plan(find_chip(name).chip, wide, RowProfile::uniform(wide), kSparse);
      CAPTURE(name, batch, to_string(found.plan));
      const int reached = sparse_geometry(found).state_units + sparse_geometry(found).zero_units;
      CHECK((!found.prediction.footprint.fits || reached <= 65536));
    }
  }
}
