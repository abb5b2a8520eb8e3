// SPDX-License-Identifier: Apache-2.0
// Where dead images are dropped and how large the tiles are: the shortest way through the layers, from one point at
// which images may be dropped to another, by the price of each phase (Bellman, 1958).
#include "model/feed_forward/plan/blocks_price.hpp"

#include <algorithm>
#include <limits>

namespace onchip {
namespace {

constexpr int kMostGroups = 4, kMostWideGroups = 8;  // of a tile; where blocks come in parts, L2 binds
constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<BlocksTile> fitting_tiles(const Chip& chip, const BlocksGeometry& geometry) {
  std::vector<BlocksTile> tiles;
  for (int groups = 1; groups <= (geometry.parts > 1 ? kMostWideGroups : kMostGroups); ++groups) {
    for (const bool in_place : {false, true}) {
      const BlocksTile tile{groups, 1, in_place};
      if (static_cast<double>(geometry.shared_bytes(tile)) <= chip.smem_bytes_per_block) {
        tiles.push_back(tile);
      }
    }
  }
  return tiles;
}

}  // namespace

Found<BlocksPlan> choose_blocks_plan(const Chip& chip, const BlocksWork& work, const Activity& sampled) {
  const Found<BlocksTile> wide = largest_tile(chip, work.geometry, 2, 2);  // which needs the most
  if (!wide) {
    return Found<BlocksPlan>::nothing(wide.why());
  }
  // As many alive as there may be: one tile more than SMs costs a round, one less next to nothing.
  const Activity activity = at_end_of_interval(sampled, 1);
  const BlocksPricer pricer(chip, work, activity);
  const std::vector<BlocksTile> tiles = fitting_tiles(chip, work.geometry);
  const int layers = work.geometry.layers;
  std::vector<int> points{0};
  for (const int point : drop_points(activity)) {
    points.push_back(point);
  }
  points.push_back(layers);
  struct Way {
    double us = kNever;
    std::size_t from = 0;
    BlocksTile tile;
  };
  const std::size_t end = points.size() - 1;
  const auto best_phase = [&](std::size_t from, std::size_t to) {
    Way way;
    for (const BlocksTile& tile : tiles) {
      const LaunchPrice phase = pricer.phase(tile, points[from], points[to]);
      double us = phase.terms.total();
      if (to == end) {  // what the lower bounds leave undecided goes on beside it
        us += pricer.beyond(pricer.undecided(*wide, points[from], phase), phase);
      }
      if (us < way.us) {
        way = {us, from, tile};
      }
    }
    return way;
  };
  const auto best_bounds = [&](std::size_t from) {
    Way way;
    for (const BlocksTile& tile : tiles) {
      const double us = pricer.bounds(tile, activity.alive[points[from]], chip.sm_count).terms.total();
      if (us < way.us) {
        way = {us, from, tile};
      }
    }
    return way;
  };
  std::vector<Way> to(points.size());
  to[0].us = 0;
  for (std::size_t p = 1; p <= end; ++p) {
    for (std::size_t from = 0; from < p; ++from) {
      Way way = best_phase(from, p);
      if (p == end) {  // bounds are of the images that enter it
        way.us += best_bounds(from).us;
      }
      way.us += to[from].us;
      if (way.us < to[p].us) {
        to[p] = way;
      }
    }
  }
  BlocksPlan plan{.warps = work.geometry.warps, .phases = {}, .lower = best_bounds(to[end].from).tile, .wide = *wide};
  for (std::size_t p = end; p > 0; p = to[p].from) {
    plan.phases.insert(plan.phases.begin(), {points[p], to[p].tile});
  }
  return plan;
}

}  // namespace onchip
