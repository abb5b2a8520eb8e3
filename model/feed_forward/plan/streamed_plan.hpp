// SPDX-License-Identifier: Apache-2.0
// A feed-forward network in blocks on tensor cores where not even 8 images fit into an SM's shared memory
// (kernels/feed_forward/device/feed_forward_streamed.cu): features pass through L2 in every layer, depth-first. What is
// proven, and how, is as in blocks_plan.hpp.
#pragma once

#include "model/chip/chip.hpp"
#include "model/feed_forward/plan/blocks_plan.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace onchip {

// "streamed groups=8 chain=2 warps=12 sms=22 at_once=2 wide_groups=2 phases=2,4,6,9,120"
struct StreamedPlan {
  using Workload = FeedForward;
  static constexpr std::string_view kName = "streamed";
  static constexpr bool kIsOnChip = false;

  int groups = 8;               // of 8 images, of a tile
  int chain = 2;                // output blocks of an item, which a warp computes one after another
  int warps = 12;               // of a block of threads, one on each SM
  int sms = 22;                 // of a batch group, which take tiles through the layers together
  int at_once = 2;              // tiles of a batch group
  int wide_groups = 2;          // of a tile of two words
  std::vector<int> end_layers;  // of phases: dead images are dropped after them
  friend bool operator==(const StreamedPlan&, const StreamedPlan&) = default;
};
std::span<const Field<StreamedPlan>> fields(const StreamedPlan&);

// Throws InputError for phases that do not end with the network's last layer.
void check(const FeedForward& network, const StreamedPlan& plan);

// Records of an item are `warp_blocks` of BlocksGeometry, items of a layer its `warps`.
BlocksGeometry streamed_geometry(const FeedForward& network, const NetworkStructure& structure, int chain);

}  // namespace onchip
