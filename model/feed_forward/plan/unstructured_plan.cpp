// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/unstructured_plan.hpp"

#include "model/base/error.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr std::size_t kSlotWords = 4;  // of shared memory besides the features

constexpr int round_up(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

// The largest tile of at most `images`; with two buffers if that costs no images.
UnstructuredTile largest_tile(const Chip& chip, std::span<const int> neurons, int images, int warps) {
  for (; images > 0; images /= 2) {
    for (const bool in_place : {false, true}) {
      const UnstructuredTile tile{images, in_place};
      if (fits(chip, unstructured_geometry(neurons, tile, warps))) {
        return with_copies(chip, neurons, tile, warps);
      }
    }
  }
  const UnstructuredGeometry held = unstructured_geometry(neurons, {1, true}, warps);
  const std::size_t least =
      (held.held > kMostHeld ? unstructured_geometry(neurons, {1, false}, warps) : held).shared_bytes();
  throw InputError("an image of " + std::to_string(std::ranges::max(neurons)) + " neurons takes " +
                   std::to_string((least + 1023) / 1024) + " KiB of shared memory in fp32, with which it would fit; " +
                   "a block of " + chip.name + " has " +
                   std::to_string(static_cast<std::size_t>(chip.smem_bytes_per_block.value) / 1024) + " KiB");
}

}  // namespace

std::string text(const UnstructuredPlan& plan) {
  std::string text = std::string(UnstructuredPlan::kName) + " warps=" + std::to_string(plan.warps) +
                     " order=" + (plan.order == ReadOrder::ascending ? "ascending" : "bank_aware") + " phases=";
  for (const UnstructuredPhase& phase : plan.phases) {
    text += (&phase == plan.phases.data() ? "" : ",") + std::to_string(phase.end_layer) + ":" +
            std::to_string(phase.tile.images) + (phase.tile.in_place ? "!" : "") +
            (phase.tile.copies > 0 ? "+" + std::to_string(phase.tile.copies) : "");
  }
  return text;
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

UnstructuredPlan choose_unstructured_plan(const Chip& chip, const FeedForward& network, ReadOrder order) {
  constexpr int kFirstPhase = 2, kLateImages = 16;
  UnstructuredPlan plan{.warps = unstructured_warps(chip, network.neurons), .order = order, .phases = {}};
  const int layers = network.layers();
  int may_drop_from = 0;  // the first layer behind all that wake zeros
  for (int l = layers - 1; l >= 0 && may_drop_from == 0; --l) {
    may_drop_from = wakes_zeros(network.layer(l)) ? l + 1 : 0;
  }
  const auto boundaries = [&](int first, int end) {
    return std::span(network.neurons).subspan(first, end - first + 1);
  };
  int first = 0;
  while (first < layers) {
    const int length = std::max(kFirstPhase, first / 2);
    int end = std::max(first + length, may_drop_from);
    end = end + length > layers ? layers : end;
    plan.phases.push_back(
        {end, largest_tile(chip, boundaries(first, end), end == layers ? kLateImages : 32, plan.warps)});
    first = end;
  }
  return plan;
}

}  // namespace onchip
