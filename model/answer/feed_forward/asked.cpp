// SPDX-License-Identifier: Apache-2.0
#include "model/answer/feed_forward/asked.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace onchip {

Activity activity_of(const FeedForward& network, const ImagesAsked& asked,
                     const std::function<void(double)>& progress) {
  const int pixels = network.neurons.front();
  if (asked.alive > 0) {
    const bool is_number = std::ranges::all_of(asked.images, ::isdigit);
    return given_activity(network, sample_images(is_number ? "digits:" + asked.images : asked.images, pixels, 1).of,
                          asked.alive);
  }
  return find_activity(network,
                       sample_images(asked.images, pixels, asked.sample > 0 ? asked.sample : default_sample(network)),
                       progress);
}

const ExaminedNetwork& KnownFeedForward::network(const std::string& text) {
  return networks_.of(text, [&] { return examine(read_network(text)); });
}

const Activity& KnownFeedForward::activity(const std::string& network, const ImagesAsked& images) {
  return activities_.of({network, images}, [&] { return activity_of(read_network(network), images); });
}

FeedForwardAnswer KnownFeedForward::answer(const ChipFile& chip, const FeedForwardAsked& asked) {
  return onchip::answer(chip, network(asked.network), activity(asked.network, asked.images), asked.gpus);
}

}  // namespace onchip
