// SPDX-License-Identifier: Apache-2.0
#include "model/answer/feed_forward/asked.hpp"

#include <algorithm>
#include <cctype>

namespace onchip {

Activity activity_of(const FeedForward& network, const ImagesAsked& asked,
                     const std::function<void(double)>& progress) {
  const int pixels = network.neurons.front();
  if (asked.alive > 0) {
    const bool is_number = std::ranges::all_of(asked.images, ::isdigit);
    const ImageSample images = sample_images(is_number ? "digits:" + asked.images : asked.images, pixels, 1);
    Activity activity = given_activity(network, images.of, asked.alive);
    activity.are_binary = images.is_binary;
    return activity;
  }
  return find_activity(network,
                       sample_images(asked.images, pixels, asked.sample > 0 ? asked.sample : default_sample(network)),
                       progress);
}

std::shared_ptr<const ExaminedNetwork> KnownFeedForward::network(const std::string& text) {
  return networks_.of(text, [&] { return std::make_shared<const ExaminedNetwork>(examine(read_network(text))); });
}

std::shared_ptr<const Activity> KnownFeedForward::activity(const std::string& network, const ImagesAsked& images) {
  return activities_.of({network, images},
                        [&] { return std::make_shared<const Activity>(activity_of(read_network(network), images)); });
}

FeedForwardQuestion KnownFeedForward::question(const ChipFile& chip, const FeedForwardAsked& asked) {
  return {chip, network(asked.network), activity(asked.network, asked.images), asked.gpus};
}

FeedForwardQuestion question_of(const ChipFile& chip, const FeedForwardAsked& asked) {
  return KnownFeedForward().question(chip, asked);
}

}  // namespace onchip
