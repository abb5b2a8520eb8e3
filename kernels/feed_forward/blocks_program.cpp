// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/blocks_program.hpp"

#include "kernels/runtime/defines.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

namespace onchip {
namespace {

constexpr int kExactThreads = 1024, kOpenThreads = 512, kOpenBlocks = 4;
constexpr int kMostAhead = 4;

// As the kernels have them.
struct BlocksArguments {
  const std::byte* records;
  int first_layer, end_layer;
  const std::uint32_t* bitmaps;
  const std::uint16_t* input_neurons;
  const std::uint32_t *features, *ids, *count;
  std::uint32_t *out_features, *out_ids, *out_count, *categories;
  float clip, slack, shift;
  std::uint32_t one, round_up, settled;
};

struct ExactArguments {
  const std::uint32_t *weights, *slice_begin, *layer_slice;
  const float* biases;
  const std::uint32_t* rows;
  int layers, inputs;
  std::uint32_t buffer;
  const std::uint32_t* bitmaps;
  int words;
  const std::uint32_t *ids, *count;
  std::uint32_t* categories;
  float clip;
};

struct OpenArguments {
  const std::uint32_t *ids, *count, *wanted, *known;
  std::uint32_t *open, *open_count;
};

// What an image's bits say.
enum Bits : std::uint8_t { kUpper, kLower, kWideUpper, kWideLower, kExact, kBitmaps };
enum Stream : std::uint8_t { kMain, kBeside, kThird };

using TileKey = std::tuple<int, int, bool, bool>;
TileKey key_of(const BlocksTile& tile, bool settles) {
  return {tile.groups, tile.words, tile.in_place, settles};
}

// All that the nodes are made from, but for where the arrays lie.
struct Builder {
  BlocksPlan plan;
  BlocksGeometry geometry;
  int sms = 0, most_images = 0;
  bool settles = false;
  float clip = 0, scaled_clip = 0, slack = 0, underflow = 0;
  std::uint32_t one = 0, settled = 0, widest = 0;
  std::map<TileKey, int> kernels = {};
  int exact = 0, open = 0;
  int records = 0, input_neurons = 0, bitmaps = 0, image_count = 0, results = 0;
  int weights = 0, slices = 0, layer_slices = 0, biases = 0, rows = 0;
  std::vector<int> features = {}, ids = {};  // of the lists before a phase, in turn
  int open_narrow = 0, open_wide = 0;

  std::size_t bit_words() const { return (static_cast<std::size_t>(most_images) + 31) / 32; }
  // Behind the bits: images that enter each phase but the first, then those that one word and two leave open.
  std::size_t result_words() const { return kBitmaps * bit_words() + plan.phases.size() + 2; }
  std::size_t narrow_list() const { return plan.phases.size(); }

  std::vector<ProgramNode> nodes(ArrayPlaces at) const;
  Inference read(std::span<const std::uint32_t> words) const;
};

struct Nodes {
  const Builder& b;
  ArrayPlaces at;
  std::vector<ProgramNode> nodes = {};

  int add(ProgramNode node, Stream stream, std::vector<int> after = {}) {
    node.stream = stream;
    node.after = std::move(after);
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }
  std::uint32_t* bits(Bits which) const { return array_at<std::uint32_t>(at, b.results) + which * b.bit_words(); }
  std::uint32_t* count(std::size_t list) const {
    return list == 0 ? array_at<std::uint32_t>(at, b.image_count) : bits(kBitmaps) + list;
  }

  BlocksArguments arguments(bool upper) const {
    return {.records = at[b.records],
            .first_layer = 0,
            .end_layer = b.geometry.layers,
            .bitmaps = array_at<std::uint32_t>(at, b.bitmaps),
            .input_neurons = array_at<std::uint16_t>(at, b.input_neurons),
            .features = nullptr,
            .ids = nullptr,
            .count = nullptr,
            .out_features = nullptr,
            .out_ids = nullptr,
            .out_count = nullptr,
            .categories = nullptr,
            .clip = b.scaled_clip,
            .slack = upper ? 1 + b.slack : 1 - b.slack,
            .shift = upper ? b.underflow : 0,
            .one = b.one,
            .round_up = upper ? 0x1fffU : 0U,
            .settled = b.settled};
  }
  ProgramNode launch(std::string label, const BlocksTile& tile, bool ends_settled, const BlocksArguments& of) const {
    return launch_node(std::move(label), b.kernels.at(key_of(tile, ends_settled)), b.sms, 32 * b.geometry.warps,
                       b.geometry.shared_bytes(tile), of);
  }
  // Bounds of all layers, of the images of a list.
  ProgramNode bound(std::string label, const BlocksTile& tile, bool upper, const std::uint32_t* list,
                    const std::uint32_t* list_count, Bits to) const {
    BlocksArguments of_bound = arguments(upper);
    of_bound.ids = list;
    of_bound.count = list_count;
    of_bound.categories = bits(to);
    return launch(std::move(label), tile, b.settles, of_bound);
  }
  ProgramNode find_open(std::string label, const OpenArguments& of) const {
    return launch_node(std::move(label), b.open, kOpenBlocks, kOpenThreads, 0, of);
  }

