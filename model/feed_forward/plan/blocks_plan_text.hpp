// SPDX-License-Identifier: Apache-2.0
// Plans of feed-forward networks from the text that text() makes of them.
#pragma once

#include "model/feed_forward/plan/blocks_plan.hpp"
#include "model/feed_forward/plan/streamed_plan.hpp"
#include "model/feed_forward/plan/unstructured_plan.hpp"

#include <string_view>

namespace onchip {

// For a network of so many layers. Throws InputError for what is no plan of it: an unknown, missing or double key, a
// tile of no images or more than 64, phases that do not ascend to the last layer, or phases of different words.
BlocksPlan read_blocks_plan(std::string_view text, int layers);
StreamedPlan read_streamed_plan(std::string_view text, int layers);
UnstructuredPlan read_unstructured_plan(std::string_view text, int layers);

// Throws InputError if a tile does not fit into a block's shared memory.
void check_fits(const Chip& chip, const BlocksGeometry& geometry, const BlocksPlan& plan);
void check_fits(const Chip& chip, const FeedForward& network, const UnstructuredPlan& plan);

}  // namespace onchip
