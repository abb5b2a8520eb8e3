// SPDX-License-Identifier: Apache-2.0
// Weights outside the registers, against the reference and against one another (tag [gpu]).
#include "tests/kernels/runs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace onchip {
namespace {

TEST_CASE("overflow of every cell and precision gives what the reference gives, wherever they are", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const Tiers tiers : kOverflowTiers) {
    const SparseCase c = overflow_case(cell, precision, tiers, /*is_small=*/false);
    REQUIRE(c.plan.has_overflow());
    REQUIRE((c.plan.streamed_chunks() > 0) == (tiers != Tiers::shared));
    for (const int steps : {1, 6}) {
      check_right(c, given(c.network, steps));
    }
  }
}

TEST_CASE("where the overflow is does not change a bit", "[gpu]") {
  const double kept = GENERATE(0.0, 0.4);  // nothing in registers, and some
  for (const Shape& shape : kEveryKind) {
    SparseCase c = sparse_case(shape);
    // Several chunks of shared memory are summed at once: no sum in fp16 may reach over more than one.
    c.plan.promote_every = std::min(4, c.plan.promote_every);
    const SparseCase in_shared = with_tiers(c, Tiers::shared, 0, kept);
    REQUIRE(in_shared.plan.has_overflow());
    REQUIRE((kept > 0 || in_shared.geometry().register_words == 0));
    const Given g = given(c.network, 7);
    const Got first = run(in_shared, g);
    CAPTURE(in_shared.text());
    check_right(first, expected(in_shared, g), c.network.precision);
    for (const int chunks_in_flight : {2, kMostChunksInFlight}) {
      SparseCase at_once = in_shared;
      at_once.plan.chunks_in_flight = chunks_in_flight;
      CAPTURE(at_once.text());
      CHECK(run(at_once, g) == first);
    }
    for (const Tiers tiers : {Tiers::mixed, Tiers::streamed}) {
      for (const int ring_chunks : {2, 4}) {
        const SparseCase other = with_tiers(c, tiers, ring_chunks, kept);
        CAPTURE(other.text());
        CHECK(run(other, g) == first);
        CHECK(run(other, g, 3) == first);  // a launch begins its rings anew
      }
    }
  }
}

TEST_CASE("uneven rows give what the reference gives, with overflow of each kind and without", "[gpu]") {
  for (Shape shape : kEveryKind) {
    shape.hidden = 211;
    shape.sms = 7;
    shape.lanes = 8;
    shape.density = 0.08;
    shape.mask = MaskKind::power_law;
    const SparseCase c = sparse_case(shape);
    for (const Tiers tiers : kAllTiers) {
      const SparseCase with = with_tiers(c, tiers, 2);
      REQUIRE(with.plan.has_overflow() == (tiers != Tiers::registers));
      check_right(with, given(c.network, 5));
    }
  }
}

TEST_CASE("gates of uneven rows, each unit's in another order, give what the reference gives", "[gpu]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  for (const Precision precision : {Precision::fp16, Precision::fp32, Precision::fp8}) {
    SparseCase c = sparse_case({.cell = cell, .precision = precision, .mask = MaskKind::power_law});
    const RowProfile rows = RowProfile::from_matrix(c.matrix);
    // Every gate comes first somewhere.
    for (int gate = 0; gate < rows.gates(); ++gate) {
      int first = 0;
      for (int rank = 0; rank < rows.units(); ++rank) {
        first += rows.gate(rank, 0) == gate;
      }
      REQUIRE(first > 0);
    }
    for (const Tiers tiers : {Tiers::registers, Tiers::mixed}) {
      check_right(with_tiers(c, tiers), given(c.network, 6));
    }
  }
}

