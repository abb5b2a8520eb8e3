// SPDX-License-Identifier: Apache-2.0
// A feed-forward network of any pattern in fp32: a tile of images keeps all its features in shared memory, layer after
// layer; lanes read the inputs of their rows one by one (kernels/feed_forward/device/feed_forward_unstructured.cu). In
// ascending order every feature is that of the reference (model/feed_forward/reference.hpp), bit by bit.
#pragma once

#include "model/chip/chip.hpp"
#include "model/feed_forward/network.hpp"
#include "model/feed_forward/structure/read_steps.hpp"
#include "model/plan/field.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct UnstructuredTile {
  int images = 16;       // a power of two of at most 32, of a block of threads
  bool in_place = true;  // outputs wait in registers and replace the inputs; else there are two buffers
  int copies = 0;        // neurons that have a second place (PlaceCopies), a multiple of rows_per_access()

  // Eight images at most, so that several lanes share a row.
  int lane_images() const { return images < 8 ? images : 8; }
  int lanes_per_row() const { return images / lane_images(); }
  int rows_per_warp() const { return 32 / lanes_per_row(); }
  int rows_per_access() const { return 32 / images; }  // that one wavefront of 128 bytes serves
  friend bool operator==(const UnstructuredTile&, const UnstructuredTile&) = default;
};

struct UnstructuredPhase {
  int end_layer = 0;  // dead images are dropped after it
  UnstructuredTile tile;
  friend bool operator==(const UnstructuredPhase&, const UnstructuredPhase&) = default;
};

// "unstructured ascending warps=16 phases=3:32!,120:16!+1024": the last layer of each phase, images, ! in place, copies
struct UnstructuredPlan {
  using Workload = FeedForward;
  static constexpr std::string_view kName = "unstructured";
  static constexpr bool kIsOnChip = true;     // features stay on the SM
  static constexpr bool kTakesValues = true;  // of images, other than 0 and 1

  int warps = 16;  // of a block of threads, one on each SM
  ReadOrder order = ReadOrder::ascending;
  std::vector<UnstructuredPhase> phases;
  friend bool operator==(const UnstructuredPlan&, const UnstructuredPlan&) = default;
};
std::span<const Field<UnstructuredPlan>> fields(const UnstructuredPlan&);

// Throws InputError for phases that do not end with the network's last layer.
void check(const FeedForward& network, const UnstructuredPlan& plan);

// What a phase's kernel is compiled with.
struct UnstructuredGeometry {
  UnstructuredTile tile;
  int warps = 0;
  int ahead =
      0;         // entries of a row that are copied to shared memory before they are used: one less than a power of two
  int held = 0;  // rows of a lane in the layer with most of them, in place; else 0
  int zeros = 0;  // first of the places that are always zero, behind those of the widest layer; then copies
  int places = 0;

  PlaceCopies copies() const { return {tile.copies / tile.rows_per_access(), zeros}; }
  std::size_t place_bytes() const { return sizeof(float) * tile.images; }
  std::size_t shared_bytes() const;
};

inline constexpr int kMostHeld = 64;  // words of a lane's registers

// `neurons`: of each boundary between layers, from the phase's input on.
UnstructuredGeometry unstructured_geometry(std::span<const int> neurons, const UnstructuredTile& tile, int warps);

bool fits(const Chip& chip, const UnstructuredGeometry& geometry);

// Of a block of threads: fewer than usual where an image does not fit beside the entries that they copy ahead.
int unstructured_warps(const Chip& chip, std::span<const int> neurons);

// With as many copies as shared memory has room for, where rows share an access; as it is where it does not fit.
UnstructuredTile with_copies(const Chip& chip, std::span<const int> neurons, UnstructuredTile tile, int warps);

// Why a phase's tile does not fit, or has more second places than there is room for; "" if all do.
std::string why_not_fitting(const Chip& chip, const FeedForward& network, const UnstructuredPlan& plan);

// Why no tile of layers of so many neurons fits: "an image of 65536 neurons takes 514 KiB of shared memory in fp32,
// with which it would fit; a block of h100_sxm has 227 KiB".
std::string why_no_tile(const Chip& chip, std::span<const int> neurons, int warps);

}  // namespace onchip
