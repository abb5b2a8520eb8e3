// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/known_blocks.hpp"

#include "model/base/random.hpp"
#include "model/feed_forward/equal_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace onchip {
namespace {

constexpr std::size_t kMostKnown = 64;  // layers: networks that repeat none take no more memory and time
constexpr std::int32_t kNoRow = -1;

using FirstRows = std::vector<std::int32_t>;  // [rows]: of each row the first of its block; kNoRow: no columns

FirstRows first_rows(const Blocks& blocks, int rows) {
  FirstRows first(rows, kNoRow);
  for (int b = 0; b < blocks.count(); ++b) {
    for (const std::int32_t row : blocks.rows(b)) {
      first[row] = blocks.rows(b).front();
    }
  }
  return first;
}

bool are_equal(const SparseMatrix& weights, const FirstRows& first) {
  if (first.size() != static_cast<std::size_t>(weights.rows)) {
    return false;
  }
  for (int row = 0; row < weights.rows; ++row) {
    const auto columns = columns_of(weights, row);
    const auto expected = first[row] == kNoRow ? std::span<const std::int32_t>() : columns_of(weights, first[row]);
    if (columns.size() != expected.size() ||
        (!columns.empty() && std::memcmp(columns.data(), expected.data(), columns.size_bytes()) != 0)) {
      return false;
    }
  }
  return true;
}

// By the first rows of blocks that read an input.
using InputSignature = std::uint64_t;

std::vector<InputSignature> input_signatures(const SparseMatrix& weights, const FirstRows& first) {
  std::vector<InputSignature> of_input(weights.columns);
  for (int row = 0; row < weights.rows; ++row) {
    if (first[row] == row) {
      const InputSignature of_row = splitmix64(0, static_cast<std::uint64_t>(row));
      for (const std::int32_t column : columns_of(weights, row)) {
        of_input[column] += of_row;
      }
    }
  }
  return of_input;
}

// Whatever the order of the inputs.
std::uint64_t key_of(const std::vector<InputSignature>& of_input) {
  std::uint64_t key = 0;
  for (const InputSignature signature : of_input) {
    key += signature * (signature >> 32 | 1);
  }
  return key;
}

}  // namespace

struct KnownBlocks::Layer {
  static constexpr std::int32_t kNoClass = -1;
  struct Class {
    InputSignature signature = 0;
    std::int32_t number = kNoClass;
  };

  std::shared_ptr<const FirstRows> first;
  std::uint64_t key = 0;
  Blocks blocks;                          // the columns are another layer's
  std::vector<int> length;                // [blocks]: columns
  std::vector<std::int32_t> block_begin;  // [blocks + 1]
  std::vector<std::int32_t> block_class;  // classes of each block
  std::vector<std::int32_t> class_size;   // inputs
  std::vector<Class> by_signature;        // open addressing

  std::size_t slot_of(InputSignature signature) const {
    const std::size_t last = by_signature.size() - 1;
    std::size_t slot = signature >> 20 & last;
    while (by_signature[slot].number != kNoClass && by_signature[slot].signature != signature) {
      slot = (slot + 1) & last;
    }
    return slot;
  }

  // Of a layer whose rows are equal where this one's are.
  bool has_inputs_of(const SparseMatrix& weights, const std::vector<InputSignature>& of_input) const {
    std::vector<std::int32_t> class_of(of_input.size()), size(class_size.size());
    for (std::size_t input = 0; input < of_input.size(); ++input) {
      class_of[input] = by_signature[slot_of(of_input[input])].number;
      if (class_of[input] == kNoClass) {
        return false;
      }
      ++size[class_of[input]];
    }
    if (size != class_size) {
      return false;
    }
    std::vector<int> last_block(class_size.size(), -1);  // that has a class
    for (int b = 0; b < blocks.count(); ++b) {
      for (std::int32_t i = block_begin[b]; i < block_begin[b + 1]; ++i) {
        last_block[block_class[i]] = b;
      }
      const auto columns = columns_of(weights, blocks.rows(b).front());
      if (std::ssize(columns) != length[b] ||
          std::ranges::any_of(columns, [&](std::int32_t column) { return last_block[class_of[column]] != b; })) {
        return false;
      }
    }
    return true;
  }