  // Which images of the list are alive at the end: by the lower bound, then, beside the last phase, by what is finer.
  void prove(const std::uint32_t* list, const std::uint32_t* list_count) {
    auto* const narrow = array_at<std::uint32_t>(at, b.open_narrow);
    auto* const wide = array_at<std::uint32_t>(at, b.open_wide);
    std::uint32_t* const narrow_count = count(b.narrow_list());
    const int lower = add(bound("lower bounds", b.plan.lower, false, list, list_count, kLower), kMain);
    const int known = add(find_open("which are open", {list, list_count, nullptr, bits(kLower), narrow, narrow_count}),
                          kBeside, {lower});
    const int upper =
        add(bound("upper bounds of two words", b.plan.wide, true, narrow, narrow_count, kWideUpper), kThird, {known});
    add(bound("lower bounds of two words", b.plan.wide, false, narrow, narrow_count, kWideLower), kBeside);
    add(find_open("which are open still",
                  {narrow, narrow_count, bits(kWideUpper), bits(kWideLower), wide, narrow_count + 1}),
        kBeside, {upper});
    const ExactArguments exact{.weights = array_at<std::uint32_t>(at, b.weights),
                               .slice_begin = array_at<std::uint32_t>(at, b.slices),
                               .layer_slice = array_at<std::uint32_t>(at, b.layer_slices),
                               .biases = array_at<float>(at, b.biases),
                               .rows = array_at<std::uint32_t>(at, b.rows),
                               .layers = b.geometry.layers,
                               .inputs = b.geometry.inputs,
                               .buffer = b.widest,
                               .bitmaps = array_at<std::uint32_t>(at, b.bitmaps),
                               .words = bitmap_words(b.geometry.inputs),
                               .ids = wide,
                               .count = narrow_count + 1,
                               .categories = bits(kExact),
                               .clip = b.clip};
    add(launch_node("fp32", b.exact, b.sms, kExactThreads, 2 * sizeof(float) * b.widest, exact), kBeside);
  }
};

std::vector<ProgramNode> Builder::nodes(ArrayPlaces at) const {
  Nodes made{*this, at};
  ProgramNode zeros{.label = "zeros"};
  zeros.zeros = {at[results], 4 * result_words()};
  made.add(zeros, kMain);
  int first_layer = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const bool is_last = p + 1 == plan.phases.size();
    BlocksArguments of_phase = made.arguments(true);
    of_phase.first_layer = first_layer;
    of_phase.end_layer = first_layer = plan.phases[p].end_layer;
    of_phase.count = made.count(p);
    of_phase.categories = made.bits(kUpper);
    if (p > 0) {
      of_phase.bitmaps = nullptr;
      of_phase.features = array_at<std::uint32_t>(at, features[p % features.size()]);
      of_phase.ids = array_at<std::uint32_t>(at, ids[p % ids.size()]);
    }
    if (is_last) {
      made.prove(of_phase.ids, of_phase.count);
    } else {
      of_phase.out_features = array_at<std::uint32_t>(at, features[(p + 1) % features.size()]);
      of_phase.out_ids = array_at<std::uint32_t>(at, ids[(p + 1) % ids.size()]);
      of_phase.out_count = made.count(p + 1);
    }
    made.add(made.launch("to layer " + std::to_string(first_layer), plan.phases[p].tile, false, of_phase), kMain);
  }
  return made.nodes;
}

Inference Builder::read(std::span<const std::uint32_t> words) const {
  const std::size_t each = bit_words();
  Inference inference;
  for (std::size_t word = 0; word < each; ++word) {
    const std::uint32_t proven =
        words[kLower * each + word] | words[kWideLower * each + word] | words[kExact * each + word];
    if ((proven & ~words[kUpper * each + word]) != 0) {
      throw CudaError("an image is alive by its lower bound and dead by its upper bound: the kernels are wrong");
    }
    for (std::uint32_t left = proven; left != 0; left &= left - 1) {
      inference.categories.push_back(static_cast<int>(32 * word) + std::countr_zero(left));
    }
  }
  const std::span<const std::uint32_t> counts = words.subspan(kBitmaps * each);
  for (std::size_t list = 1; list < narrow_list(); ++list) {
    inference.entering.push_back(static_cast<int>(counts[list]));
  }
  inference.open_narrow = static_cast<int>(counts[narrow_list()]);
  inference.open_wide = static_cast<int>(counts[narrow_list() + 1]);
  return inference;
}

}  // namespace

