// SPDX-License-Identifier: Apache-2.0
// A feed-forward network on tensor cores, layer after layer without leaving the SM: a tile of images keeps all its
// features in shared memory, and each warp multiplies its output blocks of every layer, whose weights come from L2
// (kernels/feed_forward/device/feed_forward_blocks.cu).
//
// Which images are alive at the end is proven. With no negative weights every layer is monotone, so that
//   1. all images go through the network in one fp16 word, rounded up: what dies is dead (`phases`)
//   2. the images alive after the phase before the last go through it rounded down: what lives is alive (`lower`)
//   3. the few that are undecided go through it in two words, both ways (`wide`)
//   4. what is undecided still is computed in fp32, in the order of the reference
#pragma once

#include "model/chip/chip.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/plan/blocks_constants.hpp"
#include "model/feed_forward/structure/structure.hpp"
#include "model/plan/field.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct BlocksTile {
  int groups = 2;         // of 8 images, of a block of threads
  int words = 1;          // fp16 words of a feature: value, or value and residual (22 bits)
  bool in_place = false;  // outputs replace the inputs; else there are two buffers

  int images() const { return 8 * groups; }
  friend bool operator==(const BlocksTile&, const BlocksTile&) = default;
};

struct BlocksPhase {
  int end_layer = 0;  // dead images are dropped after it
  BlocksTile tile;
  friend bool operator==(const BlocksPhase&, const BlocksPhase&) = default;
};

// "4x1", "2x2!": groups x words, ! in place.
std::string text(const BlocksTile& tile);

// "blocks warps=16 phases=3:4x1,5:4x1,120:2x1 lower=2x1 wide=2x2!": the last layer of each phase, and tiles.
struct BlocksPlan {
  using Workload = FeedForward;
  static constexpr std::string_view kName = "blocks";
  static constexpr bool kIsOnChip = true;  // features stay on the SM

  int warps = 16;  // of a block of threads, one on each SM
  std::vector<BlocksPhase> phases;
  BlocksTile lower, wide;
  int weight_bytes = 2;  // of a weight (BlocksGeometry)
  friend bool operator==(const BlocksPlan&, const BlocksPlan&) = default;
};
std::span<const Field<BlocksPlan>> fields(const BlocksPlan&);

// The same of blocks that are whole layers (dense_layer/dense_layer.hpp).
struct DenseLayerPlan : BlocksPlan {
  static constexpr std::string_view kName = "dense_layer";
  friend bool operator==(const DenseLayerPlan&, const DenseLayerPlan&) = default;
};
std::span<const Field<DenseLayerPlan>> fields(const DenseLayerPlan&);

// Throws InputError for phases that do not end with the network's last layer, or are of different words.
void check(const FeedForward& network, const BlocksPlan& plan);

// "one value", "coded values", "fp16 values": what is read of weights that have so many bytes.
std::string_view weight_class(int weight_bytes);

// Sizes of the records that a warp reads, the same for all layers.
struct BlocksGeometry {
  int layers = 0, inputs = 0;  // inputs: neurons of the first layer
  int warps = 0;
  int warp_blocks = 0;     // output blocks of a warp, in each layer
  int tiles = 0;           // weight tiles of 16 x 16 of an output block, all its parts
  int parts = 1;           // records of an output block, each with as many of its tiles
  int places = 0;          // of 16 bytes, of the widest layer, and some that nobody reads
  int place_bytes = 2;     // of a place's number in a record
  bool holes = false;      // some layer has fewer neurons than there are places, or rows of blocks
  bool remainder = false;  // some layer has weights outside of blocks
  // Of a weight in a record: 2 of fp16; 1 of e4m3, where that holds all weights times `weight_factor`, a power of two;
  // 0 where each element of all blocks is `one_weight`, and no weight outside of them. Then what is no element is
  // multiplied by a place of zeros, and records come by copies to shared memory.
  int weight_bytes = 2;
  float weight_factor = 1;
  std::uint16_t one_weight = 0;  // fp16

  int part_tiles() const { return tiles / parts; }
  // Of 16 bytes, with which a lane reads the weights of a record: a tile in fp16, or two in e4m3.
  int lane_vectors() const { return (part_tiles() * weight_bytes + 1) / 2; }
  int records() const { return warp_blocks * parts; }  // of a warp, in each layer
  // Records ahead of their use divide this, so that registers belong to the same ones again and again.
  int ahead_divides() const { return parts > 1 ? parts : warp_blocks; }
  int most_ahead() const;                                                          // 4 at most
  std::size_t weights_bytes() const { return std::size_t{512} * lane_vectors(); }  // of a record
  std::size_t record_bytes() const;  // weights, biases, destinations, inputs, remainder
  std::size_t layer_bytes() const { return record_bytes() * records() * warps; }
  std::size_t shared_bytes(const BlocksTile& tile) const;
  // 32-bit words of an image's features in device memory, between phases.
  std::int64_t feature_words(const BlocksTile& tile) const {
    return std::int64_t{places - kFreePlaces} * tile.words / 2;
  }
};

inline constexpr std::string_view kNeedsClip = "plans of blocks need a clip: features without one may grow beyond fp16";

// Throws InputError with the reason where this family cannot run the network: no clip. Of the output blocks of a layer
// each warp takes the same number, `warp_blocks` if that is not 0; else there are so many `warps`, and blocks of many
// tiles come in parts. Weights have so many bytes, or, without a number, as few as hold each of them.
BlocksGeometry blocks_geometry(const FeedForward& network, const NetworkStructure& structure, int warps = 16,
                               int warp_blocks = 0, std::optional<int> weight_bytes = 2);

// Why a tile does not fit into a block's shared memory, "" if all do.
std::string why_not_fitting(const Chip& chip, const BlocksGeometry& geometry, const BlocksPlan& plan);

}  // namespace onchip