TEST_CASE("every pass over the planes of a state takes the whole overflow", "[gpu]") {
  for (Shape shape : kEveryKind) {
    shape.batch = 17;
    SparseCase c = sparse_case(shape);
    if (info(shape.cell).gates == 1) {
      c.plan.tile_rows = 2;
    }
    const Given g = given(c.network, 5);
    REQUIRE(c.geometry().planes >= 4);
    for (const int pass_planes : {1, 2}) {
      c.plan.pass_planes = pass_planes;
      check_right(with_tiers(c, Tiers::mixed, 3), g);
    }
  }
  for (const Cell cell : {Cell::relu, Cell::gru}) {  // a plane for each sample
    SparseCase c = sparse_case({.cell = cell, .batch = 5});
    c.plan.load_bytes = info(c.network.precision).bytes;
    REQUIRE(c.geometry().planes == 8);
    check_right(with_tiers(c, Tiers::mixed, 2), given(c.network, 5));
  }
}

TEST_CASE("tiles of several rows, and of groups with several units, find the overflow of each", "[gpu]") {
  for (const Cell cell : {Cell::tanh, Cell::lstm, Cell::gru}) {
    SparseCase c = sparse_case({.cell = cell, .hidden = 211, .sms = 3, .lanes = 8, .units_per_group = 5});
    for (int tile_rows = 1; tile_rows <= kMaxTileRows; tile_rows *= 2) {
      if (info(cell).gates > 1 && tile_rows != 4) {
        continue;
      }
      c.plan.tile_rows = tile_rows;
      for (const Tiers tiers : kOverflowTiers) {
        check_right(with_tiers(c, tiers, 4), given(c.network, 5));
      }
    }
  }
}

TEST_CASE("natural order and other exchanges do not matter to overflow", "[gpu]") {
  for (const Shape& shape : kEveryKind) {
    SparseCase c = with_tiers(sparse_case(shape), Tiers::mixed);
    const Given g = given(c.network, 150);  // more than segments are emptied ahead
    CAPTURE(c.text());
    const Got lamport = run(c, g);
    c.plan.exchange = ExchangeProtocol::atomic_barrier;
    CHECK(run(c, g) == lamport);
    c.plan.order = RowOrder::natural;
    check_right(c, given(c.network, 5));
  }
}

TEST_CASE("dense weights give the same, with overflow of each kind and without", "[gpu]") {
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
    for (const Cell cell : {Cell::tanh, Cell::gru}) {
      const SparseCase c = stored_as(
          Storage::dense, sparse_case({.cell = cell, .precision = precision, .hidden = 61, .density = 0.9}), 3, 8, 2);
      for (const Tiers tiers : kAllTiers) {
        check_right(with_tiers(c, tiers, 2), given(c.network, 5));
      }
      check_right(with_tiers(c, Tiers::mixed, 4, 0), given(c.network, 5));
    }
  }
}

TEST_CASE("distances instead of indices give the same, with overflow of each kind and without", "[gpu]") {
  constexpr std::array kBatches{1, 4, 17};
  // Few non-zeros are further apart than one slot reaches; of many a lane takes its own back and forth.
  constexpr std::array kDensities{0.02, 0.4};
  std::size_t number = 0;  // every value of everything comes up, not every combination
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp8}) {
    for (const Cell cell : {Cell::tanh, Cell::lstm, Cell::gru}) {
      const int batch = kBatches[(number + number / 3) % 3];
      const SparseCase c = stored_as(
          Storage::packed_delta,
          sparse_case(
              {.cell = cell, .precision = precision, .hidden = 331, .batch = batch, .density = kDensities[number % 2]}),
          11, 4 << batch % 3, 2);
      ++number;
      for (const Tiers tiers : kAllTiers) {
        check_right(with_tiers(c, tiers, 2), given(c.network, 5));
      }
      check_right(with_tiers(c, Tiers::mixed, 4, 0), given(c.network, 5));
    }
  }
}

TEST_CASE("tiles of several rows and passes of several planes take distances from where each row begins", "[gpu]") {
  for (const int tile_rows : {1, 2, 4}) {
    SparseCase c = stored_as(Storage::packed_delta, sparse_case({.hidden = 331, .batch = 16, .density = 0.2}), 5, 8, 5);
    c.plan.tile_rows = tile_rows;
    const Given g = given(c.network, 5);
    for (const int pass_planes : {1, 2}) {
      c.plan.pass_planes = pass_planes;
      check_right(c, g);
      check_right(with_tiers(c, Tiers::mixed, 3), g);
    }
  }
}

}  // namespace
}  // namespace onchip