BlocksKernel compile_blocks(const BlocksGeometry& geometry, const BlocksTile& tile, bool settles,
                            const std::string& architecture) {
  if (architecture.size() < 5 || std::stoi(architecture.substr(3)) < 90) {
    throw InputError("plans of blocks need an sm_90 or newer; this is " + architecture);
  }
  std::optional<BlocksKernel> best;
  for (int ahead = std::min(kMostAhead, geometry.warp_blocks); ahead > 0; --ahead) {
    if (geometry.warp_blocks % ahead != 0) {
      continue;
    }
    CompileRequest request{"feed_forward_blocks", kFeedForwardBlocksSource, architecture, {}};
    Defines& defines = request.defines;
    define(defines, "groups", tile.groups);
    define(defines, "words", tile.words);
    define(defines, "warps", geometry.warps);
    define(defines, "blocks", geometry.warp_blocks);
    define(defines, "tiles", geometry.tiles);
    define(defines, "ahead", ahead);
    define(defines, "places", geometry.places);
    define(defines, "inputs", geometry.inputs);
    define(defines, "in_place", tile.in_place);
    define(defines, "settles", settles);
    define(defines, "holes", geometry.holes);
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

CompileRequest exact_request(const std::string& architecture) {
  return {"feed_forward_exact", kFeedForwardExactSource, architecture, {}};
}

InferenceProgram blocks_program(const BlocksLayout& layout, const BlocksPlan& plan, int most_images, int sms,
                                const std::string& architecture) {
  if (!layout.monotone) {
    throw InputError(
        "plans of blocks prove which images are alive by bounds, for which no weight may be negative, and no bias "
        "positive");
  }
  const float scaled_clip = layout.clip * layout.scale;
  InferenceProgram program{.most_images = most_images, .neurons = layout.geometry.inputs};
  Builder b{
      .plan = plan,
      .geometry = layout.geometry,
      .sms = sms,
      .most_images = most_images,
      .settles = layout.keeps_clipped,
      .clip = layout.clip,
      .scaled_clip = scaled_clip,
      .slack = layout.slack,
      .underflow = layout.underflow,
      .one = to_bits(Precision::fp16, layout.scale),
      .settled = to_bits(Precision::fp16, scaled_clip * (1 - 0x1p-10F)),
      .widest = std::max(std::ranges::max(layout.exact.rows), static_cast<std::uint32_t>(layout.geometry.inputs))};
  const auto add_tile = [&](const BlocksTile& tile, bool ends_settled) {
    const TileKey key = key_of(tile, ends_settled);
    if (!b.kernels.contains(key)) {
      b.kernels[key] = program.add_kernel(compile_blocks(layout.geometry, tile, ends_settled, architecture).request,
                                          "feed_forward_blocks");
    }
  };
  std::int64_t words = 0;
  for (const BlocksPhase& phase : plan.phases) {
    add_tile(phase.tile, false);
    words = std::max(words, layout.geometry.feature_words(phase.tile));
  }
  add_tile(plan.lower, b.settles);
  add_tile(plan.wide, b.settles);
  b.exact = program.add_kernel(exact_request(architecture), "feed_forward_exact");
  b.open = program.add_kernel(exact_request(architecture), "feed_forward_open");

  const auto images = static_cast<std::size_t>(most_images);
  b.records = program.add_array(layout.records);
  b.input_neurons = program.add_array(layout.input_neurons);
  b.weights = program.add_array(layout.exact.weight);
  b.slices = program.add_array(layout.exact.slice_begin);
  b.layer_slices = program.add_array(layout.exact.layer_slice);
  b.biases = program.add_array(layout.exact.bias);
  b.rows = program.add_array(layout.exact.rows);
  b.bitmaps = program.bitmaps = program.add_array(4 * images * bitmap_words(layout.geometry.inputs));
  b.image_count = program.image_count = program.add_array(4);
  b.results = program.results = program.add_array(4 * b.result_words());
  b.open_narrow = program.add_array(4 * images);
  b.open_wide = program.add_array(4 * images);
  for (std::size_t i = 0; i < std::min<std::size_t>(plan.phases.size() - 1, 2); ++i) {
    b.features.push_back(program.add_array(4 * static_cast<std::size_t>(words) * images));
    b.ids.push_back(program.add_array(4 * images));
  }
  program.nodes = [b](ArrayPlaces places) { return b.nodes(places); };
  program.read = [b](std::span<const std::uint32_t> results) { return b.read(results); };
  return program;
}

}  // namespace onchip
