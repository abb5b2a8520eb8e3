// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/unstructured_plan.hpp"

#include "model/feed_forward/plan/phase_text.hpp"

#include <algorithm>
#include <bit>

namespace onchip {
namespace {

constexpr std::size_t kSlotWords = 4;  // of shared memory besides the features

constexpr int round_up(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

using P = UnstructuredPlan;

constexpr int kMostWarps = 32, kMostCopies = 1 << 16;

std::string tile_text(const UnstructuredTile& tile) {
  return std::to_string(tile.images) + (tile.in_place ? "!" : "") +
         (tile.copies > 0 ? "+" + std::to_string(tile.copies) : "");
}

UnstructuredTile read_tile(std::string_view text) {
  UnstructuredTile tile;
  const std::size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    tile.copies = read_from_one(text.substr(plus + 1), kMostCopies, "copies");
  }
  std::string_view images = text.substr(0, plus);
  tile.in_place = images.ends_with('!');
  images.remove_suffix(tile.in_place ? 1 : 0);
  tile.images = read_from_one(images, 32, "images of a tile");
  if (!std::has_single_bit(static_cast<unsigned>(tile.images)) || tile.copies % tile.rows_per_access() != 0) {
    refuse_plan(text, "a power of two of images, and copies for each row of an access");
  }
  return tile;
}

constexpr Field<P> kFields[] = {
    choice<&P::order>("order", kReadOrderNames),
    number<&P::warps>("warps", 1, kMostWarps),
    phases_field<P, tile_text, read_tile>(),
};

}  // namespace

std::span<const Field<UnstructuredPlan>> fields(const UnstructuredPlan&) {
  return kFields;
}

void check(const FeedForward& network, const UnstructuredPlan& plan) {
  check_last_layer(network, plan.phases.empty() ? 0 : plan.phases.back().end_layer);
}

std::size_t UnstructuredGeometry::shared_bytes() const {
  constexpr std::size_t kEntryBytes = 16;
  return place_bytes() * places * (tile.in_place ? 1 : 2) + kEntryBytes * warps * (ahead + 1) * tile.rows_per_warp() +
         sizeof(int) * (tile.images + kSlotWords);
}

UnstructuredGeometry unstructured_geometry(std::span<const int> neurons, const UnstructuredTile& tile, int warps) {
  UnstructuredGeometry geometry{.tile = tile, .warps = warps, .ahead = warps > 1 ? 3 : 1};
  const int widest = std::max(1, std::ranges::max(neurons));
  if (tile.in_place) {
    const int outputs = neurons.size() > 1 ? std::ranges::max(neurons.subspan(1)) : 1;
    const int rows = tile.rows_per_warp() * warps;
    geometry.held = std::max(1, (outputs + rows - 1) / rows);
  }
  // A zero of each class, for rows that read nothing in a step.
  geometry.zeros = round_up(widest, tile.rows_per_access());
  geometry.places = geometry.zeros + tile.rows_per_access() + tile.copies;
  return geometry;
}

bool fits(const Chip& chip, const UnstructuredGeometry& geometry) {
  return geometry.shared_bytes() <= static_cast<std::size_t>(chip.smem_bytes_per_block.value) &&
         geometry.held * geometry.tile.lane_images() <= kMostHeld;
}

UnstructuredTile with_copies(const Chip& chip, std::span<const int> neurons, UnstructuredTile tile, int warps) {
  const UnstructuredGeometry without = unstructured_geometry(neurons, tile, warps);
  if (fits(chip, without) && tile.rows_per_access() > 1) {
    const std::size_t free = static_cast<std::size_t>(chip.smem_bytes_per_block.value) - without.shared_bytes();
    const auto room = static_cast<int>(free / without.place_bytes() / (tile.in_place ? 1 : 2));
    tile.copies = std::min(without.zeros, room / tile.rows_per_access() * tile.rows_per_access());
  }
  return tile;
}

int unstructured_warps(const Chip& chip, std::span<const int> neurons) {
  int warps = UnstructuredPlan{}.warps;
  while (warps > 1 && !fits(chip, unstructured_geometry(neurons, {1, true}, warps)) &&
         !fits(chip, unstructured_geometry(neurons, {1, false}, warps))) {
    warps /= 2;
  }
  return warps;
}

std::string why_not_fitting(const Chip& chip, const FeedForward& network, const UnstructuredPlan& plan) {
  int first = 0;
  for (const UnstructuredPhase& phase : plan.phases) {
    const auto neurons = std::span(network.neurons).subspan(first, phase.end_layer - first + 1);
    const UnstructuredTile plain{phase.tile.images, phase.tile.in_place};
    if (const int most = with_copies(chip, neurons, plain, plan.warps).copies; phase.tile.copies > most) {
      return "a tile of " + std::to_string(plain.images) + " images has room for " + std::to_string(most) +
             " second places, not " + std::to_string(phase.tile.copies);
    }
    if (const UnstructuredGeometry geometry = unstructured_geometry(neurons, phase.tile, plan.warps);
        !fits(chip, geometry)) {
      return "a tile of " + std::to_string(phase.tile.images) + " images with " + std::to_string(phase.tile.copies) +
             " second places takes " + std::to_string(geometry.shared_bytes() / 1024) + " KiB of shared memory and " +
             std::to_string(geometry.held * phase.tile.lane_images()) + " registers for outputs; a block of " +
             chip.name + " has " + std::to_string(static_cast<std::size_t>(chip.smem_bytes_per_block.value) / 1024) +
             " KiB, and " + std::to_string(kMostHeld) + " are held";
    }
    first = phase.end_layer;
  }
  return "";
}

std::string why_no_tile(const Chip& chip, std::span<const int> neurons, int warps) {
  const UnstructuredGeometry held = unstructured_geometry(neurons, {1, true}, warps);
  const std::size_t least =
      (held.held > kMostHeld ? unstructured_geometry(neurons, {1, false}, warps) : held).shared_bytes();
  return "an image of " + std::to_string(std::ranges::max(neurons)) + " neurons takes " +
         std::to_string((least + 1023) / 1024) + " KiB of shared memory in fp32, with which it would fit; a block of " +
         chip.name + " has " + std::to_string(static_cast<std::size_t>(chip.smem_bytes_per_block.value) / 1024) +
         " KiB";
}

}  // namespace onchip
