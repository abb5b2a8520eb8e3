// SPDX-License-Identifier: Apache-2.0
// How long an inference by a plan of blocks takes, in terms that sum to it. All warps of a block of threads do the same
// between two barriers, so that those of a partition queue for its scheduler and tensor cores, and wait for the
// same latencies together. A layer of a tile of images takes that, or longer where a pipe of the whole SM does:
//
//   products       instructions and tensor cores, of all warps of a partition
//   latency        ldmatrix, product after product, epilogue; L2, each time that a warp waits for weights it just asked
//                  for, of which all SMs read the same lines
//   shared_memory  what the counted wavefronts of ldmatrix and stmatrix take beyond
//   l2             what the layer's records take beyond, from L2 to each SM, and registers that spill
//   barriers
//   images         bitmaps that become features; features from device memory
//   survivors      who is alive; their features to device memory
//   launches       nodes of the graph that follow each other
//
// Times of SMs are of their clock while tensor cores multiply. A phase takes as long as the SM with the most tiles.
// Floors: the products and the shared-memory bytes of alive image-layers, each feature read and written once, over all
// SMs at full clock.
#pragma once

#include "model/feed_forward/inference_price.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/plan/blocks_plan.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// What a network asks of its blocks, for any tile.
struct BlocksWork {
  BlocksGeometry geometry;
  // By layer, of 8 images and one word of their features:
  std::vector<std::int64_t> read_tiles;  // weight tiles whose inputs are read: not those of the tile before
  std::vector<std::int64_t> wavefronts;  // of reads and writes, with their bank conflicts
  std::vector<std::int64_t> remainder;   // records of weights outside of tiles
  std::vector<std::int64_t> neurons;     // [layers + 1]
  std::int64_t block_elements = 0;       // of all layers
  bool monotone = true;                  // see BlocksLayout

  double weight_bytes(int layer) const;
  double weight_bytes() const;  // of all layers
};
// Counts layer by layer. Throws InputError for a weight that fp16 cannot hold.
BlocksWork blocks_work(const FeedForward& network, const NetworkStructure& structure, const BlocksGeometry& geometry);

// Wavefronts of one tile of images in one layer: ldmatrix, stmatrix.
std::int64_t wavefronts(const BlocksWork& work, const BlocksTile& tile, int layer);

// Output blocks whose weights a warp has in registers or on their way: the most that registers hold.
int weights_ahead(const Chip& chip, const BlocksGeometry& geometry, const BlocksTile& tile);

// What repeated prices of one network's tiles share.
class BlocksPricer {
 public:
  BlocksPricer(const Chip& chip, const BlocksWork& work, const Activity& activity);

  // Of layers [first, end).
  LaunchPrice phase(const BlocksTile& tile, int first, int end) const;
  // Bounds of so many images on so many SMs, through all layers until they settle, so many at once.
  LaunchPrice bounds(const BlocksTile& tile, double images, double sms, int at_once = 1) const;
  // Both bounds of two words of the images that die in the last phase, which begins with layer `first`, or of a tile at
  // least: on the SMs that are free beside it, or after it.
  LaunchPrice undecided(const BlocksTile& wide, int first, const LaunchPrice& last) const;
  // What it takes beyond the last phase.
  double beyond(const LaunchPrice& undecided, const LaunchPrice& last) const;
  InferencePrice price(const BlocksPlan& plan) const;

 private:
  struct OfTile {
    BlocksTile tile;
    std::vector<Terms> until;  // [layers + 1]: of one tile's layers before
  };
  const OfTile& of(const BlocksTile& tile) const;
  Terms tile_terms(const BlocksTile& tile, int first, int end, double survivors) const;

  const Chip& chip_;
  const BlocksWork& work_;
  const Activity& activity_;
  mutable std::vector<OfTile> tiles_;
};

// With its interval: what overlaps inside an SM, how fast L2 answers all SMs at once, and how many images are alive
// where that is from a sample.
InferencePrice price_blocks(const Chip& chip, const BlocksWork& work, const Activity& activity, const BlocksPlan& plan);

}  // namespace onchip
