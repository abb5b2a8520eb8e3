// SPDX-License-Identifier: Apache-2.0
// The price of a plan by its text, whatever its family.
#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/plan/blocks_plan_text.hpp"
#include "model/feed_forward/staged/price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {

InferencePrice staged_inference(const Chip& chip, const StagedPlan& plan, std::span<const StagedCounts> counts,
                                const Activity& activity) {
  std::vector<std::int64_t> entering;
  for (std::size_t l = 0; l < counts.size(); ++l) {
    entering.push_back(plan.compaction == Compaction::none ? activity.images : std::llround(activity.alive[l]));
  }
  const Price price = price_staged(chip, plan, counts, entering);
  InferencePrice inference;
  inference.terms = price.terms;
  inference.us = price.terms.total();
  inference.low_us = inference.us - price.below_us;
  inference.high_us = inference.us + price.above_us;
  inference.floor_us = price.floor_us;
  inference.binding = std::ranges::max_element(price.terms, {}, &Term::us)->name;
  return inference;
}

InferencePrice price_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
                          std::string_view plan) {
  OffChipWork& works = *network.off_chip;
  if (plan.starts_with(StagedPlan::kName)) {
    const StagedPlan staged = parse_staged_plan(plan);
    return staged_inference(chip, staged, sampled_counts(network.network, std::span(&staged, 1)).front(), activity);
  }
  if (plan.starts_with(UnstructuredPlan::kName)) {
    const UnstructuredPlan unstructured = read_unstructured_plan(plan, network.layers);
    return price_unstructured(
        chip, network.network,
        works.unstructured.of(std::string(plan), [&] { return unstructured_work(network.network, unstructured); }),
        activity, unstructured);
  }
  if (plan.starts_with(DenseLayer::kName)) {
    const BlocksPlan dense = read_dense_layer_plan(plan, network.layers);
    const BlocksWork& work = dense_layer(network).work;
    check_fits(chip, work.geometry, dense);
    return price_blocks(chip, work, activity, dense);
  }
  if (!network.work) {
    throw InputError("a plan of blocks: " + network.problem);
  }
  if (plan.starts_with(StreamedPlan::kName)) {
    const StreamedPlan streamed = read_streamed_plan(plan, network.layers);
    return price_streamed(chip, streamed_work(network, streamed.chain), activity, streamed);
  }
  const BlocksPlan blocks = read_blocks_plan(plan, network.layers);
  check_fits(chip, network.work->geometry, blocks);
  return price_blocks(chip, *network.work, activity, blocks);
}

}  // namespace onchip
