// SPDX-License-Identifier: Apache-2.0
// One layer of the reference for a tile of images.
#pragma once

#include "model/feed_forward/network.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

inline constexpr int kTileImages = 32;

// A layer, and runs of its rows that read the same inputs and so are computed together.
struct ReferenceLayerRuns {
  struct Run {
    std::int32_t first, rows;  // in `order`
  };
  SparseLayer layer;
  std::vector<std::int32_t> order;
  std::vector<Run> runs;
};
ReferenceLayerRuns prepare(SparseLayer layer);

// Images of a tile, as bits.
struct TileImages {
  std::uint32_t alive = 0;       // that have a feature that is not zero
  std::uint32_t below_clip = 0;  // that have one that is not at the clip
};
// features: [inputs, kTileImages] to [outputs, kTileImages].
TileImages compute_tile(const ReferenceLayerRuns& runs, float clip, const float* features, float* results);

// Whether an image with all features at the clip has all of them there after the layer, computed as a tile is.
bool keeps_at_clip(const SparseLayer& layer, float clip);

}  // namespace onchip
