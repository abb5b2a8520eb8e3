// SPDX-License-Identifier: Apache-2.0
// Plans of the dense persistent family compile, within the registers that the model counts. Needs no GPU; what the
// kernels compute is in dense_persistent_run_test.cpp.
#include "kernels/program.hpp"
#include "model/chip.hpp"
#include "model/footprint.hpp"
#include "model/occupancy.hpp"
#include "model/planner.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <string>

namespace onchip {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100", "sm_120"};

ResourceReport compiled(const PlannedCase& c, const std::string& architecture) {
  return compile(compile_request(c.network, c.plan, architecture)).resources;
}

TEST_CASE("dense kernels of every cell, batch and exchange compile", "[fast]") {
  int number = 0;
  for (const DenseShape& shape : kEveryDenseKind) {
    PlannedCase c = dense_case(shape);
    c.plan.exchange = static_cast<ExchangeProtocol>(number++ % 3);
    INFO(c.text());
    const ResourceReport report = compiled(c, kArchitectures[number % 4]);
    CHECK(report.spill_bytes == 0);
    CHECK(report.stack_bytes == 0);
    CHECK(report.registers >= register_words(c.network, c.plan));
    CHECK(compile(compile_order_request(c.network, c.plan, "sm_90")).cubin.size() > 500);
  }
}

TEST_CASE("dense kernels of teams and of clusters compile", "[fast]") {
  for (const DenseShape& shape : kEveryTeam) {
    const PlannedCase c = dense_case(shape);
    INFO(c.text());
    const ResourceReport report = compiled(c, "sm_90");
    CHECK(report.spill_bytes == 0);
    CHECK(report.stack_bytes == 0);
    CHECK(compile(compile_order_request(c.network, c.plan, "sm_90")).cubin.size() > 500);
  }
}

TEST_CASE("dense plans that differ in what the kernel is built from are different kernels", "[fast]") {
  const PlannedCase c = dense_case({.cell = Cell::relu, .batch = 16});
  const auto other = [&](auto&& change) {
    PlannedCase changed = c;
    change(changed);
    return fingerprint(compile_request(changed.network, changed.plan, "sm_90"));
  };
  const std::string base = other([](PlannedCase&) {});
  CHECK(base == fingerprint(compile_request(c.network, c.plan, "sm_90")));
  CHECK(other([](PlannedCase& d) { ++d.plan.shared_tiles; }) != base);
  CHECK(other([](PlannedCase& d) { d.plan.loads_in_flight *= 2; }) != base);
  CHECK(other([](PlannedCase& d) { d.plan.threads *= 2; }) != base);
  CHECK(other([](PlannedCase& d) { d.plan.exchange = ExchangeProtocol::atomic_barrier; }) != base);
  CHECK(other([](PlannedCase& d) { d.plan.teams = 2; }) != base);
  CHECK(other([](PlannedCase& d) { d.plan.storage = Storage::structured_2_4; }) != base);
  CHECK(other([](PlannedCase& d) { d.network.precision = Precision::bf16; }) != base);
}

// Networks of the sizes that the family is for, with all its shapes of rows, samples and threads.
struct Size {
  Cell cell;
  int hidden, batch;
};
constexpr Size kSizes[] = {{Cell::relu, 4096, 8},  {Cell::relu, 2304, 4}, {Cell::tanh, 1152, 1},
                           {Cell::relu, 4608, 16}, {Cell::lstm, 2304, 8}, {Cell::lstm, 1536, 8},
                           {Cell::lstm, 1536, 32}, {Cell::gru, 2560, 8},  {Cell::gru, 1021, 17}};

// Of the plans, those that leave no room in the registers for another tile: the others have some to spare. The type of
// the values and two of the architectures are other ones from plan to plan: a product is one instruction in all.
TEST_CASE("no dense plan that the model lets fit spills", "[slow]") {
  const Chip chip = find_chip("h200").chip;  // every architecture here has the same register file
  std::size_t full = 0;
  for (const Size& size : kSizes) {
    for (const int threads : {128, 256, 384, 512}) {
      PlannedCase c;
      c.network = {size.cell, full % 2 == 0 ? Precision::fp16 : Precision::bf16, size.hidden, size.batch, 16, 1};
      c.plan = shape_dense_plan(c.network, 128, threads);
      const int room = max_registers_per_thread(chip, threads) - working_registers(c.network, c.plan);
      const int tiles = warp_tiles(c.network, c.plan);
      if (room < 0 || tiles < room / 4) {
        continue;
      }
      c.plan.shared_tiles = tiles - room / 4;
      for (const std::size_t architecture : {full / 2 % 2, 2 + full / 4 % 2}) {
        INFO(c.text() << " on " << kArchitectures[architecture]);
        const ResourceReport report = compiled(c, kArchitectures[architecture]);
        CHECK(report.spill_bytes == 0);
        CHECK(report.stack_bytes == 0);
      }
      ++full;
    }
  }
  CHECK(full > 16);
}

TEST_CASE("the planner's dense plans compile without a spill", "[slow]") {
  PlanWishes wishes;
  wishes.family = Family::dense_persistent;
  for (const char* chip_name : {"a100", "h200", "b200", "rtx 4090"}) {
    const Chip chip = find_chip(chip_name).chip;
    for (const Size& size : kSizes) {
      const Network network{size.cell, Precision::fp16, size.hidden, size.batch, 1, 1};
      const PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network), wishes);
      if (planned.prediction.footprint.fits) {
        INFO(chip_name << ", " << describe(network) << ": " << to_string(planned.plan));
        CHECK(compile(compile_request(network, planned.plan, chip.architecture)).resources.spill_bytes == 0);
      }
    }
  }
}

}  // namespace
}  // namespace onchip
