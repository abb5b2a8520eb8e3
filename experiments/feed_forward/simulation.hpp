// SPDX-License-Identifier: Apache-2.0
// simulate --network: a tile of images on an SM through a sparse feed-forward network, layer by layer, by the plan that
// predict prices unless --plan has another.
#pragma once

#include "experiments/command/options.hpp"
#include "model/answer/feed_forward/feed_forward.hpp"

namespace onchip {

// The plan that is replayed: of blocks, of the network or of whole layers. Throws InputError where the plan is another
// or none.
FeedForwardPlan replayed_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& images,
                              const InferenceConstraints& constraints = {});

// Options --network, --plan and --images (as read_images() takes it; none: one tile of images on each SM).
int simulate_feed_forward(const Options& options, const Chip& chip, int threads);

}  // namespace onchip
