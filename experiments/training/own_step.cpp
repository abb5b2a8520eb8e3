// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/own_step.hpp"

#include "kernels/api/confirmed_plan.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

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

OwnStep time_own_step(const Chip& chip, const AskedTraining& asked, const OwnProgram& made, int repeats) {
  OwnStep own;
  own.plan = made.program.plan;
  own.refused = made.refused;
  own.timing = time_training(made.program, size_of(asked.training), asked.training.network.precision, repeats);
  const TrainingTiming& timing = own.timing;
  own.result.name = kOwn;
  own.result.ran = true;
  own.result.step_us = timing.graph;
  own.result.settings = "forward and all gradients, CUDA graph";
  own.result.note = "forward " + fixed(timing.forward.median, 2) + ", backward " + fixed(timing.backward.median, 2) +
                    ", products " + fixed(timing.products.median, 2) + ", other " + fixed(timing.other.median, 2) +
                    (timing.spill_bytes > 0 ? ", spills " + std::to_string(timing.spill_bytes) + " B" : "") + "; " +
                    to_string(own.plan) + (own.refused ? "; the compiler spills " + to_string(*own.refused) : "");
  own.price = predict(chip, asked.training, own.plan).iteration;
  return own;
}

}  // namespace onchip
