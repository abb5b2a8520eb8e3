// SPDX-License-Identifier: Apache-2.0
// simulate --network: a tile of images on an SM through a sparse feed-forward network, layer by layer, by a plan of
// blocks, the planner's unless --plan has another.
#pragma once

#include "experiments/command/options.hpp"

namespace onchip {

// Options --network, --plan and --images (as read_images() takes it; none: one tile of images on each SM).
int simulate_feed_forward(const Options& options, const Chip& chip, const SimulationOptions& simulation);

}  // namespace onchip
