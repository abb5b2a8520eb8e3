// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/geometry.hpp"

#include "model/plan/plan_text.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <vector>

using namespace onchip;

// ---- shapes ---------------------------------------------------------------------------------------------------------

TEST_CASE("a shape has slots for every row, none that no row needs, and no overflow", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int units_per_group = GENERATE(1, 2, 5);
  const int lanes = GENERATE(4, 32);
  const Storage storage = GENERATE(Storage::packed_pair, Storage::dense);
  const int gates = info(cell).gates;
  const Recurrent network{cell, Precision::fp16, 509, 3, 1, 0.2};
  const RowProfile rows =
      RowProfile::from_matrix(generate_mask(network.rows(), 509, 0.2, 3, Precision::fp16, MaskKind::power_law));
  const SparseGeometry plan(network, shape_sparse_plan(network, rows, storage, 7, lanes, gates * units_per_group));
  CAPTURE(to_string(plan));
  CHECK(plan.batch_padded == 4);
  CHECK(plan.threads % 32 == 0);
  CHECK(7 * units_per_group * plan.groups() >= 509);
  CHECK(plan.tile_rows == (gates > 1 ? 4 : 1));
  CHECK_FALSE(plan.has_overflow());
  CHECK(plan.streamed_chunks() == 0);
  CHECK(plan.mean_slots() == plan.slots_total());
  const int per_class = 7 * plan.groups();
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const int first = r / gates * per_class;
    CHECK(plan.slots[r] >= 1);
    if (first < 509) {
      const int longest = storage == Storage::dense ? plan.state_units : rows.longest_from(first, r % gates);
      CHECK(plan.slots[r] * lanes >= longest);
      CHECK((plan.slots[r] - 1) * lanes < std::max(1, longest));
    }
  }
}

// ---- shared memory --------------------------------------------------------------------------------------------------

TEST_CASE("shared memory holds the state in whole words for every cell and load", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32, Precision::fp8);
  const int batch = GENERATE(1, 3, 8, 17, 32);
  const Recurrent network{cell, precision, 1151, batch, 1, 0.1};
  const int gates = info(cell).gates;
  for (int load_bytes = info(precision).bytes; load_bytes <= kWidestLoad; load_bytes *= 2) {
    SparsePlan plan = shape_sparse_plan(network, RowProfile::uniform(network), Storage::packed_pair, 23, 8, gates);
    plan.load_bytes = load_bytes;
    const SparseGeometry geometry(network, plan);
    CAPTURE(describe(network), to_string(plan));
    CHECK(geometry.planes * geometry.plane_unit_bytes == geometry.unit_bytes);
    CHECK(geometry.plane_unit_bytes <= load_bytes);
    CHECK(geometry.units_per_sm * 23 >= 1151);
    CHECK((geometry.units_per_sm - 16) * 23 < 1151);
    CHECK(geometry.exchange_bytes % 16 == 0);
    CHECK(geometry.bytes_without_weights() % 16 == 0);
    CHECK(geometry.bytes_without_weights() > geometry.exchange_bytes);
    // Zero units in every bank.
    CHECK(geometry.zero_units * geometry.plane_unit_bytes >= 128);
    const std::int64_t reach = geometry.state_units + geometry.zero_units;
    CHECK((reach - 1) * geometry.plane_unit_bytes >> geometry.index_shift < 65536);
    CHECK(geometry.plane_unit_bytes % (1 << geometry.index_shift) == 0);
    // The last chunk of a dense row reaches beyond the state, into zeros.
    plan.storage = Storage::dense;
    const SparseGeometry dense(network, plan);
    CHECK(dense.zero_units >= dense.chunk_slots * plan.lanes_per_row);
  }
}

// What each region must hold, counted without SharedMemory.
TEST_CASE("no region of shared memory reaches into the next, and the last ends it", "[fast]") {
  std::vector<SparseGeometry> geometries;
  for (const Case& c : awkward_cases()) {
    SparsePlan plan = plan_of(c, matrix_of(c));
    geometries.emplace_back(c.network(), plan);
    if (plan.has_overflow()) {
      plan.shared_chunks /= 2;
      plan.ring_chunks = 3;
      geometries.emplace_back(c.network(), plan);
    }
  }
  for (const SparseCase& c : every_split()) {
    geometries.push_back(c.geometry());
  }
  for (const SparseGeometry& of : std::vector<SparseGeometry>(geometries)) {
    SparsePlan pipelined = of;
    pipelined.producer_warps = 3;
    if (const SparseGeometry geometry(of.network, pipelined); geometry.can_pipeline()) {
      geometries.push_back(geometry);
    }
  }
  int pipelined = 0;
  for (const SparseGeometry& geometry : geometries) {
    CAPTURE(describe(geometry.network), to_string(geometry));
    pipelined += geometry.producer_warps > 0;
    const std::int64_t units = geometry.units_per_sm, element = info(geometry.network.precision).bytes;
    const std::int64_t gates = info(geometry.network.cell).gates, ints = 4;
    const bool is_gated = gates > 1, splits = geometry.row_splits > 0;
    const std::int64_t of_step = units * gates * geometry.network.batch * element;
    const std::int64_t needed[] = {
        geometry.planes * (geometry.state_units + geometry.zero_units) * geometry.plane_unit_bytes,
        units * geometry.batch_padded * element,
        (of_step + 15) / 16 * 16 + of_step,  // the next step's begins at a whole word
        is_gated ? ints * units * geometry.batch_padded : 0,
        is_gated ? ints * geometry.batch_padded : 0,
        is_gated ? ints * units : 0,
        geometry.network.cell == Cell::gru ? ints * units : 0,
        geometry.network.precision == Precision::fp8 ? ints * units * gates : 0,
        geometry.has_overflow() ? ints * (geometry.all_rows() + 1) * geometry.warps() : 0,
        ints * geometry.row_splits * geometry.groups() * geometry.batch_padded,
        splits ? ints * units * gates : 0,
        geometry.producer_warps > 0 ? 8 * geometry.passes : 0,
        std::int64_t{geometry.shared_chunks} * 128 * geometry.chunk_words,
        std::int64_t{geometry.ring_chunks} * geometry.warps() * 128 * geometry.chunk_words};
    static_assert(std::size(needed) == kSparseRegionNames.size());
    std::int64_t end = 0;
    for (std::size_t i = 0; i < std::size(needed); ++i) {
      const std::int64_t begin = geometry.memory.at(static_cast<SparseRegion>(i));
      CAPTURE(kSparseRegionNames[i]);
      CHECK(begin % 16 == 0);
      CHECK(begin >= end);
      CHECK(begin < end + 16);  // nor is there room that nobody has
      end = begin + needed[i];
    }
    CHECK(geometry.shared_bytes() >= end);
    CHECK(geometry.shared_bytes() < end + 16);
    CHECK(geometry.shared_bytes() % 16 == 0);
  }
  CHECK(pipelined > 3);
}
