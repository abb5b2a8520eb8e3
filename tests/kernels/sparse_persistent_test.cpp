// SPDX-License-Identifier: Apache-2.0
// Plans of every kind compile for sm_90. Needs no GPU; what the kernels compute is in recurrent_run_test.cpp.
#include "kernels/recurrent/recurrence.hpp"

#include "kernels/runtime/compiler.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr const char* kArchitecture = "sm_90";

// Compiles, and spills nothing: these plans are far from filling the registers.
void require_compiles(const SparseCase& c) {
  INFO(c.text());
  const CompiledKernel kernel = compile(compile_request(c.network, c.plan, kArchitecture));
  CHECK(kernel.resources.spill_bytes == 0);
  CHECK(kernel.resources.stack_bytes == 0);
  CHECK(kernel.resources.registers > c.geometry().register_words);
  CHECK(compile(compile_order_request(c.network, c.plan, kArchitecture)).cubin.size() > 500);
}

// One of five, because the tiers of a case are four.
void require_chosen_compiles(const SparseCase& c) {
  static int number = 0;
  if (is_chosen(number++, 5)) {
    require_compiles(c);
  }
}

TEST_CASE("a kernel of every cell and precision, of overflow in every tier, of every exchange and load, compiles",
          "[fast]") {
  int number = 0;
  for (const Cell cell : {Cell::relu, Cell::tanh, Cell::lstm, Cell::gru}) {
    // Every value of everything comes up, not every combination: those are slow.
    const auto precision = static_cast<Precision>(number);
    SparseCase c = sparse_case({.cell = cell,
                                .precision = precision,
                                .hidden = 61,
                                .batch = 1 + 2 * number,
                                .units_per_group = 1,
                                .mask = MaskKind::power_law});
    c.plan.exchange = static_cast<ExchangeProtocol>(number % 3);
    c.plan.load_bytes = number == 1 ? 2 : kWidestLoad;
    require_compiles(with_tiers(c, kAllTiers[number], 2 + number % 3));
    ++number;
  }
  require_compiles(
      with_tiers(stored_as(Storage::packed_delta, sparse_case({.precision = Precision::fp8, .hidden = 61}), 3, 8, 2),
                 Tiers::mixed));
}

TEST_CASE("kernels of every cell and precision, with overflow in every tier, compile", "[slow]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
    const SparseCase c = sparse_case({.cell = cell, .precision = precision});
    require_chosen_compiles(c);
    for (const Tiers tiers : kOverflowTiers) {
      const SparseCase with = with_tiers(c, tiers, precision == Precision::fp16 ? 2 : 4);
      REQUIRE(with.plan.has_overflow());
      require_chosen_compiles(with);
    }
  }
}

TEST_CASE("kernels without a weight in registers, and those of uneven rows, compile with overflow in every tier",
          "[slow]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  for (const Precision precision : {Precision::fp16, Precision::fp32, Precision::fp8}) {
    const SparseCase c = sparse_case({.cell = cell,
                                      .precision = precision,
                                      .hidden = 211,
                                      .sms = 7,
                                      .lanes = 8,
                                      .density = 0.08,
                                      .mask = MaskKind::power_law});
    for (const Tiers tiers : kOverflowTiers) {
      SparseCase uneven = with_tiers(c, tiers), nothing = with_tiers(c, tiers, 2, 0);
      uneven.plan.chunks_in_flight = 4;
      nothing.plan.chunks_in_flight = 2;
      REQUIRE(uneven.plan.has_overflow());
      REQUIRE(nothing.geometry().register_words == 0);
      require_chosen_compiles(uneven);
      require_chosen_compiles(nothing);
    }
  }
}

TEST_CASE("kernels of every exchange, width of loads and number of planes at once compile", "[slow]") {
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::lstm, Precision::bf16},
               std::pair{Cell::gru, Precision::fp32}, std::pair{Cell::tanh, Precision::fp8});
  for (const int batch : {1, 5, 17}) {
    for (int load_bytes = info(precision).bytes; load_bytes <= kWidestLoad; load_bytes *= 2) {
      SparseCase c =
          sparse_case({.cell = cell, .precision = precision, .hidden = 61, .batch = batch, .units_per_group = 1});
      c.plan.load_bytes = load_bytes;
      c.plan.exchange = static_cast<ExchangeProtocol>(std::countr_zero(static_cast<unsigned>(load_bytes)) % 3);
      c.plan.pass_planes = std::min(2, c.geometry().planes);
      require_chosen_compiles(c);
      require_chosen_compiles(with_tiers(c, Tiers::mixed));
    }
  }
}

