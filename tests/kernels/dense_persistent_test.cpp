// SPDX-License-Identifier: Apache-2.0
// Plans of the dense persistent family compile, within the registers that the model counts. Needs no GPU; what the
// kernels compute is in recurrent_run_test.cpp.
#include "kernels/recurrent/program.hpp"
#include "model/chip/chip.hpp"
#include "model/chip/occupancy.hpp"
#include "model/dense/registers.hpp"
#include "model/families/planner.hpp"
#include "model/plan/footprint.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"
#include "tests/nightly.hpp"

#include <optional>
#include <span>
#include <string>

namespace onchip {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100", "sm_120"};

ResourceReport compiled(const DenseCase& c, const std::string& architecture) {
  return compile(compile_request(c.network, c.plan, architecture)).resources;
}

// These are far from filling the registers.
void check_compiles(const DenseCase& c, const std::string& architecture) {
  INFO(c.text());
  const ResourceReport report = compiled(c, architecture);
  CHECK(report.spill_bytes == 0);
  CHECK(report.stack_bytes == 0);
  CHECK(report.registers >= c.geometry().register_words);
  CHECK(compile(compile_order_request(c.network, c.plan, "sm_90")).cubin.size() > 500);
}

TEST_CASE("dense kernels of every cell, batch and exchange, of batch groups and of clusters compile", "[fast]") {
  int number = 0;
  for (const DenseShape& shape : kEveryDenseKind) {
    DenseCase c = dense_case(shape);
    c.plan.exchange = static_cast<ExchangeProtocol>(number++ % 3);
    check_compiles(c, kArchitectures[number % 4]);
  }
  for (const DenseShape& shape : kEveryBatchGroup) {
    check_compiles(dense_case(shape), "sm_90");
  }
}

TEST_CASE("dense plans that differ in what the kernel is built from are different kernels", "[fast]") {
  const DenseCase c = dense_case({.cell = Cell::relu, .batch = 16});
  const auto other = [&](auto&& change) {
    DenseCase changed = c;
    change(changed);
    return fingerprint(compile_request(changed.network, changed.plan, "sm_90"));
  };
  const std::string base = other([](DenseCase&) {});
  CHECK(base == fingerprint(compile_request(c.network, c.plan, "sm_90")));
  CHECK(other([](DenseCase& d) { ++d.plan.shared_tiles; }) != base);
  CHECK(other([](DenseCase& d) { d.plan.loads_in_flight *= 2; }) != base);
  CHECK(other([](DenseCase& d) { d.plan.threads *= 2; }) != base);
  CHECK(other([](DenseCase& d) { d.plan.exchange = ExchangeProtocol::atomic_barrier; }) != base);
  CHECK(other([](DenseCase& d) { d.plan.batch_groups = 2; }) != base);
  CHECK(other([](DenseCase& d) { d.plan.storage = Storage::structured_2_4; }) != base);
  CHECK(other([](DenseCase& d) { d.plan.storage = Storage::bitmap; }) != base);
  CHECK(other([](DenseCase& d) { d.network.precision = Precision::bf16; }) != base);
}

// Networks of the sizes that the family is for, with all its shapes of rows, samples and threads.
struct Size {
  Cell cell;
  int hidden, batch;
};
constexpr Size kSizes[] = {{Cell::relu, 4096, 8},  {Cell::relu, 2304, 4}, {Cell::tanh, 1152, 1},
                           {Cell::relu, 4608, 16}, {Cell::lstm, 2304, 8}, {Cell::lstm, 1536, 8},
                           {Cell::lstm, 1536, 32}, {Cell::gru, 2560, 8},  {Cell::gru, 1021, 17}};
// And of which half as many weights fill the registers.
constexpr Size kStructuredSizes[] = {{Cell::relu, 4096, 8}, {Cell::tanh, 5632, 1},  {Cell::relu, 4608, 16},
                                     {Cell::lstm, 3072, 4}, {Cell::lstm, 2304, 32}, {Cell::gru, 2560, 8},
                                     {Cell::gru, 1533, 17}};

// And of which the words of what is in shared memory have room that are not empty.
constexpr Size kBitmapSizes[] = {{Cell::relu, 5120, 8}, {Cell::tanh, 5632, 1},  {Cell::relu, 6016, 16},
                                 {Cell::lstm, 2560, 8}, {Cell::lstm, 3072, 16}, {Cell::lstm, 2304, 32},
                                 {Cell::gru, 3072, 8},  {Cell::gru, 2813, 17}};

// The plan with no more tiles in registers than the model has room for, and so many more of them; nothing if it has
// fewer than that.
std::optional<DenseCase> full_case(const Size& size, Precision precision, int threads, Storage storage,
                                   int groups_loads, int more_tiles = 0) {
  static const Chip chip = find_chip("h200").chip;  // every architecture here has the same register file
  DenseCase c;
  c.network = {size.cell, precision, size.hidden, size.batch, 16, 0.5};
  c.plan = shape_dense_plan(c.network, 128, threads, 1, storage);
  c.plan.loads_in_flight *= groups_loads;
  const int tiles = c.geometry().warp_tiles;
  const auto has_registers = [&](int in_shared) {
    c.plan.shared_tiles = in_shared;
    return c.geometry().register_words + working_registers(chip, c.geometry()) <=
           max_registers_per_thread(chip, threads);
  };
  int in_shared = tiles;
  while (in_shared > 0 && has_registers(in_shared - 1)) {
    --in_shared;
  }
  if (!has_registers(in_shared) || in_shared < more_tiles) {
    return {};
  }
  c.plan.shared_tiles = in_shared - more_tiles;
  c.plan.bank_words = storage == Storage::bitmap ? expected_bank_words(c.geometry(), 0.2) : 0;
  return c;
}

bool spills(const DenseCase& c, const std::string& architecture) {
  return compiled(c, architecture).spills();
}

// Of the plans, those that leave no room in the registers for another tile: the others have some to spare. The type of
// the values and the architecture are other ones from plan to plan: a product is one instruction in all.
TEST_CASE("no dense plan that the model lets fit spills", "[slow]") {
  int full = 0;
  const auto check = [&](Storage storage, std::span<const Size> sizes, int groups_loads_of_256) {
    for (const int threads : {256, 512}) {
      for (const Size& size : sizes) {
        const Precision precision = full % 2 == 0 ? Precision::fp16 : Precision::bf16;
        const auto c = full_case(size, precision, threads, storage, threads == 256 ? groups_loads_of_256 : 1);
        if (c && is_chosen(full++, 3)) {
          const std::string architecture = kArchitectures[(full - 1) / 2 % 4];
          INFO(c->text() << " on " << architecture);
          CHECK_FALSE(spills(*c, architecture));
        }
      }
    }
  };
  check(Storage::dense, kSizes, 1);
  CHECK(full > 8);
  check(Storage::structured_2_4, kStructuredSizes, 3);
  CHECK(full > 16);
  check(Storage::bitmap, kBitmapSizes, 3);
  CHECK(full > 28);
}

// A tile is four words.
TEST_CASE("the register model of 2:4 plans is mostly within 8 words of what compiles without a spill", "[slow]") {
  int number = 0, pairs = 0, within = 0;
  for (const Size& size : kStructuredSizes) {
    for (const int threads : {128, 384}) {
      if (!is_chosen(number++, 3)) {
        continue;
      }
      const auto beyond = full_case(size, Precision::fp16, threads, Storage::structured_2_4, 1, /*more_tiles=*/3);
      if (!beyond) {
        continue;
      }
      const std::string architecture = kArchitectures[pairs % 4];
      const bool close = spills(*beyond, architecture);
      UNSCOPED_INFO(beyond->text() << " on " << architecture << (close ? ": within" : ": more than 8 too careful"));
      within += close;
      ++pairs;
    }
  }
  CHECK(3 * pairs >= number / 2);
  CHECK(10 * within >= 7 * pairs);
}

// Asked which spans a warp has and which samples a lane, the compiler took so many registers that it spilled 480 bytes.
TEST_CASE("spans and samples that divide nothing take no more registers than others", "[fast]") {
  const std::string text =
      "dense_persistent dense lamport sms=101 threads=256 loads_in_flight=16 poll_delay=200 shared_tiles=29";
  const auto report = [&](int hidden, int batch) {
    const Recurrent network{Cell::tanh, Precision::bf16, hidden, batch, 1, 1};
    DensePlan plan = std::get<DensePlan>(parse_recurrent_plan(text));
    plan.sms = (hidden + 31) / 32;
    return compile(compile_request(network, plan, "sm_90")).resources;
  };
  const ResourceReport ragged = report(3218, 58), even = report(3328, 64);
  CHECK_FALSE(ragged.spills());
  CHECK(ragged.registers <= even.registers + 4);
}

TEST_CASE("the planner's dense plans compile without a spill", "[slow]") {
  Constraints constraints;
  constraints.family = DensePlan::kName;
  int number = 0, bitmaps = 0;
  const auto check = [&](std::span<const Size> sizes, Precision precision, double density, MaskKind mask) {
    for (const char* chip_name : {"a100", "h200", "b200", "rtx 4090"}) {
      const Chip chip = find_chip(chip_name).chip;
      for (const Size& size : sizes) {
        const Recurrent network{size.cell, precision, size.hidden, size.batch, 1, density};
        if (!is_chosen(number++, 5)) {
          continue;
        }
        const PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network, mask), constraints);
        if (planned.prediction.footprint.fits) {
          INFO(chip_name << ", " << describe(network) << ": " << to_string(planned.plan));
          CHECK(compile(compile_request(network, planned.plan, chip.architecture)).resources.spill_bytes == 0);
          bitmaps += std::get<DensePlan>(planned.plan).storage == Storage::bitmap;
        }
      }
    }
  };
  check(kSizes, Precision::fp16, 0.5, MaskKind::uniform);
  check(kSizes, Precision::fp16, 0.5, MaskKind::two_four);
  check(kBitmapSizes, Precision::bf16, 0.1, MaskKind::uniform);
  CHECK(bitmaps > 2);
}

}  // namespace
}  // namespace onchip
