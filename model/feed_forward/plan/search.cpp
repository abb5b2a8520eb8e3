// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/search.hpp"

#include "model/base/parallel.hpp"
#include "model/chip/occupancy.hpp"
#include "model/feed_forward/staged/price.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr int kMostGroups = 4, kMostWideGroups = 8;  // of a tile; where blocks come in parts, L2 binds
constexpr int kMostStreamedWarps = 12;               // that a lane's registers allow
constexpr int kMostHeldTiles = 8;                    // of weights of an item, in registers

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

// The end of the cheapest way to a point: the time so far, and the phase that leads there.
template <typename Tile>
struct Way {
  double us = std::numeric_limits<double>::infinity();
  std::size_t from = 0;  // point
  Tile tile = {};

  void offer(double other_us, std::size_t other_from, const Tile& other) {
    if (other_us < us) {
      *this = {other_us, other_from, other};
    }
  }
};

// The cheapest ways from the first point to each. visit(from, to, before_us, way) offers the phases between two points
// to the way to the latter; the way to the former takes before_us.
template <typename Tile, typename Visit>
std::vector<Way<Tile>> cheapest_ways(std::size_t points, const Visit& visit) {
  std::vector<Way<Tile>> to(points);
  to[0].us = 0;
  for (std::size_t p = 1; p < points; ++p) {
    for (std::size_t from = 0; from < p; ++from) {
      visit(from, p, to[from].us, to[p]);
    }
  }
  return to;
}

template <typename Phase, typename Tile>
std::vector<Phase> phases_on(const std::vector<int>& points, const std::vector<Way<Tile>>& to) {
  std::vector<Phase> phases;
  for (std::size_t p = points.size() - 1; p > 0; p = to[p].from) {
    phases.insert(phases.begin(), {points[p], to[p].tile});
  }
  return phases;
}

// Bytes of L2 that the tiles of all batch groups take at once: two buffers of each.
double streamed_l2_bytes(const Chip& chip, const BlocksGeometry& geometry, const StreamedPlan& plan) {
  constexpr double kBuffers = 2, kHalfBytes = 2, kGroupImages = 8;
  const double batch_groups = static_cast<int>(chip.sm_count.value) / plan.sms;
  return batch_groups * plan.at_once * kBuffers * geometry.places * kHalfBytes * kGroupImages * plan.groups;
}

}  // namespace

Found<BlocksTile> largest_tile(const Chip& chip, const BlocksGeometry& geometry, int groups, int words) {
  const auto has = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  for (; groups > 0; --groups) {
    for (const bool in_place : {false, true}) {
      const BlocksTile tile{groups, words, in_place};
      if (geometry.shared_bytes(tile) <= has) {
        return tile;
      }
    }
  }
  const std::size_t needs = geometry.shared_bytes({1, words, true});
  return Found<BlocksTile>::nothing("8 images of up to " + std::to_string(geometry.places - kFreePlaces) +
                                    " neurons take " + std::to_string(needs / 1024) +
                                    " KiB of shared memory; a block of " + chip.name + " has " +
                                    std::to_string(has / 1024) + " KiB");
}

