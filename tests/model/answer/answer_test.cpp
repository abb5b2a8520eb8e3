// SPDX-License-Identifier: Apache-2.0
// Answers that hold: what is better on a chip never makes its answers worse, and what is said to help does.
#include "model/answer/answer.hpp"
#include "experiments/validation/drawn_questions.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip_keys.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <string>

using namespace onchip;

namespace {

ChipFile changed(ChipFile file, const std::string& assignment) {
  set_chip_key(file, assignment);
  return file;
}

// The i-th of chips in turns.
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

TEST_CASE("a better number on a chip never slows the pick, and what fits still fits", "[fast]") {
  constexpr std::array kBetter{"registers.per_sm=+100%",
                               "shared_memory.per_sm=+50%",
                               "sm.clock=+20%",
                               "l2.size=+50%",
                               "timing.lds_wavefront=-20%",
                               "exchange.latency=-30%",
                               "timing.shuffle_latency=-20%",
                               "exchange.bytes_per_cycle_per_sm=+50%"};
  constexpr double kAlike = 1.001;  // plans are picked as alike within this
  int i = 0, fitting = 0;
  for (const DrawnQuestion& question : draw_questions(64, 21)) {
    const ChipFile base = chip_file(i);
    const std::string change = kBetter[static_cast<std::size_t>(i++) % kBetter.size()];
    const Chip better = changed(base, change).chip;
    const RowProfile rows = RowProfile::uniform(question.network, question.mask);
    const Prediction before = choose_plan(base.chip, question.network, rows).prediction;
    const Prediction after = choose_plan(better, question.network, rows).prediction;
    CAPTURE(base.chip.name, change, describe(question.network));
    if (before.footprint.fits) {
      CHECK(after.footprint.fits);
      CHECK(after.step_us <= kAlike * before.step_us);
      ++fitting;
    }
    Constraints on_sms;
    on_sms.tier = Tier::shared_memory;
    if (any_plan_fits(base.chip, question.network, rows, on_sms)) {
      CHECK(any_plan_fits(better, question.network, rows, on_sms));
    }
  }
  CHECK(fitting > 24);
}

TEST_CASE("each remedy makes a network fit, and the next smaller one does not", "[fast]") {
  int i = 0, remedies = 0;
  for (const DrawnQuestion& drawn : draw_questions(36, 22)) {
    Question question{chip_file(i++), {}};
    question.configuration.network = drawn.network;
    question.configuration.mask = drawn.mask;
    question.configuration.constraints.tier = Tier::shared_memory;
    question.configuration.network.hidden = std::min(drawn.network.hidden, 3500);
    const FitAnswer answer = fit(question);
    for (const Remedy& remedy : answer.to_fit) {
      CAPTURE(describe(question.configuration.network), question.chip.chip.name, remedy.option);
      ++remedies;
      Question helped = question;
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
        const double less = remedy.to - hardware_step(question.chip.chip, key);
        Question nearly = question;
        set_chip_key(nearly.chip, remedy.what + "=" + format_quantity(less, key.dimension));
        CHECK_FALSE(fit(nearly).fits());
      }
      CHECK(fit(helped).fits());
    }
  }
  CHECK(remedies > 5);
}

TEST_CASE("what stays on the SMs says where streaming is quicker, and the answers agree", "[fast]") {
  Question question{find_chip("h200"), {}};
  question.configuration.network = {Cell::relu, Precision::fp16, 7392, 4, 256, 0.3};
  question.configuration.constraints.tier = Tier::shared_memory;
  const FitAnswer kept = fit(question);
  question.configuration.constraints.tier.reset();
  const PredictAnswer predicted = predict(question);
  CHECK(kept.fits());
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
