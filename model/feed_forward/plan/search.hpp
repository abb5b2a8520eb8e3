// SPDX-License-Identifier: Apache-2.0
// Which plan of a family a feed-forward network has on a chip: of all that fit, the one of the lowest price. Where dead
// images are dropped, and how large the tiles are, is the shortest way through the layers, from one point at which
// images may be dropped to another, by the price of each phase (Bellman, 1958). Deterministic. A search that finds
// nothing says why, with its numbers.
#pragma once

#include "model/base/found.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/feed_forward/plan/off_chip_price.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <cstdint>
#include <span>

namespace onchip {

// The largest tile of at most so many groups; with two buffers if that costs no images. Nothing if not even 8 images
// fit: "8 images of up to 16384 neurons take 514 KiB of shared memory; a block of h100_sxm has 227 KiB".
Found<BlocksTile> largest_tile(const Chip& chip, const BlocksGeometry& geometry, int groups, int words);

// Nothing where not even 8 images fit.
Found<BlocksPlan> choose_blocks_plan(const Chip& chip, const BlocksWork& work, const Activity& activity);

// As many tiles at once as half of the L2 holds, one at least; batch groups whose warps have as equally many items as
// they may.
StreamedPlan choose_streamed_plan(const Chip& chip, const FeedForward& network, const NetworkStructure& structure);

// Nothing where no tile fits.
Found<UnstructuredPlan> choose_unstructured_plan(const Chip& chip, const FeedForward& network, const Activity& activity,
                                                 ReadOrder order = ReadOrder::ascending);

// Outputs of a block, staged bytes and images, by counts of some layers (sampled_counts).
Found<StagedPlan> choose_staged_plan(const Chip& chip, const FeedForward& network, std::span<const std::int64_t> alive);

}  // namespace onchip
