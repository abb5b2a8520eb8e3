// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/own_step.hpp"

#include "kernels/api/confirmed_plan.hpp"
#include "model/base/error.hpp"

namespace onchip {
namespace {

void refuse_what_is_not_built(const AskedTraining& asked) {
  const Recurrent& network = asked.training.network;
  const Stack& stack = asked.training.stack;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  const bool is_gated = network.cell == Cell::lstm || network.cell == Cell::gru;
  if (!is_gated || !is_16_bit || stack.layers * stack.directions() > 1 || asked.constraints.stash != Stash::gates) {
    throw InputError(
        "training is built for one layer and direction of LSTM or GRU in fp16 or bf16 with stash=gates, and else not "
        "built yet: with --baselines the libraries are timed");
  }
  if (asked.constraints.plan && !is_on_chip(*asked.constraints.plan)) {
    throw InputError("this plan is a library's: --baselines times it");
  }
}

}  // namespace

OwnProgram own_program(const Chip& chip, const AskedTraining& asked, const std::string& architecture) {
  refuse_what_is_not_built(asked);
  const Training& training = asked.training;
  const TrainingSize size = size_of(training);
  const Precision precision = training.network.precision;
  const SparseMatrix* const mask = training.mask.get();
  const TrainingPlan chosen = plan_training_on_chip(chip, training, asked.constraints).value_or_throw().plan;
  const Confirmed<TrainingPlan> plan = confirmed_plan(chip, size, precision, mask, chosen, architecture);
  return {training_program(size, precision, plan.chosen, mask, chip, architecture), plan.refused};
}

OwnStep load_own_step(const Chip& chip, const AskedTraining& asked, const OwnProgram& made) {
  return {.ways = training_ways(made.program, size_of(asked.training), asked.training.network.precision),
          .plan = made.program.plan,
          .refused = made.refused,
          .price = predict(chip, asked.training, made.program.plan).iteration};
}

}  // namespace onchip
