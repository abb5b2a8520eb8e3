// SPDX-License-Identifier: Apache-2.0
// Plans of feed-forward networks that tests share.
#pragma once

#include "model/feed_forward/plan/feed_forward_plan.hpp"
#include "model/feed_forward/plan/search.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <variant>

namespace onchip {

// Of one family. Throws InputError as parsing and check_ranges() do.
inline StagedPlan staged_plan(std::string_view text) {
  auto plan = std::get<StagedPlan>(parse_feed_forward_plan(text));
  check(plan);
  return plan;
}

// Dead images are dropped after the first layers, whatever that costs, in tiles as large as they fit.
inline BlocksPlan dropping_plan(const Chip& chip, const BlocksGeometry& geometry) {
  const BlocksTile many = *largest_tile(chip, geometry, 4, 1), few = *largest_tile(chip, geometry, 2, 1);
  BlocksPlan plan{.warps = geometry.warps, .phases = {}, .lower = few, .wide = *largest_tile(chip, geometry, 2, 2)};
  for (const int layer : {3, 5, 8, 11}) {
    if (layer < geometry.layers) {
      plan.phases.push_back({layer, layer < 11 ? many : few});
    }
  }
  plan.phases.push_back({geometry.layers, few});
  return plan;
}

// The same, after phases that grow by half, and none before the last that gives images of zeros a feature.
inline UnstructuredPlan dropping_plan(const Chip& chip, const FeedForward& network,
                                      ReadOrder order = ReadOrder::ascending) {
  UnstructuredPlan plan{.warps = unstructured_warps(chip, network.neurons), .order = order, .phases = {}};
  const int layers = network.layers();
  int may_drop_from = 0;
  for (int l = 0; l < layers; ++l) {
    may_drop_from = wakes_zeros(network.layer(l)) ? l + 1 : may_drop_from;
  }
  for (int first = 0; first < layers;) {
    const int length = std::max(2, first / 2), least = std::max(first + length, may_drop_from);
    const int end = least + length > layers ? layers : least;
    const auto neurons = std::span(network.neurons).subspan(first, end - first + 1);
    UnstructuredTile tile{end == layers ? 16 : 32, false};
    while (!fits(chip, unstructured_geometry(neurons, tile, plan.warps))) {
      tile = tile.in_place ? UnstructuredTile{tile.images / 2, false} : UnstructuredTile{tile.images, true};
    }
    plan.phases.push_back({end, with_copies(chip, neurons, tile, plan.warps)});
    first = end;
  }
  return plan;
}

}  // namespace onchip