TEST_CASE("kernels of every tile, group and storage compile", "[slow]") {
  for (const int lanes : {1, 2, 4, 8, 32}) {
    for (int tile_rows = 1; tile_rows <= kMaxTileRows; tile_rows *= 2) {
      SparseCase c = sparse_case({.batch = 3, .lanes = lanes, .units_per_group = 5});
      c.plan.tile_rows = tile_rows;
      c.plan.loads_in_flight = tile_rows;
      c.plan.promote_every = tile_rows;
      require_chosen_compiles(c);
    }
  }
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8}) {
    for (const Cell cell : {Cell::relu, Cell::gru}) {
      for (const Storage storage : {Storage::dense, Storage::packed_delta}) {
        if (storage == Storage::packed_delta && precision == Precision::fp32) {
          continue;  // never stored so
        }
        const SparseCase c =
            stored_as(storage, sparse_case({.cell = cell, .precision = precision, .density = 0.9}), 5, 16, 1);
        require_chosen_compiles(c);
        require_chosen_compiles(with_tiers(c, Tiers::mixed));
      }
    }
  }
}

TEST_CASE("kernels of pipelined passes and of row splits compile", "[slow]") {
  for (const std::vector<SparseCase>& cases : {every_pipeline(), every_split()}) {
    for (const SparseCase& c : cases) {
      require_chosen_compiles(c);
    }
  }
}

TEST_CASE("a kernel whose one warp takes a state in hundreds of rounds compiles", "[slow]") {
  SparseCase c = sparse_case(
      {.cell = Cell::relu, .hidden = 2048, .batch = 32, .sms = 128, .lanes = 2, .units_per_group = 1, .density = 0.01});
  c.plan.loads_in_flight = 1;
  const SparseGeometry shape = c.geometry();
  REQUIRE(shape.threads == 32);
  require_compiles(c);
}

TEST_CASE("plans that differ in what the kernel is built from are different kernels", "[fast]") {
  const SparseCase c = sparse_case({.cell = Cell::relu, .batch = 16});
  const std::string base = fingerprint(compile_request(c.network, c.plan, kArchitecture));
  const auto other = [&](auto&& change) {
    SparseCase changed = c;
    change(changed);
    return fingerprint(compile_request(changed.network, changed.plan, kArchitecture));
  };
  CHECK(other([](SparseCase&) {}) == base);
  CHECK(other([](SparseCase& d) { d.plan.exchange = ExchangeProtocol::atomic_barrier; }) != base);
  CHECK(other([](SparseCase& d) { d.plan.tile_rows = 2; }) != base);
  CHECK(other([](SparseCase& d) { d.plan.pass_planes = 2; }) != base);
  CHECK(other([](SparseCase& d) { d.plan.load_bytes = 8; }) != base);
  CHECK(other([](SparseCase& d) { d.plan.loads_in_flight = 5; }) != base);
  CHECK(other([](SparseCase& d) { d.plan.promote_every = 4; }) != base);
  CHECK(other([](SparseCase& d) { ++d.plan.slots[1]; }) != base);
  CHECK(other([](SparseCase& d) { d.network.cell = Cell::tanh; }) != base);
  CHECK(other([](SparseCase& d) { d.network.precision = Precision::fp8; }) != base);
  // What only the model uses makes no other kernel.
  CHECK(other([](SparseCase& d) { d.plan.order = RowOrder::natural; }) == base);
  // The same of overflow: how long it is stands in a table.
  const std::string overflow = other([](SparseCase& d) { d = with_tiers(d, Tiers::mixed, 2); });
  CHECK(overflow != base);
  const auto with_other_overflow = [&](auto&& change) {
    return other([&](SparseCase& d) {
      d = with_tiers(d, Tiers::mixed, 2);
      change(d.plan);
    });
  };
  CHECK(with_other_overflow([](SparsePlan& plan) { ++plan.shared_chunks; }) != overflow);
  CHECK(with_other_overflow([](SparsePlan& plan) { plan.ring_chunks = 3; }) != overflow);
  CHECK(with_other_overflow([](SparsePlan& plan) { plan.chunks_in_flight = 4; }) != overflow);
  CHECK(with_other_overflow([](SparsePlan& plan) { ++plan.overflow_chunks; }) == overflow);
  CHECK(with_other_overflow([](SparsePlan& plan) { ++plan.longest_overflow; }) == overflow);
}

}  // namespace
}  // namespace onchip
