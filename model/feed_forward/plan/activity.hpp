// SPDX-License-Identifier: Apache-2.0
// Which images are alive before each layer: what a price of an inference needs of the images. From the reference
// (reference.hpp), on all images or on a sample that stands for all, or given by hand.
#pragma once

#include "model/feed_forward/files/network_text.hpp"

#include <functional>
#include <vector>

namespace onchip {

struct Activity {
  int images = 0;
  std::vector<double>
      alive;  // [layers + 1]: all images, those with a feature before each other layer, and after the last
  // After so many layers all features of those that survive are at the clip; the number of layers where they never are.
  int settled = 0;
  int sampled = 0;         // images that were computed; 0: given by hand
  bool are_binary = true;  // images of 0 and 1; else a plan has to take other values, too

  double image_layers() const;  // images that enter a layer, over all layers
};

// As many images as take about a second or less: those of 2^25 inputs, at least 1000.
int default_sample(const FeedForward& network);

// progress: from 0 to 1. Throws InputError for images that are not the network's, and for none.
Activity find_activity(const FeedForward& network, const ImageSample& images,
                       const std::function<void(double)>& progress = {});

// With as many more images alive, or fewer (direction -1), as 95 % of samples of this size are off at most.
Activity at_end_of_interval(Activity activity, double direction);

// Of the GPU with most work of so many that share the images at random: what is alive is more than its part by what
// chance gives the largest of them, sqrt(2 ln(gpus) part).
Activity largest_share(Activity activity, int gpus);

// A share of the images is alive from the second layer on, and is never at the clip. Throws InputError unless it is of
// [0, 1].
Activity given_activity(const FeedForward& network, int images, double share);

// Layers before which some images are dropped: those with the most dead since the layer before, 32 at most.
std::vector<int> drop_points(const Activity& activity);

}  // namespace onchip
