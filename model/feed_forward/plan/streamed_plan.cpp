// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/streamed_plan.hpp"

#include "model/feed_forward/plan/phase_text.hpp"

#include <algorithm>

namespace onchip {
namespace {

using P = StreamedPlan;

constexpr int kMost = 1 << 16;

std::string end_layers_text(const P& plan) {
  std::string text;
  for (const int end : plan.end_layers) {
    text += (text.empty() ? "" : ",") + std::to_string(end);
  }
  return text;
}

void read_end_layers(P& plan, std::string_view text) {
  plan.end_layers.clear();
  for (const std::string_view end : split_text(text, ',')) {
    plan.end_layers.push_back(read_last_layer(end, plan.end_layers.empty() ? 0 : plan.end_layers.back()));
  }
}

constexpr Field<P> kFields[] = {
    number<&P::groups>("groups", 1, kMost),
    number<&P::chain>("chain", 1, kMost),
    number<&P::warps>("warps", 1, kMost),
    number<&P::team>("sms", 1, kMost),
    number<&P::at_once>("at_once", 1, kMost),
    number<&P::wide_groups>("wide_groups", 1, kMost),
    list<P>("phases", end_layers_text, read_end_layers),
};

constexpr int kMostWarps = 12;     // that a lane's registers allow
constexpr int kMostHeldTiles = 8;  // of weights of an item, in registers

}  // namespace

std::span<const Field<StreamedPlan>> fields(const StreamedPlan&) {
  return kFields;
}

void check(const FeedForward& network, const StreamedPlan& plan) {
  check_last_layer(network, plan.end_layers.empty() ? 0 : plan.end_layers.back());
}

BlocksGeometry streamed_geometry(const FeedForward& network, const NetworkStructure& structure, int chain) {
  BlocksGeometry geometry = blocks_geometry(network, structure, 1, chain);
  geometry.place_bytes = 4;
  return geometry;
}

double streamed_l2_bytes(const Chip& chip, const BlocksGeometry& geometry, const StreamedPlan& plan) {
  constexpr double kBuffers = 2, kHalfBytes = 2, kGroupImages = 8;
  const double teams = static_cast<int>(chip.sm_count.value) / plan.team;
  return teams * plan.at_once * kBuffers * geometry.places * kHalfBytes * kGroupImages * plan.groups;
}

StreamedPlan choose_streamed_plan(const Chip& chip, const FeedForward& network, const NetworkStructure& structure) {
  constexpr int kFirstPhase = 2;
  StreamedPlan best;
  const int sms = static_cast<int>(chip.sm_count.value);
  const double l2_bytes = chip.l2_bytes.value / 2;
  // Of what all warps of all teams could do, what they do: rounds of items, SMs without a team; half of it where a team
  // waits at its barrier for want of a second tile. Of what is alike, the longest chain, which reads least, and
  // the most SMs.
  constexpr double kAlike = 1e-3;
  double best_share = -1;
  for (const int chain : {4, 2, 1}) {
    const BlocksGeometry geometry = streamed_geometry(network, structure, chain);
    if (chain > 1 && chain * geometry.tiles > kMostHeldTiles) {
      continue;
    }
    for (int team = sms; team >= 1; --team) {
      for (int warps = 4; warps <= kMostWarps; warps += 2) {
        for (const int at_once : {1, 2}) {
          const StreamedPlan plan{.chain = chain, .warps = warps, .team = team, .at_once = at_once, .end_layers = {}};
          const int workers = team * warps, rounds = (geometry.warps + workers - 1) / workers;
          if (streamed_l2_bytes(chip, geometry, plan) > l2_bytes && (team < sms || at_once > 1)) {
            continue;
          }
          const double used = static_cast<double>(geometry.warps) / (static_cast<double>(rounds) * workers);
          const double of_sms = static_cast<double>(sms / team * team) / sms;
          const double reads = (1.0 + chain) / chain;  // tiles of inputs for each output block, at best
          const double share = used * of_sms * (at_once == 2 ? 1 : 0.5) * warps / kMostWarps * 3 / (1 + reads);
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

}  // namespace onchip
