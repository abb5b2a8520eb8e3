// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/programs.hpp"

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace onchip {
namespace {

constexpr int kThreadsOfSm = 2048, kBlocksOfSm = 32;  // more than are resident wait for others, no harm
constexpr std::size_t kAlignment = 256;

// A layer in the bytes of all.
struct Record {
  std::size_t begin = 0, bytes = 0;
  std::array<std::size_t, 8> places{};  // of its arrays, in the order of StagedArguments, from its begin
  std::uint32_t inputs = 0, outputs = 0, blocks = 0;
  bool is_linear = false;
};

// What a host that compacts keeps between layers.
struct HostLists {
  std::vector<std::uint32_t> alive, rows, ids;
  std::uint32_t count = 0;
};

struct Builder {
  StagedPlan plan;
  float clip = 0;
  int first_drop = 0, sms = 0, most_images = 0;
  std::vector<Record> records = {};
  std::shared_ptr<std::vector<std::byte>> bytes = std::make_shared<std::vector<std::byte>>();
  std::shared_ptr<HostLists> host = std::make_shared<HostLists>();
  int first_kernel = 0, layer_kernel = 0, compact_kernel = 0;
  int weights = 0, bitmaps = 0, image_count = 0, results = 0, alive = 0, rows = 0;
  std::array<int, 2> features{}, ids{};

  int layers() const { return static_cast<int>(records.size()); }
  // Behind the bits: images that enter each layer but the first.
  std::size_t result_words() const { return bit_words(most_images) + records.size(); }
  std::size_t largest_record() const { return std::ranges::max(records, {}, &Record::bytes).bytes; }
  bool is_resident() const { return plan.residency == Residency::resident; }
  bool drops(int l) const { return plan.compaction != Compaction::none && l >= first_drop; }

  void pack(const StagedLayer& layer);
  std::vector<ProgramNode> nodes(ArrayPlaces at) const;
  Inference read(std::span<const std::uint32_t> words) const;
};

void Builder::pack(const StagedLayer& layer) {
  Record record{.begin = bytes->size(),
                .inputs = static_cast<std::uint32_t>(layer.inputs),
                .outputs = static_cast<std::uint32_t>(layer.outputs),
                .blocks = static_cast<std::uint32_t>(layer.blocks()),
                .is_linear = layer.is_linear};
  std::size_t next = 0;
  const auto add = [&]<typename T>(const std::vector<T>& array) {
    const std::span<const std::byte> of_array = std::as_bytes(std::span(array));
    record.places[next++] = bytes->size() - record.begin;
    bytes->insert(bytes->end(), of_array.begin(), of_array.end());
    bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment);
  };
  add(layer.block_chunk);
  add(layer.chunk_map);
  add(layer.slice_begin);
  add(layer.map);
  add(layer.index);
  if (plan.weights == StagedWeights::fp16) {
    std::vector<std::uint16_t> halves;
    std::ranges::transform(layer.value, std::back_inserter(halves),
                           [](float value) { return static_cast<std::uint16_t>(to_bits(Precision::fp16, value)); });
    add(halves);
  } else {
    add(layer.value);
  }
  add(layer.bias);
  add(layer.row_length);
  record.bytes = bytes->size() - record.begin;
  records.push_back(record);
}

struct Nodes {
  const Builder& b;
  ArrayPlaces at;
  std::vector<ProgramNode> nodes = {};
  std::vector<int> copy_of = {}, layer_of = {};  // nodes, by layer

  std::uint32_t* words(int array) const { return array_at<std::uint32_t>(at, array); }
  // Of the images that enter a layer.
  std::uint32_t* count(int l) const {
    return l == 0 ? words(b.image_count) : words(b.results) + bit_words(b.most_images) + l - 1;
  }
  std::string name(const char* what, int l) const { return what + (" " + std::to_string(l + 1)); }
  std::byte* record(int l) const {
    return at[b.weights] + (b.is_resident() ? b.records[l].begin : l % 2 * b.largest_record());
  }

  void zero(std::string label, std::byte* begin, std::size_t bytes) {
    add_node(nodes, fill_node(std::move(label), begin, bytes));
  }

  // Weights from the host, alternating between two places, which the layer before the last must have read.
  void copy_weights(int l) {
    const bool ahead = b.plan.residency == Residency::overlapped;
    ProgramNode node{.label = name("weights of layer", l)};
    node.from = std::span(*b.bytes).subspan(b.records[l].begin, b.records[l].bytes);
    node.to = record(l);
    copy_of.push_back(add_node(nodes, std::move(node), ahead,
                               !ahead ? std::vector<int>() : std::vector{l < 2 ? 0 : layer_of[l - 2]}));
  }

  void layer(int l, const std::uint32_t* images, const std::uint32_t* rows) {
    const Record& of = b.records[l];
    const std::byte* const base = record(l);
    const auto words_at = [&](int i) { return reinterpret_cast<const std::uint32_t*>(base + of.places[i]); };
    const auto halves_at = [&](int i) { return reinterpret_cast<const std::uint16_t*>(base + of.places[i]); };
    const StagedArguments arguments{.block_chunk = words_at(0),
                                    .chunk_map = words_at(1),
                                    .slice_begin = words_at(2),
                                    .map = halves_at(3),
                                    .index = halves_at(4),
                                    .value = base + of.places[5],
                                    .bias = reinterpret_cast<const float*>(base + of.places[6]),
                                    .row_length = words_at(7),
                                    .count = images,
                                    .rows = rows,
                                    .features = array_at<float>(at, b.features[l % 2]),
                                    .bitmaps = words(b.bitmaps),
                                    .out = array_at<float>(at, b.features[(l + 1) % 2]),
                                    .alive = l + 1 == b.layers() || b.drops(l) ? words(b.alive) : nullptr,
                                    .inputs = of.inputs,
                                    .outputs = of.outputs,
                                    .blocks = of.blocks,
                                    .words = static_cast<std::uint32_t>(bitmap_words(static_cast<int>(of.inputs))),
                                    .clip = b.clip,
                                    .is_linear = of.is_linear};
    const std::int64_t items = (std::int64_t{b.most_images} + b.plan.images - 1) / b.plan.images * of.blocks;
    const std::int64_t at_once = std::int64_t{b.sms} * std::min(kThreadsOfSm / b.plan.block_outputs, kBlocksOfSm);
    layer_of.push_back(
        add_node(nodes,
                 launch_node(name("layer", l), l == 0 ? b.first_kernel : b.layer_kernel,
                             static_cast<int>(std::clamp<std::int64_t>(items, 1, at_once)), b.plan.block_outputs,
                             static_cast<std::size_t>(b.plan.shared_bytes()), arguments),
                 0, b.plan.residency == Residency::overlapped ? std::vector{copy_of[l]} : std::vector<int>()));
  }

  void compact(int l, const std::uint32_t* images, const std::uint32_t* ids) {
    const bool is_last = l + 1 == b.layers();
    const CompactArguments arguments{.count = images,
                                     .ids = ids,
                                     .alive = words(b.alive),
                                     .next_count = is_last ? nullptr : count(l + 1),
                                     .next_rows = words(b.rows),
                                     .next_ids = words(b.ids[l % 2]),
                                     .categories = is_last ? words(b.results) : nullptr};
    const int blocks = (b.most_images + kCompactThreads - 1) / kCompactThreads;
    add_node(nodes,
             launch_node(name("compaction after layer", l), b.compact_kernel,
                         std::clamp(blocks, 1, b.sms * kThreadsOfSm / kCompactThreads), kCompactThreads, 0, arguments));
  }

  // As in 2020: flags to the host, which lists what is alive; the list to the device.
  void compact_on_host(int l, bool is_first) {
    ProgramNode node{.label = name("host after layer", l)};
    const bool is_last = l + 1 == b.layers();
    node.host = [lists = b.host, is_first, is_last, flags = words(b.alive), images = words(b.image_count),
                 to_rows = words(b.rows), to_count = is_last ? nullptr : count(l + 1), to_bits = words(b.results),
                 bits = std::vector<std::uint32_t>(bit_words(b.most_images))](const HostCopy& copy) mutable {
      if (is_first) {
        copy(&lists->count, images, 4);
        lists->ids.resize(lists->count);
        std::iota(lists->ids.begin(), lists->ids.end(), 0U);
      }
      lists->alive.resize(lists->count);
      lists->rows.resize(lists->count);
      copy(lists->alive.data(), flags, 4 * lists->alive.size());
      std::uint32_t living = 0;
      for (std::uint32_t position = 0; position < lists->count; ++position) {  // no branch to be mispredicted
        lists->ids[living] = lists->ids[position];
        lists->rows[living] = position;
        living += lists->alive[position] != 0 ? 1 : 0;
      }
      lists->rows.resize(living);
      lists->count = living;
      if (is_last) {
        std::ranges::fill(bits, 0U);
        for (const std::uint32_t id : std::span(lists->ids).first(lists->count)) {
          bits[id / 32] |= 1U << id % 32;
        }
        copy(to_bits, bits.data(), 4 * bits.size());
      } else {
        copy(to_count, &lists->count, 4);
        copy(to_rows, lists->rows.data(), 4 * lists->rows.size());
      }
    };
    add_node(nodes, std::move(node));
  }
};

std::vector<ProgramNode> Builder::nodes(ArrayPlaces at) const {
  Nodes made{*this, at};
  const std::size_t flag_bytes = 4 * static_cast<std::size_t>(most_images);
  made.zero("zeros", at[results], 4 * result_words());
  made.zero("no image is alive", at[alive], flag_bytes);
  const std::uint32_t *count = made.count(0), *rows_now = nullptr, *ids_now = nullptr;
  for (int l = 0; l < layers(); ++l) {
    if (plan.residency == Residency::copied || (l == 0 && !is_resident())) {
      made.copy_weights(l);
    }
    if (plan.residency == Residency::overlapped && l + 1 < layers()) {
      made.copy_weights(l + 1);
    }
    made.layer(l, count, rows_now);
    if (drops(l) && plan.compaction == Compaction::host) {
      made.compact_on_host(l, count == made.count(0));
      made.zero("no image is alive", at[alive], flag_bytes);
    } else if (drops(l) || l + 1 == layers()) {
      made.compact(l, count, ids_now);
      ids_now = made.words(ids[l % 2]);
    }
    if (drops(l) && l + 1 < layers()) {
      count = made.count(l + 1);
      rows_now = made.words(rows);
    }
  }
  return made.nodes;
}

Inference Builder::read(std::span<const std::uint32_t> words) const {
  const std::size_t bits = bit_words(most_images);
  Inference inference;
  inference.categories = images_set(words.first(bits));
  for (int l = 1; l < layers(); ++l) {
    if (drops(l - 1)) {
      inference.entering.push_back(static_cast<int>(words[bits + l - 1]));
    }
  }
  return inference;
}

}  // namespace

