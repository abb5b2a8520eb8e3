// SPDX-License-Identifier: Apache-2.0
// What feed_forward_staged.cu reads, layer by layer:
//   block        `block_outputs` rows in their natural order, the last one with fewer
//   footprint    the inputs that a block's rows have, ascending, without repetition
//   chunk        so many of the footprint as are staged at once; `map` has their neurons
//   slice        of a chunk and warp: the weights of 32 rows whose inputs are in the chunk, as sliced ELL; entry m of
//                lane t at (slice_begin + m) * 32 + t, `index` the place in the chunk. As long as its longest lane;
//                others are padded with the place behind the chunk, which is zero
// A row's weights keep their order, inputs ascending, so that sums are added in the order of the reference.
//
// Not staged: a block that has weights has one chunk, an index is a neuron, and rows end at their own length.
#pragma once

#include "model/feed_forward/network.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

inline constexpr int kSliceLanes = 32;
inline constexpr int kMostStagedInputs = 1 << 16;  // of a layer

struct StagedLayer {
  int inputs = 0, outputs = 0;
  std::vector<std::uint32_t> block_chunk;  // [blocks + 1]: first chunk
  std::vector<std::uint32_t> chunk_map;    // [chunks + 1]: place in map
  std::vector<std::uint32_t> slice_begin;  // [chunks * warps + 1], in entries of 32 lanes
  std::vector<std::uint16_t> map;          // neurons
  std::vector<std::uint16_t> index;        // [slice rows, 32]
  std::vector<float> value;                // [slice rows, 32]
  std::vector<float> bias;                 // [outputs]
  std::vector<std::uint32_t> row_length;   // [outputs] where it is not staged, else empty
  bool is_linear = false;

  int blocks() const { return static_cast<int>(block_chunk.size()) - 1; }
  std::int64_t chunks() const { return static_cast<std::int64_t>(chunk_map.size()) - 1; }
  std::int64_t slice_rows() const { return static_cast<std::int64_t>(slice_begin.back()); }
};

// Throws InputError where 16 bits cannot name the inputs: more than 65536 of them.
StagedLayer stage(const SparseLayer& layer, const StagedPlan& plan);

struct StagedLayout {
  StagedPlan plan;
  float clip = kNoClip;
  std::vector<StagedLayer> layers;
  // Images are dropped after layer l of [0, layers) from here on: no later layer gives an image of zeros a feature.
  int first_drop = 0;
};

// Throws InputError as check() and stage() do, with the layer, and for weights that the plan's type cannot hold.
StagedLayout stage_network(const FeedForward& network, const StagedPlan& plan);

}  // namespace onchip
