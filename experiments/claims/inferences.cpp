// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/inferences.hpp"

#include "experiments/feed_forward/asked.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace onchip {
namespace {

constexpr int kImages = 60000;

// No chip changes these: found once.
Kept<std::string, Activity> activities;
Kept<std::pair<std::string, std::string>, std::vector<StagedCounts>> counts;

// Of the first layers; what is alive then stays so, as in all of the challenge's networks.
Activity activity_of_first(const FeedForward& network) {
  constexpr int kComputed = 120;
  FeedForward first = network;
  first.neurons.resize(std::min<std::size_t>(first.neurons.size(), kComputed + 1));
  Activity activity = activity_of(first, {.images = "digits:" + std::to_string(kImages)});
  activity.alive.resize(network.neurons.size(), activity.alive.back());
  return activity;
}

}  // namespace

double claimed_ms(const Chip& chip, const std::string& text, const Way& way) {
  const FeedForward network = read_network(text);
  const StagedPlan plan = parse_staged_plan(way.plan);
  const Activity& activity = activities.of(text, [&] { return activity_of_first(network); });
  const std::vector<StagedCounts>& of_plan =
      counts.of({text, way.plan}, [&] { return sampled_counts(network, std::span(&plan, 1)).front(); });
  try {
    const InferencePrice price = staged_inference(way.chip.empty() ? chip : find_chip(way.chip).chip, plan, of_plan,
                                                  largest_share(activity, way.gpus));
    return 1e-3 * (way.term.empty() ? price.us : price.terms[way.term]);
  } catch (const InputError&) {
    return std::numeric_limits<double>::quiet_NaN();
  }
}

double tera_edges(const std::string& text) {
  const FeedForward network = read_network(text);
  return 1e-12 * kImages * static_cast<double>(network.layer(0).weights.nnz()) * network.layers();
}

}  // namespace onchip
