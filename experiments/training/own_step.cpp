// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/own_step.hpp"

#include "model/base/error.hpp"
#include "model/training/recurrence_price.hpp"

namespace onchip {
namespace {

void refuse_what_is_not_built(const AskedTraining& asked) {
  const Recurrent& network = asked.training.network;
  const Stack& stack = asked.training.stack;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  const bool is_gated = network.cell == Cell::lstm || network.cell == Cell::gru;
  if (!is_gated || !is_16_bit || stack.layers * stack.directions() > 1 || asked.stash != Stash::gates) {
    throw InputError(
        "training is built for one layer and direction of LSTM or GRU in fp16 or bf16 with stash=gates, and else not "
        "built yet: with --baselines the libraries are timed");
  }
  if (asked.step && asked.step->phases.front().kind == PhaseKind::library) {
    throw InputError("this step is a library's: --baselines times it");
  }
}

TrainingPlan dense_plan(const Chip& chip, const AskedTraining& asked) {
  const TrainingSize size = size_of(asked.training);
  const auto sms = static_cast<int>(chip.sm_count.value);
  const auto shared_bytes = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  TrainingPlan plan;
  plan.aligned = gains_by_alignment(size);
  if (!asked.step) {
    plan = choose_training_plan(size, chip);
  } else {
    for (const Phase& phase : asked.step->phases) {
      if (const auto* recurrence = std::get_if<RecurrencePlan>(&phase.how)) {
        (phase.kind == PhaseKind::forward ? plan.forward : plan.backward) = *recurrence;
      }
    }
  }
  const auto change = [&](RecurrencePlan& of, const std::string& words, bool is_backward) {
    if (!words.empty()) {
      of = changed(of, words);
      of = words.find("shared_tiles") == std::string::npos ? with_room(size, of, is_backward, sms, shared_bytes) : of;
    }
  };
  change(plan.forward, asked.forward, false);
  change(plan.backward, asked.backward, true);
  return plan;
}

}  // namespace

TrainingProgram own_program(const Chip& chip, const AskedTraining& asked, const std::string& architecture) {
  refuse_what_is_not_built(asked);
  const TrainingSize size = size_of(asked.training);
  const Precision precision = asked.training.network.precision;
  if (!asked.training.mask) {
    return training_program(size, precision, dense_plan(chip, asked), architecture);
  }
  std::string forward, backward;
  if (asked.step) {
    check(asked.training, *asked.step);
    for (const Phase& phase : asked.step->phases) {
      if (const auto* recurrence = std::get_if<SparseTrainingPlan>(&phase.how)) {
        (phase.kind == PhaseKind::forward ? forward : backward) = text(*recurrence) + ' ';
      }
    }
  }
  return sparse_training_program(size, precision,
                                 lay_out_sparse_training(size, precision, *asked.training.mask, chip, architecture,
                                                         forward + asked.forward, backward + asked.backward));
}

OwnStep load_own_step(const Chip& chip, const AskedTraining& asked, const TrainingProgram& program) {
  OwnStep own{.ways = training_ways(program, size_of(asked.training), asked.training.network.precision),
              .plan = plan_text(program)};
  const TrainingPrice of_step =
      price(chip, asked.training,
            with_plans(own_step(chip, asked.training, asked.stash), own.plan.forward, own.plan.backward));
  own.price = {kOwn, "the plans that ran", of_step.us, of_step.low_us, of_step.high_us};
  return own;
}

}  // namespace onchip