Found<BlocksPlan> choose_blocks_plan(const Chip& chip, const BlocksWork& work, const Activity& sampled) {
  const Found<BlocksTile> wide = largest_tile(chip, work.geometry, 2, 2);  // which needs the most
  if (!wide) {
    return Found<BlocksPlan>::nothing(wide.why());
  }
  // As many alive as there may be: one tile more than SMs costs a round, one less next to nothing.
  const Activity activity = at_end_of_interval(sampled, 1);
  const BlocksPricer pricer(chip, work, activity);
  const std::vector<BlocksTile> tiles = fitting_tiles(chip, work.geometry);
  std::vector<int> points{0};
  std::ranges::copy(drop_points(activity), std::back_inserter(points));
  points.push_back(work.geometry.layers);
  const std::size_t end = points.size() - 1;
  const auto best_phase = [&](std::size_t from, std::size_t to) {
    Way<BlocksTile> way;
    for (const BlocksTile& tile : tiles) {
      const LaunchPrice phase = pricer.phase(tile, points[from], points[to]);
      double us = phase.terms.total();
      if (to == end) {  // what the lower bounds leave undecided goes on beside it
        us += pricer.beyond(pricer.undecided(*wide, points[from], phase), phase);
      }
      way.offer(us, from, tile);
    }
    return way;
  };
  const auto best_bounds = [&](std::size_t from) {
    Way<BlocksTile> way;
    for (const BlocksTile& tile : tiles) {
      way.offer(pricer.bounds(tile, activity.alive[points[from]], chip.sm_count).terms.total(), from, tile);
    }
    return way;
  };
  const std::vector<Way<BlocksTile>> to = cheapest_ways<BlocksTile>(
      points.size(), [&](std::size_t from, std::size_t p, double before_us, Way<BlocksTile>& way) {
        const Way<BlocksTile> phase = best_phase(from, p);
        // Bounds are of the images that enter the last phase.
        const double us = p == end ? phase.us + best_bounds(from).us : phase.us;
        way.offer(us + before_us, from, phase.tile);
      });
  return BlocksPlan{.warps = work.geometry.warps,
                    .phases = phases_on<BlocksPhase>(points, to),
                    .lower = best_bounds(to[end].from).tile,
                    .wide = *wide,
                    .weight_bytes = work.geometry.weight_bytes};
}

StreamedPlan choose_streamed_plan(const Chip& chip, const FeedForward& network, const NetworkStructure& structure) {
  constexpr int kFirstPhase = 2;
  StreamedPlan best;
  const int sms = static_cast<int>(chip.sm_count.value);
  const double l2_bytes = chip.l2_bytes.value / 2;
  // Of what all warps could do, what they do: rounds of items, SMs of no batch group; half of it where a batch group
  // waits at its barrier for want of a second tile. Of what is alike, the longest chain, which reads least, and
  // the most SMs.
  constexpr double kAlike = 1e-3;
  double best_share = -1;
  for (const int chain : {4, 2, 1}) {
    const BlocksGeometry geometry = streamed_geometry(network, structure, chain);
    if (chain > 1 && chain * geometry.tiles > kMostHeldTiles) {
      continue;
    }
    for (int group_sms = sms; group_sms >= 1; --group_sms) {
      for (int warps = 4; warps <= kMostStreamedWarps; warps += 2) {
        for (const int at_once : {1, 2}) {
          const StreamedPlan plan{
              .chain = chain, .warps = warps, .sms = group_sms, .at_once = at_once, .end_layers = {}};
          const int workers = group_sms * warps, rounds = (geometry.warps + workers - 1) / workers;
          if (streamed_l2_bytes(chip, geometry, plan) > l2_bytes && (group_sms < sms || at_once > 1)) {
            continue;
          }
          const double used = static_cast<double>(geometry.warps) / (static_cast<double>(rounds) * workers);
          const double of_sms = static_cast<double>(sms / group_sms * group_sms) / sms;
          const double reads = (1.0 + chain) / chain;  // tiles of inputs for each output block, at best
          const double share = used * of_sms * (at_once == 2 ? 1 : 0.5) * warps / kMostStreamedWarps * 3 / (1 + reads);
          if (share > best_share + kAlike) {
            best_share = share;
            best = plan;
          }
        }
      }
    }
  }
  for (int first = 0; first < network.layers();) {
    const int length = std::max(kFirstPhase, first / 2), end = first + length;
    best.end_layers.push_back(first = end + length > network.layers() ? network.layers() : end);
  }
  return best;
}

