// SPDX-License-Identifier: Apache-2.0
// What is asked about a feed-forward network, in words: which network and images, and how many of them stay alive.
#pragma once

#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/base/kept.hpp"

#include <compare>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace onchip {

// By default those that everybody's question is about who does not say which: the command's, C's and Python's.
struct ImagesAsked {
  std::string images = "digits:60000";
  double alive = 0;  // a share of them, from the second layer on, and `images` may be their number; 0: it is computed
  int sample = 0;    // for which at most so many of them are taken; 0: what takes a second
  friend auto operator<=>(const ImagesAsked&, const ImagesAsked&) = default;
};
// Throws InputError for images that are not the network's.
Activity activity_of(const FeedForward& network, const ImagesAsked& asked,
                     const std::function<void(double)>& progress = {});

inline constexpr int kMostGpus = 1 << 20;

struct FeedForwardAsked {
  std::string network;
  ImagesAsked images = {};
  int gpus = 1;
};
FeedForwardQuestion question_of(const ChipFile& chip, const FeedForwardAsked& asked);

// Networks and activities, each found once for many questions.
class KnownFeedForward {
 public:
  std::shared_ptr<const ExaminedNetwork> network(const std::string& text);
  std::shared_ptr<const Activity> activity(const std::string& network, const ImagesAsked& images);
  FeedForwardQuestion question(const ChipFile& chip, const FeedForwardAsked& asked);

 private:
  Kept<std::string, std::shared_ptr<const ExaminedNetwork>> networks_;
  Kept<std::pair<std::string, ImagesAsked>, std::shared_ptr<const Activity>> activities_;
};

}  // namespace onchip
