// SPDX-License-Identifier: Apache-2.0
// Answers that hold: what is better on a chip never makes its answers worse, and what is said to help does.
#include "model/answer/answer.hpp"
#include "experiments/validation/drawn_questions.hpp"
#include "model/answer/least.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip_keys.hpp"
#include "tests/catch.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace onchip;

namespace {

ChipFile changed(ChipFile file, const std::string& assignment) {
  set_chip_key(file, assignment);
  return file;
}

// The i-th of chips, round-robin.
ChipFile chip_file(int i) {
  constexpr std::array kChips{"h200", "h100 sxm", "a100", "b200", "rtx 4090"};
  return find_chip(kChips[static_cast<std::size_t>(i) % kChips.size()]);
}

}  // namespace

TEST_CASE("a limit of one block follows what the SM has, unless it is set, too", "[fast]") {
  const ChipFile base = find_chip("h200");
  const Chip more = changed(base, "shared_memory.per_sm=+100%").chip;
  CHECK(more.smem_bytes_per_block - base.chip.smem_bytes_per_block == 228 * 1024);
  CHECK(changed(base, "registers.per_sm=+50%").chip.registers_per_block == 1.5 * 65536);
  const Chip less = changed(base, "shared_memory.per_sm=64 KiB").chip;
  CHECK(less.smem_bytes_per_block == 63 * 1024);
  for (const bool block_first : {false, true}) {
    ChipFile both = base;
    set_chip_key(both, block_first ? "shared_memory.per_block=99 KiB" : "shared_memory.per_sm=300 KiB");
    set_chip_key(both, block_first ? "shared_memory.per_sm=300 KiB" : "shared_memory.per_block=99 KiB");
    CHECK(both.chip.smem_bytes_per_block == 99 * 1024);
  }
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Numbers of a chip of which more is better; of latencies, cycles and the like less is.
const std::vector<std::string> kMoreIsBetter = words(
    "sm.count sm.clock sm.max_threads registers.per_sm shared_memory.per_sm shared_memory.per_block l2.size "
    "dram.bandwidth timing.instruction_cache timing.sm_instruction_cache timing.tensor_clock_share "
    "exchange.bytes_per_cycle_per_sm cluster.bytes_per_cycle cluster.usable_sms library.l2_bandwidth "
    "library.dram_share library.sm_bandwidth");
const std::vector<std::string> kLessIsBetter = words(
    "timing.lds_latency timing.lds_wavefront timing.lds_instruction timing.fp32_issue timing.half2_issue "
    "timing.conversion_issue timing.integer_issue timing.arithmetic_latency timing.half2_latency "
    "timing.shuffle_latency timing.tanh_latency timing.block_barrier timing.grid_barrier timing.instruction_supply "
    "timing.special_issue timing.tensor_issue timing.tensor_latency exchange.latency exchange.per_sm "
    "exchange.round_trip exchange.per_word exchange.per_warp exchange.signal exchange.look_per_word cluster.latency "
    "cluster.per_sm library.product");

// On random chips of which one random number gets better.
TEST_CASE("a better number on a chip never slows the chosen plan, and what fits still fits", "[fast][long]") {
  const int number = draws(200);
  constexpr double kAlike = 1.001;  // plans are chosen as alike within this
  int fitting = 0;
  std::mt19937 draw(21);
  const std::vector<std::string> names = shipped_chips();
  for (const DrawnQuestion& question : draw_questions(number, 21)) {
    const ChipFile base = find_chip(names[draw() % names.size()]);
    const std::size_t key = draw() % (kMoreIsBetter.size() + kLessIsBetter.size());
    const bool more = key < kMoreIsBetter.size();
    constexpr std::array kPercent{5, 10, 20, 50, 90};
    const std::string change = (more ? kMoreIsBetter[key] : kLessIsBetter[key - kMoreIsBetter.size()]) +
                               (more ? "=+" : "=-") + std::to_string(kPercent[draw() % kPercent.size()]) + "%";
    ChipFile better = base;
    try {
      set_chip_key(better, change);
    } catch (const InputError&) {
      continue;  // no chip has that
    }
    const RowProfile rows = RowProfile::uniform(question.network, question.mask);
    const Prediction before = choose_plan(base.chip, question.network, rows).prediction;
    const Prediction after = choose_plan(better.chip, question.network, rows).prediction;
    CAPTURE(base.chip.name, change, describe(question.network), before.step_us, after.step_us);
    if (before.footprint.fits) {
      ++fitting;
      CHECK(after.footprint.fits);
      CHECK(after.step_us <= kAlike * before.step_us);
    }
    Constraints on_sms;
    on_sms.tier = Tier::shared_memory;
    if (any_plan_fits(base.chip, question.network, rows, on_sms)) {
      CHECK(any_plan_fits(better.chip, question.network, rows, on_sms));
    }
  }
  CHECK(fitting > number / 3);
}

TEST_CASE("each remedy makes a network fit, and the next smaller one does not", "[fast][long]") {
  const int number = draws(20);
  int i = 0, remedies = 0;
  for (const DrawnQuestion& drawn : draw_questions(number, 22)) {
    RecurrentQuestion question{chip_file(i++), {}};
    question.configuration.network = drawn.network;
    question.configuration.mask = drawn.mask;
    question.configuration.constraints.tier = Tier::shared_memory;
    question.configuration.network.hidden = std::min(drawn.network.hidden, 3500);
    const FitAnswer answer = fit(question);
    for (const Remedy& remedy : answer.to_fit) {
      CAPTURE(describe(question.configuration.network), question.chip.chip.name, remedy.option);
      ++remedies;
      RecurrentQuestion helped = question;
      if (remedy.what == "hidden") {
        helped.configuration.network.hidden = static_cast<int>(remedy.to);
        CHECK(remedy.option == "--hidden " + std::to_string(static_cast<int>(remedy.to)));
      } else if (remedy.what == "density") {
        helped.configuration.network.density = remedy.to;
      } else {
        const std::string quoted = remedy.option.substr(std::string("--set '").size());
        set_chip_key(helped.chip, quoted.substr(0, quoted.size() - 1));
        const ChipKey& key = *find_key(remedy.what);
        CHECK(helped.chip.chip.*key.member == remedy.to);
        const double less = remedy.to - choices(question.chip.chip, remedy.what).step;
        RecurrentQuestion nearly = question;
        set_chip_key(nearly.chip, remedy.what + "=" + format_quantity(less, key.dimension));
        CHECK_FALSE(fit(nearly).is_yes());
      }
      CHECK(fit(helped).is_yes());
    }
  }
  CHECK(remedies > number / 10);
}

TEST_CASE("what stays on the SMs says where streaming is faster, and the answers agree", "[fast]") {
  RecurrentQuestion question{find_chip("h200"), {}};
  question.configuration.network = {Cell::relu, Precision::fp16, 7392, 4, 256, 0.3};
  question.configuration.constraints.tier = Tier::shared_memory;
  const FitAnswer kept = fit(question);
  question.configuration.constraints.tier.reset();
  const PredictAnswer predicted = predict(question);
  CHECK(kept.is_yes());
  CHECK(tier_of(predicted.answer.planned.plan) == Tier::streamed);
  REQUIRE(kept.instead);
  CHECK(kept.instead->plan == predicted.answer.planned.plan);
  CHECK(kept.instead->prediction.step_us == predicted.answer.planned.prediction.step_us);
}

TEST_CASE("weights that are zero in the precision do not count", "[fast]") {
  SparseMatrix matrix = generate_mask(64, 64, 0.5, 1, Precision::fp32);
  const std::int64_t all = matrix.nnz();
  for (std::int64_t i = 0; i < all; i += 4) {
    matrix.value[static_cast<std::size_t>(i)] = 1e-9F;  // below half of the least fp16 number
  }
  Configuration configuration;
  take_matrix(configuration, matrix);
  CHECK(configuration.weights->nnz() == all - (all + 3) / 4);
  CHECK(configuration.network.density == configuration.weights->density());
  std::ranges::fill(matrix.value, 1e-9F);
  CHECK_THROWS_WITH(take_matrix(configuration, matrix, "w"), "w: no weight is left when they are rounded to fp16");
  configuration.network.precision = Precision::fp32;
  CHECK_NOTHROW(take_matrix(configuration, matrix));
}
