// SPDX-License-Identifier: Apache-2.0
// What the kernels of a plan of blocks read, as feed_forward_blocks.cu and feed_forward_exact.cu lay it out:
//   record [layer][warp][block of the warp][part]: fp16 tiles [tiles][32 lanes][8] as A of mma.m16n8k16; or the same in
//     e4m3, two by two, [tiles / 2][32 lanes][2][8]; or nothing where all weights are one number
//     (BlocksGeometry::weight_bytes); then fp32 biases
//     [8][2] of rows r and r + 8, places of the rows [16], places of the inputs [tiles][16], with their last bit set
//     where they are those of the tile before; of 2 or 4 bytes (BlocksGeometry::place_bytes); if any layer has weights
//     outside of its tiles, how many records they take, of 32 bits. Of the parts of a block the last has what is not of
//     tiles
//   remainder [warp][layer][block of the warp]: records of remainder_records.hpp
//   exact: slices of 32 rows, a layer's last one with fewer; weights as column | fp16 << 16 [longest row / 4][32
//   rows][4],
//     columns ascending, kNoWeight behind a row's last
// Features, biases and clip are multiplied by `scale`, a power of two that keeps residuals normal; weights of tiles and
// of the remainder by BlocksGeometry::weight_factor, by which kernels divide sums.
#pragma once

#include "model/feed_forward/plan/blocks_plan.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace onchip {

// Where the parts of a record begin, in bytes; of the numbers of places there the last bit says that inputs are those
// of the tile before.
struct RecordParts {
  explicit RecordParts(const BlocksGeometry& geometry)
      : place_bytes(geometry.place_bytes),
        biases(static_cast<std::int64_t>(geometry.weights_bytes())),
        destinations(biases + 4 * kBlockRows),
        inputs(destinations + place_bytes * kBlockRows),
        remainder(inputs + geometry.part_tiles() * place_bytes * kBlockColumns) {}
  int place_bytes;
  std::uint32_t same = std::uint32_t{1} << (8 * place_bytes - 1);
  std::int64_t biases, destinations, inputs, remainder;
};

struct BlocksLayout {
  static constexpr float kNoRow = -1e38F;  // bias of a row of no neuron: stays at zero, whatever a bound adds to it

  BlocksGeometry geometry;
  float clip = 0, scale = 1;
  std::vector<std::byte> records;
  std::vector<std::byte> remainder;            // behind the last some more, which a kernel may ask for
  std::vector<std::uint32_t> remainder_begin;  // [layers, warps]: the first record
  std::vector<std::uint16_t> input_neurons;    // [places]: 0xffff where there is none; of places of 2 bytes
  std::vector<std::uint32_t> input_places;     // [neurons of the input]

  static constexpr std::uint32_t kNoWeight = ~std::uint32_t{0};
  struct Exact {
    std::vector<std::uint32_t> weight;
    std::vector<std::uint32_t> slice_begin;  // [slices of all layers + 1], in fours of 32 rows
    std::vector<std::uint32_t> layer_slice;  // [layers + 1]: first slice
    std::vector<float> bias;                 // [slices of all layers, 32]
    std::vector<std::uint32_t> rows;         // [layers]
  } exact;

  // Sums of fp32 in any order lie within 1 +- slack of the exact ones; where fp16 underflows, a sum loses at most
  // `underflow`, scaled.
  float slack = 0, underflow = 0;
  bool monotone = true;  // no weight is negative, no bias wakes an image of zeros: bounds hold, dead images stay dead
  bool keeps_clipped = true;  // an image with all features at the clip, but for 2^-10, stays there in every layer
};

// Why no plan of blocks computes a network whose bounds are not monotone.
inline constexpr std::string_view kNotMonotone =
    "plans of blocks prove which images are alive by bounds, for which no weight may be negative, no bias "
    "positive, and no layer without ReLU";

// Throws InputError for a weight that fp16 cannot hold, with its layer, row and column.
BlocksLayout pack_blocks(const FeedForward& network, const NetworkStructure& structure, const BlocksGeometry& geometry);

// What the record of an output block reads and writes, all its parts; whatever its weights.
struct RecordPlaces {
  static constexpr int kNoBlock = -1;  // rows of no block, or of none

  int block = kNoBlock;                             // of the layer's structure
  std::span<const std::int32_t> rows;               // [16]
  std::vector<std::int32_t> columns;                // [tiles of the block, 16]
  std::vector<std::uint32_t> inputs;                // [tiles, 16]: places
  std::vector<char> same;                           // [tiles]: whether inputs are those of the tile before
  std::array<std::uint32_t, kBlockRows> outputs{};  // places
};
// Of layer l, by their places among the records.
void for_each_record(const NetworkStructure& structure, const BlocksGeometry& geometry, int l,
                     const std::function<void(int place, const RecordPlaces&)>& of);
// What lies outside of the tiles of a block with these rows, without the weights.
std::vector<OutsideWeight> outside_weights(const NetworkStructure& structure, int l,
                                           std::span<const std::int32_t> rows);

// How many records of the remainder belong to the output block of a record.
std::uint32_t remainder_count(const BlocksGeometry& geometry, const std::byte* record);

}  // namespace onchip
