// SPDX-License-Identifier: Apache-2.0
#include "model/answer/whole_network.hpp"

#include "model/base/error.hpp"
#include "model/library/price.hpp"
#include "model/training/planner.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace onchip {
namespace {

// The recurrences of trainings read and write where the caller has its sequences: weights are packed, and a ring
// emptied.
SequencePart pipelined_launch(const Chip& chip, const Recurrent& network) {
  const double weights = double{1} * network.rows() * network.hidden * info(network.precision).bytes;
  const double us = 1e6 * (2 * chip.library_node_seconds + 2 * weights / chip.library_l2_bytes_per_second);
  return {.name = "launch", .us = us, .low_us = us, .high_us = us};
}

// Fitted to sequence_us - steps * step_us, of which 95 % of 1349 rows of h100_sxm lie between these shares.
SequencePart launch(const Chip& chip, const Recurrent& network) {
  constexpr double kLowShare = 0.6, kHighShare = 2;
  const CostValues& cost = chip.cost;
  const double output =
      double{1} * network.steps * network.batch * network.hidden * info(state_type(network.precision)).bytes;
  const double input = info(network.cell).gates * output;
  const double ordered = cost[Cost::sequence_input_order] * input + cost[Cost::sequence_output_order] * output;
  const double us = cost[Cost::sequence_launch] + 1e6 * ordered / chip.library_l2_bytes_per_second;
  return {.name = "launch", .us = us, .low_us = kLowShare * us, .high_us = kHighShare * us};
}

}  // namespace

std::string describe(const Stack& stack, const Recurrent& network) {
  return std::to_string(stack.layers) + (stack.layers == 1 ? " layer" : " layers") +
         (stack.bidirectional ? ", both directions" : "") + ", input of " + std::to_string(stack.columns(network, 0)) +
         ", " + std::to_string(network.steps) + " steps";
}

std::vector<SequencePart> sequence_parts(const Chip& chip, const Recurrent& network, const Prediction& step,
                                         const Stack& stack, bool is_pipelined) {
  const SequencePart recurrence{.name = "recurrence",
                                .us = step.step_us * network.steps,
                                .low_us = step.low_us * network.steps,
                                .high_us = step.high_us * network.steps};
  std::vector<SequencePart> parts;
  for (int layer = 0; layer < stack.layers; ++layer) {
    const Price price = input_product_price(chip, network, stack.columns(network, layer));
    const double us = price.terms.total();
    const SequencePart product{
        .name = kInputProduct, .us = us, .low_us = us - price.below_us, .high_us = us + price.above_us};
    for (int direction = 0; direction < stack.directions(); ++direction) {
      for (SequencePart part :
           {product, is_pipelined ? pipelined_launch(chip, network) : launch(chip, network), recurrence}) {
        part.layer = layer;
        part.backward = direction == 1;
        parts.push_back(part);
      }
    }
  }
  return parts;
}

namespace {

Found<PlannedStack> all_at_once(const Chip& chip, const Recurrent& network, const Stack& stack) {
  const Training whole{network, stack};
  if (std::string lacks = what_lacks_stack(chip, whole); !lacks.empty()) {
    return Found<PlannedStack>::nothing(std::move(lacks));
  }
  if (stack.layers > kMostLayersAtOnce) {
    return Found<PlannedStack>::nothing("at most " + std::to_string(kMostLayersAtOnce) +
                                        " layers are on the SMs at once");
  }
  const auto ranked = rank_recurrences(chip, size_of(whole), false, 1, 1, stack.layers);
  if (!ranked) {
    return Found<PlannedStack>::nothing(ranked.why());
  }
  const DenseTrainingPlan plan{.stash = Stash::none, .forward = ranked->front(), .backward = {}};
  return PlannedStack{plan, onchip::predict(chip, whole, plan).iteration};
}

}  // namespace

StackFit fit(const RecurrentQuestion& question, const Stack& stack) {
  const Chip& chip = question.chip.chip;
  StackFit answer{.chip = chip.name, .network = question.configuration.network, .stack = stack};
  if (answer.network.hidden > 0) {
    answer.planned = all_at_once(chip, answer.network, stack);
    return answer;
  }
  const auto of = [&](int granules) {
    Recurrent network = answer.network;
    network.hidden = granules * question.granule;
    return all_at_once(chip, network, stack);
  };
  int fitting = 0, beyond = 1;
  while (beyond * question.granule <= kMaxHidden && of(beyond)) {
    fitting = beyond;
    beyond *= 2;
  }
  while (beyond - fitting > 1) {
    const int middle = fitting + (beyond - fitting) / 2;
    (of(middle) ? fitting : beyond) = middle;
  }
  answer.network.hidden = std::max(1, fitting) * question.granule;
  answer.planned = of(std::max(1, fitting));
  answer.next_hidden = fitting > 0 ? beyond * question.granule : 0;
  answer.why_not_next = fitting > 0 ? of(beyond).why() : "";
  return answer;
}

WholeNetworkAnswer predict(const RecurrentQuestion& question, const Stack& stack) {
  WholeNetworkAnswer answer{predict(question), stack, {}, {.name = "total"}};
  const PlannedNetwork& planned = answer.of_layer.answer.planned;
  if (!is_on_chip(planned.plan)) {
    throw InputError("a whole network takes a plan of a kernel, not " + std::string(family_name(planned.plan)));
  }
  if (planned.prediction.footprint.fits) {
    answer.parts = sequence_parts(question.chip.chip, planned.network, planned.prediction, stack,
                                  std::holds_alternative<RecurrencePlan>(planned.plan));
  }
  const Training whole{planned.network, stack};
  const Found<TrainingPlan> dense = choose_on_chip(question.chip.chip, whole, Stash::none);
  answer.dense = !dense ? Found<PlannedStack>::nothing(dense.why())
                        : PlannedStack{std::get<DenseTrainingPlan>(*dense),
                                       onchip::predict(question.chip.chip, whole, *dense).iteration};
  for (const SequencePart& part : answer.parts) {
    answer.total.us += part.us;
    answer.total.low_us += part.low_us;
    answer.total.high_us += part.high_us;
  }
  return answer;
}

}  // namespace onchip
