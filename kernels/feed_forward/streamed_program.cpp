// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/programs.hpp"

#include "kernels/feed_forward/bounds.hpp"
#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr int kTransposeThreads = 256, kListThreads = 512;
constexpr int kBlocksPerSm = 2;  // of threads that transpose or compact
constexpr int kStreams = 3;

enum Kernel : std::uint8_t { kMainKernel, kTranspose, kCompact };

// A kernel of some words, its entries.
struct Variant {
  int kernel[3] = {};
  int words = 1, groups = 8;
  bool settles = false;
  int images() const { return 8 * groups; }
};

struct Builder {
  BoundsProof proof;
  StreamedPlan plan;
  BlocksGeometry geometry;
  int sms = 0, most_images = 0;
  int bitmaps = 0, input_places = 0;
  Variant upper = {}, lower = {}, wide = {};
  std::vector<int> ids = {};   // of the lists before a phase, in turn
  int computed = 0, kept = 0;  // features that a phase leaves, and those alive that the next begins with
  // Of each stream: bitmaps turned, which images are alive, features of the tiles at once, and what begins as zero.
  int bits[kStreams] = {}, alive[kStreams] = {}, scratch[kStreams] = {}, control[kStreams] = {};

  int batch_groups() const { return sms / plan.sms; }
  // Tiles of the largest window: half as many again as of the plan's, where a second one would have fewer.
  std::size_t window() const {
    const std::size_t planned = static_cast<std::size_t>(batch_groups()) * plan.at_once;
    return planned + planned / 2;
  }
  std::size_t tiles(const Variant& variant) const {
    return (static_cast<std::size_t>(most_images) + variant.images() - 1) / variant.images();
  }
  std::size_t most_tiles() const { return std::max(tiles(upper), tiles(wide)); }
  std::size_t place_bytes(const Variant& variant) const {
    return sizeof(std::uint16_t) * variant.words * variant.images();
  }
  std::size_t scratch_bytes(const Variant& variant) const {
    return window() * 2 * geometry.places * place_bytes(variant);
  }
  std::size_t arrival_bytes() const { return (most_tiles() * sizeof(std::uint32_t) + 7) / 8 * 8; }
  // What begins as zero, at least: arrivals and, where tiles settle, what is known of that.
  std::size_t control_bytes(bool settles) const {
    return arrival_bytes() + (settles ? most_tiles() * kSettlings * sizeof(Settling) : 0);
  }

  // Layers of a list of images: from its bitmaps, or from kept features.
  struct Layers {
    std::string label;
    int first = 0, end = 0;
    bool is_upper = true;
    ImageList list;
    bool from_bitmaps = true;
    std::uint32_t* categories = nullptr;  // or
    ImageList next;                       // which gets the images that are alive
  };

  // Adds their launches one after another on a stream; the last one's number.
  int add(std::vector<ProgramNode>& nodes, ArrayPlaces at, const Variant& variant, const Layers& of, int stream,
          std::vector<int> after) const {
    const auto put = [&](ProgramNode node) {
      return add_node(nodes, std::move(node), stream, std::exchange(after, {}));
    };
    const bool keeps = of.next.ids != nullptr;
    const auto zeros = [&](int array, std::size_t bytes) { put(fill_node(of.label + ": zeros", at[array], bytes)); };
    zeros(alive[stream], sizeof(std::uint64_t) * tiles(variant));
    zeros(control[stream], control_bytes(variant.settles));
    if (of.from_bitmaps) {
      const TransposeArguments turned{.bitmaps = array_at<std::uint32_t>(at, bitmaps),
                                      .words = bitmap_words(geometry.inputs),
                                      .inputs = geometry.inputs,
                                      .places = geometry.places,
                                      .input_places = array_at<std::uint32_t>(at, input_places),
                                      .ids = of.list.ids,
                                      .count = of.list.count,
                                      .bits = array_at<unsigned long long>(at, bits[stream])};
      put(launch_node(of.label + ": bitmaps turned", variant.kernel[kTranspose], kBlocksPerSm * sms, kTransposeThreads,
                      0, turned));
    }
    StreamedArguments layers{.items = geometry.warps,
                             .first_layer = of.first,
                             .end_layer = of.end,
                             .places = geometry.places,
                             .bits = of.from_bitmaps ? array_at<unsigned long long>(at, bits[stream]) : nullptr,
                             .features = of.from_bitmaps ? nullptr : array_at<std::uint16_t>(at, kept),
                             .out_features = keeps ? array_at<std::uint16_t>(at, computed) : nullptr,
                             .scratch = array_at<std::uint16_t>(at, scratch[stream]),
                             .count = of.list.count,
                             .alive = array_at<unsigned long long>(at, alive[stream]),
                             .arrivals = array_at<std::uint32_t>(at, control[stream]),
                             .settling = reinterpret_cast<Settling*>(at[control[stream]] + arrival_bytes()),
                             .status = proof.status(at)};
    proof.fill(layers, at, of.is_upper);
    ProgramNode node =
        launch_node(of.label, variant.kernel[kMainKernel], batch_groups() * plan.sms, 32 * plan.warps, 0, layers);
    node.cooperative = true;
    put(std::move(node));
    const StreamedCompactArguments living{.alive = array_at<unsigned long long>(at, alive[stream]),
                                          .ids = of.list.ids,
                                          .count = of.list.count,
                                          .places = geometry.places,
                                          .features = keeps ? array_at<std::uint16_t>(at, computed) : nullptr,
                                          .out_features = keeps ? array_at<std::uint16_t>(at, kept) : nullptr,
                                          .out_ids = of.next.ids,
                                          .out_count = of.next.count,
                                          .categories = of.categories};
    return put(launch_node(of.label + ": living images", variant.kernel[kCompact], kBlocksPerSm * sms, kListThreads, 0,
                           living));
  }

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    std::vector<ProgramNode> made{proof.zeros(at)};
    const BoundsProof::AddBound bound = [&](std::vector<ProgramNode>& to, const std::string& label, Bound which,
                                            const ImageList& list, int stream, std::vector<int> after) {
      const Layers all{.label = label,
                       .end = geometry.layers,
                       .is_upper = which == Bound::wide_upper,
                       .list = list,
                       .categories = proof.bits(at, which),
                       .next = {}};
      return add(to, at, which == Bound::lower ? lower : wide, all, stream, std::move(after));
    };
    int first = 0;
    for (std::size_t p = 0; p < plan.end_layers.size(); ++p) {
      const auto list_before = [&](std::size_t phase) {
        return ImageList{phase == 0 ? nullptr : array_at<std::uint32_t>(at, ids[phase % ids.size()]),
                         proof.count(at, phase)};
      };
      const bool is_last = p + 1 == plan.end_layers.size();
      if (is_last) {
        proof.prove(made, at, list_before(p), bound);
      }
      add(made, at, upper,
          {.label = "to layer " + std::to_string(plan.end_layers[p]),
           .first = first,
           .end = plan.end_layers[p],
           .list = list_before(p),
           .from_bitmaps = p == 0,
           .categories = proof.bits(at, Bound::upper),
           .next = is_last ? ImageList{} : list_before(p + 1)},
          0, {});
      first = plan.end_layers[p];
    }
    return made;
  }
};

}  // namespace

