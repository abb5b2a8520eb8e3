// SPDX-License-Identifier: Apache-2.0
// The plan of a training that is predicted is the one that is replayed and launched, before a compiler has spoken.
#include "experiments/training/simulate.hpp"
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/training/sparse_program.hpp"
#include "model/answer/whole_network.hpp"
#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {
namespace {

// Of one layer, as it is launched.
TrainingSize drawn_size(Random& random, bool is_sparse) {
  const auto one_of = [&](const auto&... of) {
    const std::array all{of...};
    return all[random.below(all.size())];
  };
  return {.input = one_of(8, 77, 512),
          .hidden = is_sparse ? one_of(96, 256, 512) : one_of(64, 96, 256, 333, 512, 650, 1024),
          .batch = one_of(1, 4, 16, 33, 64, 128),
          .steps = one_of(3, 64, 256),
          .cell = is_sparse ? Cell::lstm : one_of(Cell::lstm, Cell::gru),
          .directions = is_sparse ? 1 : one_of(1, 2)};
}

}  // namespace

TEST_CASE("of 50 drawn trainings the predicted, replayed and launched plans are the same text", "[fast]") {
  const ChipFile file = find_chip("h200");
  int dense = 0, sparse = 0, beside = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed, 17);
    const bool is_sparse = seed % 5 == 0;
    const TrainingSize size = drawn_size(random, is_sparse);
    const Precision precision = random.below(2) == 0 ? Precision::fp16 : Precision::bf16;
    CAPTURE(seed, size.hidden, size.batch, size.directions);
    const SparseMatrix mask =
        is_sparse ? generate_mask(4 * size.hidden, size.hidden, 0.1, seed, Precision::fp16) : SparseMatrix();
    const SparseMatrix* const of_layer = is_sparse ? &mask : nullptr;
    AskedTraining asked;
    asked.training = training_of(size, precision, of_layer);
    const TrainingAnswer answer = predict_training(file, asked.training);
    const auto own = std::ranges::find_if(answer.ranking, [](const RankedTraining& one) { return !one.is_library(); });
    REQUIRE(own != answer.ranking.end());
    REQUIRE(own->planned);
    const std::string predicted = to_string(own->planned->plan);
    CHECK((!is_on_chip(answer.planned->plan) || to_string(answer.planned->plan) == predicted));

    const TrainingPlan launched = planned_layer(file.chip, size, precision, of_layer).plan;
    const TrainingProgram program = training_program(size, precision, launched, of_layer, file.chip, "sm_90");
    CHECK(to_string(program.plan) == predicted);
    if (is_sparse) {
      ++sparse;
    } else {
      ++dense;
      const DenseTrainingPlan replayed = replayed_plan(file.chip, asked);
      CHECK(to_string(TrainingPlan(replayed)) == predicted);
      beside += replayed.beside;
    }
  }
  CHECK(dense == 40);
  CHECK(sparse == 10);
  CHECK(beside > 0);
}

TEST_CASE("of 20 drawn stacks the predicted, replayed and launched plans are the same text", "[fast]") {
  const ChipFile file = find_chip("h200");
  int at_once = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed, 19);
    TrainingSize size = drawn_size(random, false);
    size.directions = 1;
    size.layers = 1 + static_cast<int>(random.below(5));
    AskedTraining asked;
    asked.training = training_of(size, Precision::fp16);
    asked.constraints.stash = Stash::none;
    CAPTURE(seed, size.layers, size.hidden, size.batch);
    RecurrentQuestion question{file, {}};
    question.configuration.network = asked.training.network;
    const DenseTrainingPlan predicted = predict(question, asked.training.stack).dense.value_or_throw().plan;
    const auto launched =
        std::get<DenseTrainingPlan>(planned_layer(file.chip, size, Precision::fp16, nullptr, Stash::none).plan);
    CHECK(launched == predicted);
    if (!predicted.stepwise) {
      CHECK(replayed_plan(file.chip, asked) == predicted);
      at_once += predicted.forward.layers > 1 ? 1 : 0;
    }
  }
  CHECK(at_once > 3);
}

TEST_CASE("all batches of a range are trained by the same kernels, with less than a quarter more samples", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const auto kernels_of = [&](TrainingSize size, int batch) {
    size.batch = batch;
    const TrainingPlan plan = planned_layer(chip, size, Precision::fp16).plan;
    std::vector<std::string> keys;
    for (const ProgramKernel& kernel :
         training_program(size, Precision::fp16, plan, nullptr, chip, "sm_90").program.kernels) {
      keys.push_back(fingerprint(kernel.request));
    }
    return keys;
  };
  for (int batch = 1; batch <= 4096; ++batch) {
    const int samples = kernel_batch(batch);
    REQUIRE(samples >= batch);
    REQUIRE(4 * samples < 5 * batch);
    REQUIRE(samples < batch + 8);
    REQUIRE(kernel_batch(samples) == samples);
  }
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed, 18);
    TrainingSize size = drawn_size(random, false);
    const int batch = 9 + static_cast<int>(random.below(200)), largest = kernel_batch(batch);
    CAPTURE(seed, size.hidden, batch);
    CHECK(kernels_of(size, batch) == kernels_of(size, largest));
  }
}

TEST_CASE("a training plan that the compiler spills is replaced, and both are named", "[fast]") {
  // Nothing of a warp's tiles in shared memory: more than its registers hold.
  const TrainingSize size{512, 2048, 16, 8};
  const Chip chip = find_chip("h200").chip;
  auto plan = std::get<DenseTrainingPlan>(planned_layer(chip, size, Precision::fp16).plan);
  const Confirmed<TrainingPlan> kept = confirmed_plan(chip, size, Precision::fp16, nullptr, plan, "sm_90");
  plan = std::get<DenseTrainingPlan>(kept.chosen);
  CHECK_FALSE(confirmed_plan(chip, size, Precision::fp16, nullptr, plan, "sm_90").refused);
  plan.forward.shared_tiles = 0;
  const Confirmed<TrainingPlan> moved = confirmed_plan(chip, size, Precision::fp16, nullptr, plan, "sm_90");
  REQUIRE(moved.refused);
  CHECK(*moved.refused == TrainingPlan(plan));
  const auto& chosen = std::get<DenseTrainingPlan>(moved.chosen);
  CHECK(chosen.forward.shared_tiles > 0);
  CHECK(chosen.backward == plan.backward);
}

TEST_CASE("a training plan that is confirmed has room in shared memory, and does not spill", "[slow]") {
  const Chip chip = find_chip("h200").chip;
  // The compiler spills the first choice where little room is left.
  for (const TrainingSize& size : {TrainingSize{1536, 1536, 256, 8}, {1024, 1024, 100, 8, Cell::gru}}) {
    const TrainingPlan planned = planned_layer(chip, size, Precision::fp16).plan;
    const Confirmed<TrainingPlan> confirmed = confirmed_plan(chip, size, Precision::fp16, nullptr, planned, "sm_90");
    const auto& plan = std::get<DenseTrainingPlan>(confirmed.chosen);
    for (const bool is_backward : {false, true}) {
      CAPTURE(size.hidden, is_backward);
      const RecurrencePlan& pass = is_backward ? plan.backward : plan.forward;
      CHECK(static_cast<double>(recurrence_shape(size, pass, is_backward).shared_bytes) <=
            chip.smem_bytes_per_block.value);
      CHECK_FALSE(compile(compile_request(size, Precision::fp16, pass, is_backward, "sm_90")).resources.spills());
    }
  }
}

}  // namespace onchip
