// SPDX-License-Identifier: Apache-2.0
// simulate --network: what a tile of images on an SM asks of shared memory and L2, layer by layer, in a sparse
// feed-forward network by a plan of blocks, the planner's unless --plan has another.
#pragma once

#include "experiments/command/options.hpp"

namespace onchip {

// Options --network, --plan and --images (as read_images() takes it; none: one tile of images on each SM).
int simulate_feed_forward(const Options& options, const Chip& chip, int threads);

}  // namespace onchip
