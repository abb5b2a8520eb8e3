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