CompileRequest staged_request(const StagedPlan& plan, const std::string& architecture, bool has_linear) {
  CompileRequest request{"feed_forward_staged", kFeedForwardStagedSource, architecture, {}};
  define(request.defines, "block_outputs", plan.block_outputs);
  define(request.defines, "images", plan.images);
  define(request.defines, "chunk_inputs", plan.chunk_inputs());
  define(request.defines, "staged", plan.staging == Staging::shared);
  define(request.defines, "blocked", plan.blocking == ImageBlocking::registers);
  define(request.defines, "half", plan.weights == StagedWeights::fp16);
  define(request.defines, "linear", has_linear);
  return request;
}

InferenceProgram staged_program(const StagedLayout& layout, int most_images, int sms, const std::string& architecture) {
  InferenceProgram program{{}, most_images, layout.layers.front().inputs};
  Builder b{.plan = layout.plan,
            .clip = layout.clip,
            .first_drop = layout.first_drop,
            .sms = sms,
            .most_images = most_images};
  std::size_t widest = 0;
  for (const StagedLayer& layer : layout.layers) {
    b.pack(layer);
    widest = std::max<std::size_t>(widest, layer.outputs);
  }
  const CompileRequest request =
      staged_request(layout.plan, architecture,
                     std::ranges::any_of(layout.layers, [](const StagedLayer& layer) { return layer.is_linear; }));
  b.first_kernel = program.add_kernel(request, "feed_forward_staged_first");
  b.layer_kernel = program.add_kernel(request, "feed_forward_staged");
  b.compact_kernel = program.add_kernel(compact_request(architecture), "feed_forward_compact");
  const auto images = static_cast<std::size_t>(most_images);
  b.weights = b.is_resident() ? program.add_array(*b.bytes) : program.add_array(2 * b.largest_record());
  b.bitmaps = program.bitmaps = program.add_array(4 * images * bitmap_words(program.neurons));
  b.image_count = program.image_count = program.add_array(4);
  b.results = program.results = program.add_array(4 * b.result_words());
  b.alive = program.add_array(4 * images);
  b.rows = program.add_array(4 * images);
  for (int i = 0; i < 2; ++i) {
    b.features[i] = program.add_array(4 * widest * images);
    b.ids[i] = program.add_array(4 * images);
  }
  program.features = b.features[b.layers() % 2];
  program.feature_neurons = layout.layers.back().outputs;
  program.nodes = [b](ArrayPlaces places) { return b.nodes(places); };
  program.read = [b](std::span<const std::uint32_t> results) { return b.read(results); };
  return program;
}

}  // namespace onchip