  LayerStructure with_inputs_of(const SparseMatrix& weights) const {
    LayerStructure structure{blocks, {weights.rows, weights.columns, {}, {}, {}}, weights.nnz()};
    structure.remainder.row_begin.resize(static_cast<std::size_t>(weights.rows) + 1);
    for (int b = 0; b < blocks.count(); ++b) {
      std::ranges::copy(columns_of(weights, blocks.rows(b).front()), structure.blocks.columns(b).begin());
    }
    return structure;
  }
};

std::vector<std::shared_ptr<const KnownBlocks::Layer>> KnownBlocks::layers() const {
  const std::scoped_lock lock(mutex_);
  return layers_;
}

LayerStructure KnownBlocks::find(const SparseMatrix& weights) {
  if (std::optional<LayerStructure> structure = known(weights)) {
    return *std::move(structure);
  }
  LayerStructure structure = find_blocks(weights, least_fill_);
  remember(weights, structure);
  return structure;
}

std::optional<LayerStructure> KnownBlocks::known(const SparseMatrix& weights) const {
  const FirstRows* first = nullptr;      // looked at last
  std::vector<InputSignature> of_input;  // none: rows are not equal
  std::uint64_t key = 0;
  for (const std::shared_ptr<const Layer>& layer : layers()) {
    if (layer->first.get() != first) {
      first = layer->first.get();
      of_input = are_equal(weights, *first) ? input_signatures(weights, *first) : std::vector<InputSignature>();
      key = key_of(of_input);
    }
    if (!of_input.empty() && key == layer->key && layer->has_inputs_of(weights, of_input)) {
      return layer->with_inputs_of(weights);
    }
  }
  return {};
}

void KnownBlocks::remember(const SparseMatrix& weights, const LayerStructure& structure) {
  const Blocks& blocks = structure.blocks;
  const auto columns = std::ssize(blocks.column) - std::ranges::count(blocks.column, kNoNeuron);
  if (blocks.count() == 0 || structure.remainder.nnz() > 0 || structure.weights_in_blocks != kBlockRows * columns ||
      layers().size() >= kMostKnown) {
    return;
  }
  auto layer = std::make_shared<Layer>();
  layer->first = std::make_shared<const FirstRows>(first_rows(blocks, weights.rows));
  const std::vector<InputSignature> of_input = input_signatures(weights, *layer->first);
  layer->key = key_of(of_input);
  layer->blocks = blocks;
  for (int b = 0; b < blocks.count(); ++b) {
    layer->length.push_back(static_cast<int>(columns_of(weights, blocks.rows(b).front()).size()));
  }
  const SparseMatrix readers = readers_of(blocks, weights.columns);
  const RowGroups classes = equal_rows(readers);
  layer->by_signature.resize(std::bit_ceil(2 * static_cast<std::size_t>(classes.count())));
  std::vector<std::vector<std::int32_t>> classes_of(blocks.count());
  for (std::int32_t number = 0; number < classes.count(); ++number) {
    const std::int32_t input = classes.of(number).front();
    Layer::Class& slot = layer->by_signature[layer->slot_of(of_input[input])];
    if (slot.number != Layer::kNoClass) {
      return;  // two classes of one signature
    }
    slot = {of_input[input], number};
    layer->class_size.push_back(static_cast<std::int32_t>(classes.of(number).size()));
    for (const std::int32_t block : columns_of(readers, input)) {
      classes_of[block].push_back(number);
    }
  }
  layer->block_begin = {0};
  for (const std::vector<std::int32_t>& of_block : classes_of) {
    layer->block_class.insert(layer->block_class.end(), of_block.begin(), of_block.end());
    layer->block_begin.push_back(static_cast<std::int32_t>(layer->block_class.size()));
  }
  const std::scoped_lock lock(mutex_);
  // Beside those with the same rows, which are then compared once.
  const auto same = std::ranges::find_if(layers_, [&](const auto& other) { return *other->first == *layer->first; });
  if (same != layers_.end()) {
    layer->first = (*same)->first;
  }
  layers_.insert(same, std::move(layer));
}

}  // namespace onchip