// A weight costs the same in each layer.
Found<UnstructuredPlan> choose_unstructured_plan(const Chip& chip, const FeedForward& network, const Activity& activity,
                                                 ReadOrder order) {
  UnstructuredPlan plan{.warps = unstructured_warps(chip, network.neurons), .order = order, .phases = {}};
  const int layers = network.layers();
  std::vector<double> weights(layers);
  std::vector<char> wakes(layers);
  parallel_for(layers, all_cores(), [&](int l) {
    const SparseLayer layer = network.layer(l);
    weights[l] = static_cast<double>(layer.weights.nnz());
    wakes[l] = wakes_zeros(layer);
  });
  const int may_drop_from = static_cast<int>(layers - (std::find(wakes.rbegin(), wakes.rend(), true) - wakes.rbegin()));
  const double mean_weights = std::max(1.0, std::accumulate(weights.begin(), weights.end(), 0.0)) / layers;
  std::vector<UnstructuredTile> tiles;
  for (int images = 1; images <= 32; images *= 2) {
    for (const bool in_place : {false, true}) {
      tiles.push_back(with_copies(chip, network.neurons, {images, in_place}, plan.warps));
    }
  }
  std::vector<UnstructuredWork> works(tiles.size());  // of a weight
  parallel_for(static_cast<int>(tiles.size()), all_cores(), [&](int i) {
    works[i] = unstructured_work(network, {plan.warps, order, {{layers, tiles[i]}}}).front() * (1 / mean_weights);
  });
  std::vector<int> points{0};
  std::ranges::copy_if(drop_points(activity), std::back_inserter(points), [&](int l) { return l >= may_drop_from; });
  points.push_back(layers);
  const std::vector<Way<UnstructuredTile>> to = cheapest_ways<UnstructuredTile>(
      points.size(), [&](std::size_t from, std::size_t p, double before_us, Way<UnstructuredTile>& way) {
        const int first = points[from], end = points[p];
        const double per_layer = std::accumulate(&weights[first], &weights[first] + end - first, 0.0) / (end - first);
        for (const UnstructuredWork& of_weight : works) {
          UnstructuredWork work = of_weight * per_layer;
          const auto neurons = std::span(network.neurons).subspan(first, end - first + 1);
          work.tile = with_copies(chip, neurons, {work.tile.images, work.tile.in_place}, plan.warps);
          if (fits(chip, unstructured_geometry(neurons, work.tile, plan.warps))) {
            const LaunchPrice phase = price_phase(chip, network, work, activity, plan.warps, first, end);
            way.offer(before_us + phase.terms.total(), from, work.tile);
          }
        }
      });
  if (!std::isfinite(to.back().us)) {
    return Found<UnstructuredPlan>::nothing(why_no_tile(chip, network.neurons, plan.warps));
  }
  plan.phases = phases_on<UnstructuredPhase>(points, to);
  return plan;
}

Found<StagedPlan> choose_staged_plan(const Chip& chip, const FeedForward& network,
                                     std::span<const std::int64_t> alive) {
  constexpr std::array kBlocks{256, 512, 1024};
  constexpr std::array kBytes{24 * 1024, 48 * 1024, 96 * 1024, 192 * 1024};
  constexpr std::array kImages{8, 12, 16, 24};
  std::vector<StagedPlan> plans;
  std::string why;
  for (const int block : kBlocks) {
    for (const int bytes : kBytes) {
      for (const int images : kImages) {
        StagedPlan plan;
        plan.block_outputs = block;
        plan.staged_bytes = bytes;
        plan.images = images;
        const std::string problem = why_not_fitting(chip, network, plan);
        const BlockResources needs{block, usual_registers(plan), plan.shared_bytes()};
        if (problem.empty() && occupancy(chip, needs).blocks_per_sm > 0) {  // without a spill
          plans.push_back(plan);
        } else if (why.empty()) {
          why = problem;
        }
      }
    }
  }
  if (plans.empty()) {
    return Found<StagedPlan>::nothing(why);
  }
  const std::vector<std::vector<StagedCounts>> counts = sampled_counts(network, plans);
  std::vector<double> us(plans.size());
  for (std::size_t p = 0; p < plans.size(); ++p) {
    us[p] = price_staged(chip, plans[p], counts[p], alive).terms.total();
  }
  return plans[static_cast<std::size_t>(std::ranges::min_element(us) - us.begin())];
}

}  // namespace onchip
