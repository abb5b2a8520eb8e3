// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_plan_text.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr int kMostGroups = 8, kMostWarps = 32;

[[noreturn]] void refuse(std::string_view found, const std::string& expected) {
  throw InputError("plan of blocks: found " + in_quotes(found) + ": expected " + expected);
}

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(between, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int whole(std::string_view text, int most, const std::string& what) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value < 1 || value > most) {
    refuse(text, what + " from 1 to " + std::to_string(most));
  }
  return value;
}

BlocksTile tile_of(std::string_view text) {
  const bool in_place = text.ends_with('!');
  const auto parts = parts_of(text.substr(0, text.size() - (in_place ? 1 : 0)), 'x');
  if (parts.size() != 2) {
    refuse(text, "a tile such as 2x1 or, in place, 2x1!");
  }
  return {whole(parts[0], kMostGroups, "groups of 8 images"), whole(parts[1], 2, "words of a feature"), in_place};
}

}  // namespace

BlocksPlan read_blocks_plan(std::string_view text, int layers) {
  constexpr std::array<std::string_view, 4> kKeys{"warps", "phases", "lower", "wide"};
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view part : parts_of(text, ' ')) {
    const std::string_view key = part.substr(0, part.find('='));
    if (part.empty()) {
      continue;
    }
    if (std::ranges::find(kKeys, key) == kKeys.end() || key.size() == part.size()) {
      refuse(part, "warps=, phases=, lower= and wide=" + did_you_mean(key, kKeys));
    }
    if (!values.emplace(key, part.substr(key.size() + 1)).second) {
      refuse(part, "'" + std::string(key) + "' once");
    }
  }
  for (const std::string_view key : kKeys) {
    if (!values.contains(key)) {
      refuse(text, "'" + std::string(key) + "=', too");
    }
  }
  BlocksPlan plan{.warps = whole(values["warps"], kMostWarps, "warps"),
                  .phases = {},
                  .lower = tile_of(values["lower"]),
                  .wide = tile_of(values["wide"])};
  for (const std::string_view phase : parts_of(values["phases"], ',')) {
    const auto parts = parts_of(phase, ':');
    if (parts.size() != 2) {
      refuse(phase, "a last layer and a tile, such as 120:2x1");
    }
    plan.phases.push_back({whole(parts[0], layers, "a layer"), tile_of(parts[1])});
    const BlocksPhase& last = plan.phases.back();
    if (plan.phases.size() > 1 && last.end_layer <= plan.phases[plan.phases.size() - 2].end_layer) {
      refuse(phase, "phases whose last layers ascend");
    }
    if (last.tile.words != plan.phases.front().tile.words) {
      refuse(phase, "as many words as the first phase has: features between phases are laid out by them");
    }
  }
  if (plan.phases.back().end_layer != layers) {
    refuse(values["phases"], "phases to layer " + std::to_string(layers) + ", the network's last");
  }
  return plan;
}

void check_fits(const Chip& chip, const BlocksGeometry& geometry, const BlocksPlan& plan) {
  std::vector<BlocksTile> tiles{plan.lower, plan.wide};
  std::ranges::transform(plan.phases, std::back_inserter(tiles), &BlocksPhase::tile);
  const auto has = static_cast<std::size_t>(chip.smem_bytes_per_block.value);
  for (const BlocksTile& tile : tiles) {
    if (const std::size_t needs = geometry.shared_bytes(tile); needs > has) {
      throw InputError("plan of blocks: a tile of " + std::to_string(tile.images()) + " images takes " +
                       std::to_string(needs / 1024) + " KiB of shared memory; a block of " + chip.name + " has " +
                       std::to_string(has / 1024) + " KiB");
    }
  }
}

}  // namespace onchip
