// SPDX-License-Identifier: Apache-2.0
#include "model/dense/geometry.hpp"

#include "model/dense/family.hpp"
#include "model/families/plan.hpp"
#include "tests/catch.hpp"

#include <cstdint>

using namespace onchip;

TEST_CASE("a dense shape has tiles for every row and unit, and spans for every unit", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int hidden = GENERATE(1, 31, 509, 2304);
  const int threads = GENERATE(32, 256, 1024);
  const Recurrent network{cell, Precision::bf16, hidden, 9, 1, 1};
  const int gates = info(cell).gates;
  for (const int sms : {1, 7, 132}) {
    DensePlan plan = shape_dense_plan(network, sms, threads);
    const DenseGeometry geometry(network, plan);
    CAPTURE(describe(network), to_string(RecurrentPlan(plan)));
    const int units = geometry.units_per_sm;
    CHECK(units % 2 == 0);
    CHECK(units * sms >= hidden);
    CHECK((units - 2) * sms < hidden);
    CHECK(geometry.spans * kSpanUnits >= geometry.state_units);
    CHECK((geometry.spans - 1) * kSpanUnits < geometry.state_units);
    CHECK(geometry.warp_spans * plan.warps() >= geometry.spans);
    CHECK(geometry.row_tiles * 16 >= units * gates);
    CHECK(geometry.sample_tiles == 2);
    CHECK(geometry.register_words == 4 * geometry.warp_tiles);
    // Only the samples that there are.
    CHECK(geometry.exchange_bytes == std::int64_t{2} * 9 * kSpanUnits * geometry.spans);
    // A tile that moves from registers to shared memory takes as many bytes there.
    CHECK(geometry.shared_bytes() % 16 == 0);
    plan.shared_tiles = 1;
    const DenseGeometry one(network, plan);
    CHECK(one.shared_bytes() == geometry.shared_bytes() + kTileBytes * plan.warps());
    CHECK(one.register_words == 4 * (geometry.warp_tiles - 1));
  }
}

TEST_CASE("no region of a dense block's shared memory reaches into the next, and the last ends it", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int batch = GENERATE(1, 9, 32);
  const Storage storage = GENERATE(Storage::dense, Storage::structured_2_4, Storage::bitmap);
  const ExchangeProtocol exchange = GENERATE(ExchangeProtocol::lamport, ExchangeProtocol::cluster);
  for (const int hidden : {1, 61, 509}) {
    const Recurrent network{cell, Precision::fp16, hidden, batch, 1, 0.3};
    DensePlan plan = shape_dense_plan(network, 8, 96, 1, storage);
    plan.exchange = exchange;
    plan.shared_tiles = DenseGeometry(network, plan).warp_tiles / 2;
    plan.bank_words = storage == Storage::bitmap ? 3 * plan.shared_tiles : 0;
    const DenseGeometry geometry(network, plan);
    CAPTURE(describe(network), to_string(RecurrentPlan(plan)));
    const std::int64_t items = geometry.finished_items, floats = 4;
    const bool is_gated = info(cell).gates > 1;
    const std::int64_t tile_bytes =
        storage == Storage::bitmap ? 128 * plan.bank_words : kTileBytes * plan.shared_tiles * plan.warps();
    const std::int64_t least[] = {tile_bytes,
                                  // Sums of every warp, row and sample.
                                  floats * plan.warps() * 16 * geometry.row_tiles * 8 * geometry.sample_tiles,
                                  16 * items, 2 * items * (is_gated ? 8 : 4), is_gated ? floats * items : 0,
                                  cell == Cell::gru ? floats * items : 0,
                                  exchange == ExchangeProtocol::cluster ? 2 * geometry.exchange_bytes + 16 : 0};
    static_assert(std::size(least) == kDenseRegionNames.size());
    std::int64_t end = 0;
    for (std::size_t i = 0; i < std::size(least); ++i) {
      const std::int64_t begin = geometry.memory.at(static_cast<DenseRegion>(i));
      CAPTURE(kDenseRegionNames[i]);
      CHECK(begin % 4 == 0);
      CHECK(begin >= end);
      end = begin + least[i];
    }
    CHECK(geometry.memory.at(DenseRegion::tiles) == 0);
    CHECK(geometry.memory.at(DenseRegion::cluster) % 16 == 0);
    CHECK(geometry.shared_bytes() >= end);
    CHECK(geometry.shared_bytes() < end + 16);
    CHECK(geometry.shared_bytes() % 16 == 0);
    // Items are enough for every unit and sample of the SM.
    CHECK(items * (is_gated ? 1 : 2) >= geometry.units_per_sm * geometry.group_batch);
  }
}
