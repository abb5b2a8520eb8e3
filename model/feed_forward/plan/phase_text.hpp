// SPDX-License-Identifier: Apache-2.0
// Phases of plans as text, "3:4x1,120:2x1": the last layer of each, after which dead images are dropped, and what a
// family says of it.
#pragma once

#include "model/feed_forward/network.hpp"
#include "model/plan/plan_text.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

[[noreturn]] void refuse_plan(std::string_view found, const std::string& expected);

// Throws InputError for what is no whole number of [1, most].
int read_from_one(std::string_view text, int most, const std::string& what);

// Last layers, with what follows each behind ':'. Throws InputError unless they ascend.
std::vector<std::pair<int, std::string_view>> read_phases(std::string_view text);
int read_last_layer(std::string_view text, int before);

// Throws InputError unless that is the network's last layer.
void check_last_layer(const FeedForward& network, int end_layer);

// The phases of a plan, whose tiles are written and read so.
template <typename P, auto kTileText, auto kReadTile>
constexpr Field<P> phases_field() {
  return list<P>(
      "phases",
      [](const P& plan) {
        std::string text;
        for (const auto& phase : plan.phases) {
          text += (text.empty() ? "" : ",") + std::to_string(phase.end_layer) + ":" + kTileText(phase.tile);
        }
        return text;
      },
      [](P& plan, std::string_view given) {
        plan.phases.clear();
        for (const auto& [end, tile] : read_phases(given)) {
          plan.phases.push_back({end, kReadTile(tile)});
        }
      });
}

}  // namespace onchip
