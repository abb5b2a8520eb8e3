// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/own_step.hpp"

#include "model/base/error.hpp"
#include "model/base/units.hpp"

namespace onchip {
namespace {

// Plans of kernels/training as those that are priced, and back. Their SMs have 16 units each.
DensePlan dense_plan(const RecurrencePlan& plan, const RecurrenceShape& shape) {
  DensePlan dense;
  dense.sms = shape.sms;
  dense.threads = shape.threads;
  dense.loads_in_flight = plan.loads_in_flight;
  dense.poll_delay = plan.poll_delay;
  dense.shared_tiles = plan.shared_tiles;
  dense.batch_groups = plan.batch_groups;
  dense.split = plan.split;
  return dense;
}

RecurrencePlan kernel_plan(const TrainingSize& size, const Phase& phase) {
  const auto& dense = std::get<DensePlan>(std::get<Plan>(phase.how));
  RecurrencePlan plan;
  plan.batch_groups = dense.batch_groups;
  plan.turns = phase.turns;
  plan.warps = dense.warps();
  plan.split = dense.split;
  plan.shared_tiles = dense.shared_tiles;
  plan.loads_in_flight = dense.loads_in_flight;
  plan.poll_delay = dense.poll_delay;
  const int sms = recurrence_shape(size, plan, phase.kind == PhaseKind::backward).sms;
  if (dense.sms != sms) {
    throw InputError("kernels for training have " + std::to_string(RecurrenceShape::kUnits) +
                     " units on each SM: expected sms=" + std::to_string(sms) + ", found " + std::to_string(dense.sms));
  }
  return plan;
}

}  // namespace

TrainingSize size_of(const Training& training) {
  const Recurrent& network = training.network;
  return {training.stack.columns(network, 0), network.hidden, network.batch, network.steps};
}

TrainingPlan own_plan(const Chip& chip, const AskedTraining& asked) {
  const Recurrent& network = asked.training.network;
  const Stack& stack = asked.training.stack;
  const bool is_16_bit = network.precision == Precision::fp16 || network.precision == Precision::bf16;
  if (network.cell != Cell::lstm || !is_16_bit || stack.layers * stack.directions() > 1 ||
      asked.stash != Stash::gates) {
    throw InputError(
        "training is built for one layer and direction of LSTM in fp16 or bf16 with stash=gates, and else not built "
        "yet: with --baselines the libraries are timed");
  }
  const TrainingSize size = size_of(asked.training);
  const auto sms = static_cast<int>(chip.sm_count.value);
  const auto shared_bytes = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  TrainingPlan plan;
  if (!asked.step) {
    plan = choose_training_plan(size, sms, shared_bytes);
  } else {
    if (asked.step->phases.front().kind == PhaseKind::library) {
      throw InputError("this step is a library's: --baselines times it");
    }
    for (const Phase& phase : asked.step->phases) {
      if (phase.kind == PhaseKind::forward || phase.kind == PhaseKind::backward) {
        (phase.kind == PhaseKind::forward ? plan.forward : plan.backward) = kernel_plan(size, phase);
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

OwnStep time_own_step(const Chip& chip, const AskedTraining& asked, const TrainingAnswer& predicted, int repeats) {
  const TrainingSize size = size_of(asked.training);
  OwnStep own;
  own.timing = time_training(size, asked.training.network.precision, own_plan(chip, asked), repeats);
  const TrainingTiming& timing = own.timing;
  own.result.name = kOwn;
  own.result.ran = true;
  own.result.step_us = timing.graph;
  own.result.settings = "forward and all gradients, CUDA graph";
  own.result.note = "forward " + fixed(timing.forward.median, 2) + ", backward " + fixed(timing.backward.median, 2) +
                    ", products " + fixed(timing.products.median, 2) + ", other " + fixed(timing.other.median, 2) +
                    (timing.spill_bytes > 0 ? ", spills " + std::to_string(timing.spill_bytes) + " B" : "") +
                    "; forward: " + text(timing.plan.forward) + "; backward: " + text(timing.plan.backward);
  TrainingStep step = predicted.step;
  for (Phase& phase : step.phases) {
    const bool is_backward = phase.kind == PhaseKind::backward;
    if (is_backward || phase.kind == PhaseKind::forward) {
      const RecurrencePlan& ran = is_backward ? timing.plan.backward : timing.plan.forward;
      phase.how = Plan(dense_plan(ran, recurrence_shape(size, ran, is_backward)));
      phase.turns = ran.turns;
    }
  }
  try {
    check(asked.training, step);
    const TrainingPrice of_step = price(chip, asked.training, step);
    own.price = {kOwn, "the plans that ran", of_step.us, of_step.low_us, of_step.high_us};
  } catch (const InputError&) {  // samples that no batch groups share evenly have no price
  }
  return own;
}

}  // namespace onchip
