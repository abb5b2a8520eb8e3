// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_plan_text.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr int kMostGroups = 8, kMostWarps = 32;

[[noreturn]] void refuse(std::string_view found, const std::string& expected) {
  throw InputError("plan: found " + in_quotes(found) + ": expected " + expected);
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

// The values of "KEY=VALUE KEY=VALUE", each of the keys once, behind the family's name if there is one.
std::map<std::string_view, std::string_view> values_of(std::string_view text, std::span<const std::string_view> keys,
                                                       std::string_view family = {}) {
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view part : parts_of(text, ' ')) {
    const std::string_view key = part.substr(0, part.find('='));
    if (part.empty() || part == family) {
      continue;
    }
    if (std::ranges::find(keys, key) == keys.end() || key.size() == part.size()) {
      std::string all;
      for (const std::string_view name : keys) {
        all += (all.empty() ? "" : name == keys.back() ? " and " : ", ") + std::string(name) + '=';
      }
      refuse(part, all + did_you_mean(key, keys));
    }
    if (!values.emplace(key, part.substr(key.size() + 1)).second) {
      refuse(part, "'" + std::string(key) + "' once");
    }
  }
  for (const std::string_view key : keys) {
    if (!values.contains(key)) {
      refuse(text, "'" + std::string(key) + "=', too");
    }
  }
  return values;
}

// Ascending last layers of phases, the network's last at the end, with what follows each behind ':'.
std::vector<std::pair<int, std::string_view>> phases_of(std::string_view text, int layers, bool has_tiles) {
  std::vector<std::pair<int, std::string_view>> phases;
  for (const std::string_view phase : parts_of(text, ',')) {
    const auto parts = parts_of(phase, ':');
    if (parts.size() != (has_tiles ? 2 : 1)) {
      refuse(phase, has_tiles ? "a last layer and a tile, such as 120:2x1" : "a last layer");
    }
    const int end = whole(parts[0], layers, "a layer");
    if (!phases.empty() && end <= phases.back().first) {
      refuse(phase, "phases whose last layers ascend");
    }
    phases.emplace_back(end, parts.back());
  }
  if (phases.back().first != layers) {
    refuse(text, "phases to layer " + std::to_string(layers) + ", the network's last");
  }
  return phases;
}

}  // namespace

BlocksPlan read_blocks_plan(std::string_view text, int layers) {
  constexpr std::array<std::string_view, 4> kKeys{"warps", "phases", "lower", "wide"};
  auto values = values_of(text, kKeys);
  BlocksPlan plan{.warps = whole(values["warps"], kMostWarps, "warps"),
                  .phases = {},
                  .lower = tile_of(values["lower"]),
                  .wide = tile_of(values["wide"])};
  for (const auto& [end, tile] : phases_of(values["phases"], layers, true)) {
    plan.phases.push_back({end, tile_of(tile)});
    if (plan.phases.back().tile.words != plan.phases.front().tile.words) {
      refuse(tile, "as many words as the first phase has: features between phases are laid out by them");
    }
  }
  return plan;
}

StreamedPlan read_streamed_plan(std::string_view text, int layers) {
  constexpr int kMost = 1 << 16;
  constexpr std::array<std::string_view, 7> kKeys{"groups",  "chain",       "warps", "team",
                                                  "at_once", "wide_groups", "phases"};
  auto values = values_of(text, kKeys, StreamedPlan::kName);
  const auto number = [&](std::string_view key) { return whole(values[key], kMost, std::string(key)); };
  StreamedPlan plan{
      number("groups"), number("chain"), number("warps"), number("team"), number("at_once"), number("wide_groups"), {}};
  for (const auto& [end, none] : phases_of(values["phases"], layers, false)) {
    plan.end_layers.push_back(end);
  }
  return plan;
}

UnstructuredPlan read_unstructured_plan(std::string_view text, int layers) {
  constexpr int kMostCopies = 1 << 16;
  constexpr std::array<std::string_view, 3> kKeys{"warps", "order", "phases"};
  constexpr std::array<std::string_view, 2> kOrders{"ascending", "bank_aware"};
  auto values = values_of(text, kKeys, UnstructuredPlan::kName);
  const auto order = std::ranges::find(kOrders, values["order"]);
  if (order == kOrders.end()) {
    refuse(values["order"], "ascending or bank_aware");
  }
  UnstructuredPlan plan{whole(values["warps"], kMostWarps, "warps"),
                        order == kOrders.begin() ? ReadOrder::ascending : ReadOrder::bank_aware,
                        {}};
  for (auto [end, tile] : phases_of(values["phases"], layers, true)) {
    UnstructuredTile of_phase;
    if (const std::size_t plus = tile.find('+'); plus != std::string_view::npos) {
      of_phase.copies = whole(tile.substr(plus + 1), kMostCopies, "copies");
      tile = tile.substr(0, plus);
    }
    of_phase.in_place = tile.ends_with('!');
    tile.remove_suffix(of_phase.in_place ? 1 : 0);
    of_phase.images = whole(tile, 32, "images of a tile");
    if (!std::has_single_bit(static_cast<unsigned>(of_phase.images)) ||
        of_phase.copies % of_phase.rows_per_access() != 0) {
      refuse(tile, "a power of two of images, and copies for each row of an access");
    }
    plan.phases.push_back({end, of_phase});
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

void check_fits(const Chip& chip, const FeedForward& network, const UnstructuredPlan& plan) {
  int first = 0;
  for (const UnstructuredPhase& phase : plan.phases) {
    const auto neurons = std::span(network.neurons).subspan(first, phase.end_layer - first + 1);
    const UnstructuredTile plain{phase.tile.images, phase.tile.in_place};
    if (const int most = with_copies(chip, neurons, plain, plan.warps).copies; phase.tile.copies > most) {
      throw InputError("unstructured plan: a tile of " + std::to_string(plain.images) + " images has room for " +
                       std::to_string(most) + " second places, not " + std::to_string(phase.tile.copies));
    }
    if (const UnstructuredGeometry geometry = unstructured_geometry(neurons, phase.tile, plan.warps);
        !fits(chip, geometry)) {
      throw InputError("unstructured plan: a tile of " + std::to_string(phase.tile.images) + " images with " +
                       std::to_string(phase.tile.copies) + " second places takes " +
                       std::to_string(geometry.shared_bytes() / 1024) + " KiB of shared memory and " +
                       std::to_string(geometry.held * phase.tile.lane_images()) +
                       " registers for outputs; a block of " + chip.name + " has " +
                       std::to_string(static_cast<std::size_t>(chip.smem_bytes_per_block.value) / 1024) + " KiB, and " +
                       std::to_string(kMostHeld) + " are held");
    }
    first = phase.end_layer;
  }
}

}  // namespace onchip