CompileRequest streamed_request(const BlocksGeometry& geometry, const StreamedPlan& plan, int words, bool settles,
                                const std::string& architecture) {
  CompileRequest request{"feed_forward_streamed", kFeedForwardStreamedSource, architecture, {}};
  define(request.defines, "groups", words == 2 ? plan.wide_groups : plan.groups);
  define(request.defines, "words", words);
  define(request.defines, "warps", plan.warps);
  define(request.defines, "blocks", geometry.warp_blocks);
  define(request.defines, "tiles", geometry.tiles);
  define(request.defines, "remainder", geometry.remainder);
  define(request.defines, "sms", plan.sms);
  define(request.defines, "at_once", plan.at_once);
  define(request.defines, "settles", settles);
  define(request.defines, "holes", geometry.holes);
  return request;
}

InferenceProgram streamed_program(const BlocksLayout& layout, const StreamedPlan& plan, int most_images, int sms,
                                  const std::string& architecture) {
  check_monotone(layout);
  if (architecture_number(architecture) < 90) {
    throw InputError("streamed plans need an sm_90 or newer; this is " + architecture);
  }
  if (plan.sms > sms) {
    throw InputError("a batch group has " + std::to_string(plan.sms) + " SMs; there are " + std::to_string(sms));
  }
  const BlocksGeometry& geometry = layout.geometry;
  InferenceProgram program{{}, most_images, geometry.inputs};
  const BoundsProof proof(program, layout, plan.end_layers.size(), most_images, sms, architecture);
  Builder b{.proof = proof,
            .plan = plan,
            .geometry = geometry,
            .sms = sms,
            .most_images = most_images,
            .bitmaps = program.bitmaps,
            .input_places = program.add_array(layout.input_places)};
  const auto variant = [&](int words, bool settles) {
    const CompileRequest request = streamed_request(geometry, plan, words, settles, architecture);
    Variant made{.words = words, .groups = words == 2 ? plan.wide_groups : plan.groups, .settles = settles};
    made.kernel[kMainKernel] = program.add_kernel(request, "feed_forward_streamed");
    made.kernel[kTranspose] = program.add_kernel(request, "feed_forward_transpose");
    made.kernel[kCompact] = program.add_kernel(request, "feed_forward_compact");
    return made;
  };
  b.upper = variant(1, false);
  b.lower = layout.keeps_clipped ? variant(1, true) : b.upper;
  b.wide = variant(2, layout.keeps_clipped);
  for (int stream = 0; stream < kStreams; ++stream) {
    b.bits[stream] = program.add_array(sizeof(std::uint64_t) * geometry.places * b.most_tiles());
    b.alive[stream] = program.add_array(sizeof(std::uint64_t) * b.most_tiles());
    b.scratch[stream] = program.add_array(std::max(b.scratch_bytes(b.upper), b.scratch_bytes(b.wide)));
    b.control[stream] = program.add_array(b.control_bytes(true));
  }
  if (plan.end_layers.size() > 1) {
    const std::size_t bytes = b.tiles(b.upper) * geometry.places * b.place_bytes(b.upper);
    b.computed = program.add_array(bytes);
    b.kept = program.add_array(bytes);
    for (int i = 0; i < 2; ++i) {
      b.ids.push_back(program.add_array(sizeof(std::uint32_t) * most_images));
    }
  }
  program.nodes = [b](ArrayPlaces places) { return b.nodes(places); };
  program.read = [proof](std::span<const std::uint32_t> results) { return proof.read(results); };
  return program;
}

}  // namespace onchip
