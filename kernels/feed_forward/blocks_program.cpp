// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/programs.hpp"

#include "kernels/feed_forward/bounds.hpp"
#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace onchip {
namespace {

using TileKey = std::tuple<int, int, bool, bool>;
TileKey key_of(const BlocksTile& tile, bool settles) {
  return {tile.groups, tile.words, tile.in_place, settles};
}

// All that the nodes are made from, but for where the arrays lie.
struct Builder {
  BoundsProof proof;
  BlocksPlan plan;
  BlocksGeometry geometry;
  int sms = 0;
  bool settles = false;
  int bitmaps = 0, input_neurons = 0;
  std::map<TileKey, int> kernels = {};
  std::vector<int> features = {}, ids = {};  // of the lists before a phase, in turn

  BlocksArguments arguments(ArrayPlaces at, bool upper) const {
    BlocksArguments of{.end_layer = geometry.layers,
                       .bitmaps = array_at<std::uint32_t>(at, bitmaps),
                       .input_neurons = array_at<std::uint16_t>(at, input_neurons)};
    proof.fill(of, at, upper);
    return of;
  }
  ProgramNode launch(std::string label, const BlocksTile& tile, bool ends_settled, const BlocksArguments& of) const {
    return launch_node(std::move(label), kernels.at(key_of(tile, ends_settled)), sms, 32 * geometry.warps,
                       geometry.shared_bytes(tile), of);
  }

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    std::vector<ProgramNode> made{proof.zeros(at)};
    const BoundsProof::AddBound bound = [&](std::vector<ProgramNode>& to, const std::string& label, Bound which,
                                            const ImageList& list, int stream, std::vector<int> after) {
      BlocksArguments of_bound = arguments(at, which == Bound::wide_upper);
      of_bound.ids = list.ids;
      of_bound.count = list.count;
      of_bound.categories = proof.bits(at, which);
      return add_node(to, launch(label, which == Bound::lower ? plan.lower : plan.wide, settles, of_bound), stream,
                      std::move(after));
    };
    int first_layer = 0;
    for (std::size_t p = 0; p < plan.phases.size(); ++p) {
      BlocksArguments of_phase = arguments(at, true);
      of_phase.first_layer = first_layer;
      of_phase.end_layer = first_layer = plan.phases[p].end_layer;
      of_phase.count = proof.count(at, p);
      of_phase.categories = proof.bits(at, Bound::upper);
      ImageList list{nullptr, proof.count(at, p)};
      if (p > 0) {
        list.ids = array_at<std::uint32_t>(at, ids[p % ids.size()]);
        of_phase.bitmaps = nullptr;
        of_phase.features = array_at<std::uint32_t>(at, features[p % features.size()]);
        of_phase.ids = list.ids;
      }
      if (p + 1 == plan.phases.size()) {
        proof.prove(made, at, list, bound);
      } else {
        of_phase.out_features = array_at<std::uint32_t>(at, features[(p + 1) % features.size()]);
        of_phase.out_ids = array_at<std::uint32_t>(at, ids[(p + 1) % ids.size()]);
        of_phase.out_count = proof.count(at, p + 1);
      }
      made.push_back(launch("to layer " + std::to_string(first_layer), plan.phases[p].tile, false, of_phase));
    }
    return made;
  }
};

}  // namespace

BlocksKernel compile_blocks(const BlocksGeometry& geometry, const BlocksTile& tile, bool settles,
                            const std::string& architecture) {
  if (architecture_number(architecture) < 90) {
    throw InputError("plans of blocks need an sm_90 or newer; this is " + architecture);
  }
  std::optional<BlocksKernel> best;
  // Copies to shared memory take no registers.
  const int least_ahead = geometry.weight_bytes == 0 ? geometry.most_ahead() : 1;
  for (int ahead = geometry.most_ahead(); ahead >= least_ahead; --ahead) {
    if (geometry.ahead_divides() % ahead != 0) {
      continue;
    }
    CompileRequest request{"feed_forward_blocks", kFeedForwardBlocksSource, architecture, {}};
    Defines& defines = request.defines;
    define(defines, "groups", tile.groups);
    define(defines, "words", tile.words);
    define(defines, "warps", geometry.warps);
    define(defines, "blocks", geometry.warp_blocks);
    define(defines, "parts", geometry.parts);
    define(defines, "tiles", geometry.part_tiles());
    define(defines, "ahead", ahead);
    define(defines, "places", geometry.places);
    define(defines, "inputs", geometry.inputs);
    define(defines, "in_place", tile.in_place);
    define(defines, "settles", settles);
    define(defines, "holes", geometry.holes);
    define(defines, "remainder", geometry.remainder);
    define(defines, "weight_bytes", geometry.weight_bytes);
    define(defines, "weight", geometry.one_weight);
    const ResourceReport resources = compile(request).resources;
    if (!best || resources.spill_bytes < best->resources.spill_bytes) {
      best = {ahead, std::move(request), resources};
    }
    if (!best->resources.spills()) {
      break;
    }
  }
  return *std::move(best);
}

void check_monotone(const BlocksLayout& layout) {
  if (!layout.monotone) {
    throw InputError(std::string(kNotMonotone));
  }
}

InferenceProgram blocks_program(const BlocksLayout& layout, const BlocksPlan& plan, int most_images, int sms,
                                const std::string& architecture) {
  check_monotone(layout);
  InferenceProgram program{{}, most_images, layout.geometry.inputs};
  const BoundsProof proof(program, layout, plan.phases.size(), most_images, sms, architecture);
  Builder b{.proof = proof,
            .plan = plan,
            .geometry = layout.geometry,
            .sms = sms,
            .settles = layout.keeps_clipped,
            .bitmaps = program.bitmaps,
            .input_neurons = program.add_array(layout.input_neurons)};
  // Kernels of tiles, each compiled beside the others.
  std::vector<std::pair<BlocksTile, bool>> tiles;
  const auto add_tile = [&](const BlocksTile& tile, bool ends_settled) {
    if (b.kernels.emplace(key_of(tile, ends_settled), 0).second) {
      tiles.emplace_back(tile, ends_settled);
    }
  };
  std::int64_t words = 0;
  for (const BlocksPhase& phase : plan.phases) {
    add_tile(phase.tile, false);
    words = std::max(words, layout.geometry.feature_words(phase.tile));
  }
  add_tile(plan.lower, b.settles);
  add_tile(plan.wide, b.settles);
  std::vector<CompileRequest> requests(tiles.size());
  parallel_for(static_cast<int>(tiles.size()), all_cores(), [&](int i) {
    requests[i] = compile_blocks(layout.geometry, tiles[i].first, tiles[i].second, architecture).request;
  });
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    b.kernels[key_of(tiles[i].first, tiles[i].second)] = program.add_kernel(requests[i], "feed_forward_blocks");
  }
  const auto images = static_cast<std::size_t>(most_images);
  for (std::size_t i = 0; i < std::min<std::size_t>(plan.phases.size() - 1, 2); ++i) {
    b.features.push_back(program.add_array(4 * static_cast<std::size_t>(words) * images));
    b.ids.push_back(program.add_array(4 * images));
  }
  program.nodes = [b](ArrayPlaces places) { return b.nodes(places); };
  program.read = [proof](std::span<const std::uint32_t> results) { return proof.read(results); };
  return program;
}

}  // namespace onchip
