// SPDX-License-Identifier: Apache-2.0
// Plans of the dense persistent family compile, within the registers that the model counts. Needs no GPU; what the
// kernels compute is in dense_persistent_run_test.cpp.
#include "kernels/recurrent/program.hpp"
#include "model/chip/chip.hpp"
#include "model/chip/occupancy.hpp"
#include "model/dense/registers.hpp"
#include "model/families/planner.hpp"
#include "model/plan/footprint.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"
#include "tests/nightly.hpp"

#include <array>
#include <optional>
#include <string>

namespace onchip {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100", "sm_120"};

ResourceReport compiled(const DenseCase& c, const std::string& architecture) {
  return compile(compile_request(c.network, c.plan, architecture)).resources;
}

TEST_CASE("dense kernels of every cell, batch and exchange compile", "[fast]") {
  int number = 0;
  for (const DenseShape& shape : kEveryDenseKind) {
    DenseCase c = dense_case(shape);
    c.plan.exchange = static_cast<ExchangeProtocol>(number++ % 3);
    INFO(c.text());
    const ResourceReport report = compiled(c, kArchitectures[number % 4]);
    CHECK(report.spill_bytes == 0);
    CHECK(report.stack_bytes == 0);
    CHECK(report.registers >= c.geometry().register_words);
    CHECK(compile(compile_order_request(c.network, c.plan, "sm_90")).cubin.size() > 500);
  }
}

TEST_CASE("dense kernels of batch groups and of clusters compile", "[fast]") {
  for (const DenseShape& shape : kEveryBatchGroup) {
    const DenseCase c = dense_case(shape);
    INFO(c.text());
    const ResourceReport report = compiled(c, "sm_90");
    CHECK(report.spill_bytes == 0);
    CHECK(report.stack_bytes == 0);
    CHECK(compile(compile_order_request(c.network, c.plan, "sm_90")).cubin.size() > 500);
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

bool has_no_spill(const Chip& chip, const Recurrent& network, const RecurrentPlan& plan) {
  return compile(compile_request(network, plan, chip.architecture)).resources.spill_bytes == 0;
}

// Of the plans, those that leave no room in the registers for another tile: the others have some to spare. The type of
// the values and the architecture are other ones from plan to plan: a product is one instruction in all.
TEST_CASE("no dense plan that the model lets fit spills", "[slow]") {
  std::size_t full = 0;
  const auto check = [&](const Size& size, int threads, Storage storage, int groups_loads) {
    const Precision precision = full % 2 == 0 ? Precision::fp16 : Precision::bf16;
    if (const std::optional<DenseCase> c = full_case(size, precision, threads, storage, groups_loads)) {
      const std::string architecture = kArchitectures[full / 2 % 4];
      INFO(c->text() << " on " << architecture);
      if (is_chosen(full++, 3)) {
        CHECK_FALSE(spills(*c, architecture));
      }
    }
  };
  for (const int threads : {256, 512}) {
    for (const Size& size : kSizes) {
      check(size, threads, Storage::dense, 1);
    }
  }
  CHECK(full > 8);
  for (const int threads : {256, 512}) {
    for (const Size& size : kStructuredSizes) {
      check(size, threads, Storage::structured_2_4, threads == 256 ? 3 : 1);
    }
  }
  CHECK(full > 16);
  for (const int threads : {256, 512}) {
    for (const Size& size : kBitmapSizes) {
      check(size, threads, Storage::bitmap, threads == 256 ? 3 : 1);
    }
  }
  CHECK(full > 28);
}

// A tile is four words.
TEST_CASE("the register model of 2:4 plans is mostly within 8 words of what compiles without a spill", "[slow]") {
  std::size_t full = 0;
  int pairs = 0, within = 0;
  for (const Size& size : kStructuredSizes) {
    for (const int threads : {128, 384}) {
      const auto beyond = full_case(size, Precision::fp16, threads, Storage::structured_2_4, 1, /*more_tiles=*/3);
      if (!beyond) {
        continue;
      }
      const std::string architecture = kArchitectures[full % 4];
      const bool close = spills(*beyond, architecture);
      UNSCOPED_INFO(beyond->text() << " on " << architecture << (close ? ": within" : ": more than 8 too careful"));
      within += close;
      ++pairs;
      ++full;
    }
  }
  CHECK(pairs >= 10);
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

// Each size on two of the chips, each chip with half of the sizes.
TEST_CASE("the planner's plans of bitmaps compile without a spill", "[slow]") {
  constexpr std::array kChips{"a100", "h200", "b200", "rtx 4090"};
  Constraints constraints;
  constraints.family = DensePlan::kName;
  int compact = 0, number = 0;
  for (std::size_t i = 0; i < std::size(kBitmapSizes); ++i) {
    const Size& size = kBitmapSizes[i];
    const Recurrent network{size.cell, Precision::bf16, size.hidden, size.batch, 1, 0.1};
    for (const std::size_t which : {i % 4, (i + 1 + i / 4) % 4}) {
      const Chip chip = find_chip(kChips[which]).chip;
      const PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network), constraints);
      if (planned.prediction.footprint.fits) {
        INFO(chip.name << ", " << describe(network) << ": " << to_string(planned.plan));
        if (is_chosen(number++, 3)) {
          CHECK(has_no_spill(chip, network, planned.plan));
        }
        compact += std::get<DensePlan>(planned.plan).storage == Storage::bitmap;
      }
    }
  }
  CHECK(compact > 6);
}

TEST_CASE("the planner's dense plans compile without a spill", "[slow]") {
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::two_four);
  Constraints constraints;
  constraints.family = DensePlan::kName;
  int number = 0;
  for (const char* chip_name : {"a100", "h200", "b200", "rtx 4090"}) {
    const Chip chip = find_chip(chip_name).chip;
    for (const Size& size : kSizes) {
      if (!is_chosen(number++, 5)) {
        continue;
      }
      const Recurrent network{size.cell, Precision::fp16, size.hidden, size.batch, 1, 0.5};
      const PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network, mask), constraints);
      if (planned.prediction.footprint.fits) {
        INFO(chip_name << ", " << describe(network) << ": " << to_string(planned.plan));
        CHECK(has_no_spill(chip, network, planned.plan));
      }
    }
  }
}

}  // namespace
}  // namespace onchip
