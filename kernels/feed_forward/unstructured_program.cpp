// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/programs.hpp"

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"

#include <algorithm>

namespace onchip {
namespace {

struct Phase {
  int kernel = 0, end_layer = 0;
  int entries = 0, warp_begin = 0, layer_items = 0, halves = 0, destinations = 0, biases = 0;  // arrays
  UnstructuredGeometry geometry;
  int items = 0;  // of a warp
  int layers = 0, inputs = 0, outputs = 0;
};

struct Builder {
  std::vector<Phase> phases;
  int sms = 0, most_images = 0;
  float clip = 0;
  bool may_end = false, keeps_features = false;
  int bitmaps = -1, list_begin = -1, list_neuron = -1, list_value = -1, image_count = 0, results = 0;
  std::vector<int> features = {}, ids = {};  // of the lists behind a phase, in turn

  std::size_t lists() const { return phases.size() - (keeps_features ? 0 : 1); }
  // A bit for each image that is alive, then the images that enter each phase, and those whose features are kept.
  std::size_t result_words() const { return bit_words(most_images) + phases.size() + 1; }

  std::vector<ProgramNode> nodes(ArrayPlaces at) const {
    auto* const words = array_at<std::uint32_t>(at, results);
    const auto count = [&](std::size_t p) {
      return p == 0 ? array_at<std::uint32_t>(at, image_count) : words + bit_words(most_images) + p;
    };
    std::vector<ProgramNode> made{fill_node("zeros", at[results], 4 * result_words())};
    for (std::size_t p = 0; p < phases.size(); ++p) {
      const Phase& phase = phases[p];
      UnstructuredArguments of{.entries = at[phase.entries],
                               .warp_begin = array_at<std::uint32_t>(at, phase.warp_begin),
                               .layer_items = array_at<std::uint32_t>(at, phase.layer_items),
                               .halves = array_at<std::uint32_t>(at, phase.halves),
                               .destinations = array_at<std::uint32_t>(at, phase.destinations),
                               .biases = array_at<float>(at, phase.biases),
                               .items = phase.items,
                               .layers = phase.layers,
                               .inputs = phase.inputs,
                               .outputs = phase.outputs,
                               .may_end = may_end ? 1U : 0U,
                               .clip = clip,
                               .words = bitmap_words(phase.inputs),
                               .count = count(p),
                               .categories = words};
      if (p > 0) {
        of.features = array_at<float>(at, features[(p - 1) % 2]);
        of.ids = array_at<std::uint32_t>(at, ids[(p - 1) % 2]);
      } else if (list_begin < 0) {
        of.bitmaps = array_at<std::uint32_t>(at, bitmaps);
      } else {
        of.list_begin = array_at<unsigned long long>(at, list_begin);
        of.list_neuron = array_at<std::uint32_t>(at, list_neuron);
        of.list_value = array_at<float>(at, list_value);
      }
      if (p < lists()) {
        of.out_features = array_at<float>(at, features[p % 2]);
        of.out_ids = array_at<std::uint32_t>(at, ids[p % 2]);
        of.out_count = count(p + 1);
      }
      made.push_back(launch_node("to layer " + std::to_string(phase.end_layer), phase.kernel, sms,
                                 32 * phase.geometry.warps, phase.geometry.shared_bytes(), of));
    }
    return made;
  }

  Inference read(std::span<const std::uint32_t> words) const {
    const std::size_t bits = bit_words(most_images);
    Inference inference;
    inference.categories = images_set(words.first(bits));
    for (std::size_t p = 1; p < phases.size(); ++p) {
      inference.entering.push_back(static_cast<int>(words[bits + p]));
    }
    inference.kept = static_cast<int>(words[bits + phases.size()]);
    return inference;
  }
};

}  // namespace

CompileRequest unstructured_request(const UnstructuredGeometry& geometry, Precision weight_type,
                                    const std::string& architecture, bool has_linear) {
  CompileRequest request{"feed_forward_unstructured", kFeedForwardUnstructuredSource, architecture, {}};
  define(request.defines, "images", geometry.tile.images);
  define(request.defines, "warps", geometry.warps);
  define(request.defines, "held", geometry.held);
  define(request.defines, "places", geometry.places);
  define(request.defines, "zeros", geometry.zeros);
  define(request.defines, "copies", geometry.tile.copies);
  define(request.defines, "ahead", geometry.ahead);
  define(request.defines, "weight", weight_type == Precision::fp16 ? 0 : weight_type == Precision::bf16 ? 1 : 2);
  define(request.defines, "linear", has_linear);
  return request;
}

InferenceProgram unstructured_program(const UnstructuredLayout& layout, int most_images, int sms,
                                      const std::string& architecture, const UnstructuredOptions& options) {
  InferenceProgram program{{}, most_images, layout.phases.front().neurons.front()};
  Builder b{.phases = {},
            .sms = sms,
            .most_images = most_images,
            .clip = layout.clip,
            .may_end = !layout.wakes_zeros,
            .keeps_features = options.keeps_features};
  for (const UnstructuredLayout::Phase& phase : layout.phases) {
    const int layers = static_cast<int>(phase.neurons.size()) - 1;
    b.phases.push_back({.kernel = program.add_kernel(
                            unstructured_request(phase.geometry, layout.weight_type, architecture, phase.has_linear),
                            "feed_forward_unstructured"),
                        .end_layer = phase.first_layer + layers,
                        .entries = program.add_array(phase.entries),
                        .warp_begin = program.add_array(phase.warp_begin),
                        .layer_items = program.add_array(phase.layer_items),
                        .halves = program.add_array(phase.halves),
                        .destinations = program.add_array(phase.destination),
                        .biases = program.add_array(phase.bias),
                        .geometry = phase.geometry,
                        .items = static_cast<int>(phase.halves.size() / phase.geometry.warps),
                        .layers = layers,
                        .inputs = phase.neurons.front(),
                        .outputs = phase.neurons.back()});
  }
  const auto images = static_cast<std::size_t>(most_images);
  if (options.takes_lists) {
    const std::size_t most = images * program.neurons;
    b.list_begin = program.list_begin = program.add_array(sizeof(std::uint64_t) * (images + 1));
    b.list_neuron = program.list_neuron = program.add_array(sizeof(std::uint32_t) * most);
    b.list_value = program.list_value = program.add_array(sizeof(float) * most);
  } else {
    b.bitmaps = program.bitmaps = program.add_array(4 * images * bitmap_words(program.neurons));
  }
  b.image_count = program.image_count = program.add_array(4);
  b.results = program.results = program.add_array(4 * b.result_words());
  for (std::size_t i = 0; i < std::min<std::size_t>(b.lists(), 2); ++i) {
    std::size_t widest = 0;
    for (std::size_t p = i; p < b.lists(); p += 2) {
      widest = std::max(widest, static_cast<std::size_t>(b.phases[p].outputs));
    }
    b.features.push_back(program.add_array(sizeof(float) * widest * images));
    b.ids.push_back(program.add_array(4 * images));
  }
  if (options.keeps_features) {
    program.features = b.features[(b.lists() - 1) % 2];
    program.feature_ids = b.ids[(b.lists() - 1) % 2];
    program.feature_neurons = b.phases.back().outputs;
  }
  program.nodes = [b](ArrayPlaces places) { return b.nodes(places); };
  program.read = [b](std::span<const std::uint32_t> results) { return b.read(results); };
  return program;
}

}  // namespace onchip
