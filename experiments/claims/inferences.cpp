// SPDX-License-Identifier: Apache-2.0
#include "experiments/claims/inferences.hpp"

#include "model/answer/feed_forward/asked.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <variant>

namespace onchip {
namespace {

constexpr int kImages = 60000;

// No chip changes these: found once.
Kept<std::string, FeedForward> networks;
Kept<std::string, Activity> activities;
Kept<std::pair<std::string, std::string>, std::vector<StagedCounts>> counts;

// The challenge's networks of one width begin alike, however many layers they have (radix_net.hpp): the text of the one
// with the layers that are computed.
std::string with_first_layers(const std::string& text, const FeedForward& network) {
  constexpr int kComputed = 120;
  const std::string of_width = "spdnn:" + std::to_string(network.neurons.front()) + "x";
  const bool is_longer = text == of_width + std::to_string(network.layers()) && network.layers() > kComputed;
  return is_longer ? of_width + std::to_string(kComputed) : text;
}

// What is alive after the layers that are computed stays so, as in all of the challenge's networks.
Activity activity_of_first(const std::string& text, const FeedForward& network) {
  const std::string first = with_first_layers(text, network);
  Activity activity = activities.of(
      first, [&] { return activity_of(read_network(first), {.images = "digits:" + std::to_string(kImages)}); });
  activity.alive.resize(network.neurons.size(), activity.alive.back());
  return activity;
}

}  // namespace

double claimed_ms(const Chip& chip, const std::string& text, const RecipeWay& way) {
  const FeedForward& network = networks.of(text, [&] { return read_network(text); });
  const StagedPlan plan = std::get<StagedPlan>(parse_feed_forward_plan(way.plan));
  const Activity activity = activity_of_first(text, network);
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
  const FeedForward& network = networks.of(text, [&] { return read_network(text); });
  return 1e-12 * kImages * static_cast<double>(network.layer(0).weights.nnz()) * network.layers();
}

}  // namespace onchip
