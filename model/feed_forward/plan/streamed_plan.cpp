// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/streamed_plan.hpp"

#include "model/feed_forward/plan/phase_text.hpp"

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
    number<&P::sms>("sms", 1, kMost),
    number<&P::at_once>("at_once", 1, kMost),
    number<&P::wide_groups>("wide_groups", 1, kMost),
    list<P>("phases", end_layers_text, read_end_layers),
};

}  // namespace

std::span<const Field<StreamedPlan>> fields(const StreamedPlan&) {
  return kFields;
}

void check(const FeedForward& network, const StreamedPlan& plan) {
  check_last_layer(network, plan.end_layers.empty() ? 0 : plan.end_layers.back());
}

BlocksGeometry streamed_geometry(const FeedForward& network, const NetworkStructure& structure, int chain) {
  BlocksGeometry geometry = blocks_geometry(network, structure, 1, chain, 2);
  geometry.place_bytes = 4;
  return geometry;
}

}  // namespace onchip
